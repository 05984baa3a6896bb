// Certifies single-precision solutions in double precision.
//
// An atom outside Λ whose |ρ_j| lies below λ1 by more than a bound on the error of ρ cannot violate Lemma 1. The few others are
// doubtful: their ρ_j is computed again.
#pragma once

#include "simd/kernels.hpp"
#include "simd/vectors.hpp"

namespace taskdict::TASKDICT_ISA {

inline constexpr double more_than_float_roundoff = 6e-8;  // the unit roundoff is 2⁻²⁴

// Lists the atoms outside Λ that may violate Lemma 1 if ρ is off by `slack` at most.
inline Index find_doubtful(Workspace<float>& w, const Gram<float>& gram, double lambda1, bool positive, double slack) {
    const double safe = lambda1 - slack;
    const Vector<float> bound = broadcast(float(safe - 4 * more_than_float_roundoff * std::fabs(safe)));
    Index doubtful = 0;
    for (Index at = 0; at < gram.stride; at += lanes<float>) {
        const Vector<float> value = load(w.rho + at);
        unsigned mask = greater_mask<float>(positive ? value : abs<float>(value), bound);
        for (; mask; mask &= mask - 1) {
            const std::int32_t atom = std::int32_t(at + __builtin_ctz(mask));
            if (atom < gram.atoms && w.position[atom] < 0) w.found[doubtful++] = atom;
        }
    }
    return doubtful;
}

// Numbers of either precision as doubles.
inline Vector<double> load_wide(const float* from) {
    typedef float Half __attribute__((vector_size(vector_bytes / 2), may_alias, aligned(alignof(float))));
    return __builtin_convertvector(*reinterpret_cast<const Half*>(from), Vector<double>);
}

inline Vector<double> load_wide(const double* from) {
    return load_unaligned(from);
}

// residual = x − Dα in double precision, for the single-precision α in `w`; room for m numbers, in whole vectors.
inline void reconstruct(const Workspace<float>& w, const float* atoms, Index m, const float* x, double* residual) {
    const Index k = w.size, whole = m / lanes<double> * lanes<double>;
    for (Index at = 0; at < whole; at += lanes<double>) {
        Vector<double> sum = load_wide(x + at);
        for (Index i = 0; i < k; ++i) sum -= double(w.alpha[i]) * load_wide(atoms + w.atoms[i] * m + at);
        store(residual + at, sum);
    }
    for (Index at = whole; at < m; ++at) {
        residual[at] = double(x[at]);
        for (Index i = 0; i < k; ++i) residual[at] -= double(w.alpha[i]) * double(atoms[w.atoms[i] * m + at]);
    }
}

// ‖x − Dα‖² in double precision. Sets `residual` as `reconstruct` does.
inline double squared_error(const Workspace<float>& w, const float* atoms, Index m, const float* x, double* residual) {
    reconstruct(w, atoms, m, x, residual);
    const Index whole = m / lanes<double> * lanes<double>;
    Vector<double> sums = {};
    for (Index at = 0; at < whole; at += lanes<double>) sums += load(residual + at) * load(residual + at);
    double sum = total<double>(sums);
    for (Index at = whole; at < m; ++at) sum += residual[at] * residual[at];
    return sum;
}

// The largest violation of Lemma 1 by the single-precision solution in `w`, measured in double precision on Λ and on the doubtful
// atoms. `residual` is scratch for m numbers, in whole vectors.
inline double check_doubtful(Workspace<float>& w, const DoubtfulProblem& problem, double* residual) {
    const Index m = problem.m;
    const float *const atoms = problem.atoms, *const x = problem.x;
    const double lambda1 = problem.lambda1, lambda2 = problem.lambda2;
    const Index k = w.size, whole = m / lanes<double> * lanes<double>;
    reconstruct(w, atoms, m, x, residual);
    const auto correlation = [&](std::int32_t atom) {
        const float* row = atoms + atom * m;
        Vector<double> sums = {};
        for (Index at = 0; at < whole; at += lanes<double>) sums += load_wide(row + at) * load(residual + at);
        double sum = total<double>(sums);
        for (Index at = whole; at < m; ++at) sum += double(row[at]) * residual[at];
        return sum;
    };
    double worst = 0;
    for (Index i = 0; i < k; ++i) {
        const double off = std::fabs(correlation(w.atoms[i]) - lambda2 * double(w.alpha[i]) - lambda1 * double(w.sign[i]));
        worst = off > worst ? off : worst;
    }
    const Index doubtful = find_doubtful(w, problem.gram, lambda1, problem.positive, problem.slack);
    for (Index f = 0; f < doubtful; ++f) {
        const double rho = correlation(w.found[f]), violation = (problem.positive ? rho : std::fabs(rho)) - lambda1;
        worst = violation > worst ? violation : worst;
    }
    return worst;
}

}  // namespace taskdict::TASKDICT_ISA
