// Double-precision codes at the speed of single precision.
//
// The support of almost every signal is already right in single precision. What remains is to solve for α on it to full
// accuracy, with the single-precision inverse as preconditioner, and to certify the atoms outside: those whose ρ_j lies
// below λ1 by more than a bound on the single-precision error cannot violate Lemma 1; the few others are computed anew.
// What does not pass (a sign or a violator that only double precision sees) is solved by the double-precision kernel.
#pragma once

#include "support.hpp"

namespace taskdict::TASKDICT_ISA {

// out[i] = ⟨atoms[list[i]], x⟩; rows of `atoms` are m long. Four atoms share the loads of x.
template <class T>
void correlate_some(const T* atoms, Index m, const T* x, const std::int32_t* list, Index count, T* out) {
    for (Index i = 0; i < count; i += 4) {
        const T* rows[4];
        for (int r = 0; r < 4; ++r) rows[r] = atoms + list[i + r < count ? i + r : i] * m;
        Vector<T> sums[4] = {};
        Index at = 0;
        while (at + lanes<T> <= m) {  // in slices, as in products.hpp
            const Index end = m - at < slice_length ? m : at + slice_length;
            Vector<T> slice[4] = {};
            for (; at + lanes<T> <= end; at += lanes<T>) {
                const Vector<T> value = load_unaligned(x + at);
                for (int r = 0; r < 4; ++r) slice[r] += value * load_unaligned(rows[r] + at);
            }
            for (int r = 0; r < 4; ++r) sums[r] += slice[r];
        }
        for (int r = 0; r < 4 && i + r < count; ++r) {
            T sum = total<T>(sums[r]);
            for (Index rest = at; rest < m; ++rest) sum += x[rest] * rows[r][rest];
            out[i + r] = sum;
        }
    }
}

// Lists the atoms outside Λ that may violate Lemma 1 if ρ is off by `slack` at most.
inline Index find_doubtful(Workspace<float>& w, const Gram<float>& gram, double lambda1, bool positive, double slack) {
    const double safe = lambda1 - slack;
    const Vector<float> bound = broadcast(float(safe - 4 * 6e-8 * std::fabs(safe)));
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

// Turns the single-precision solution in `w` into α (in the order of w.atoms). False: not certified.
inline bool refine(Workspace<float>& w, const Gram<float>& gram32, const Gram<double>& gram, const double* atoms, Index m, const double* x,
                   const Refinement& buffers, double scale, double lambda1, bool positive, double tolerance, double error, double gram_top,
                   double* kkt) {
    const Index k = w.size;
    const Support<float> support(w, gram32);
    double* alpha = buffers.alpha;
    double* residual = buffers.residual;
    correlate_some(atoms, m, x, w.atoms, k, buffers.c);
    const Index width = round_up(k, lanes<double>);
    for (Index i = 0; i < k; ++i) {
        const double* row = gram.rows + w.atoms[i] * gram.stride;
        double* to = buffers.block + i * buffers.capacity;
        for (Index j = 0; j < k; ++j) to[j] = row[w.atoms[j]];
        for (Index j = k; j < width; ++j) to[j] = 0;
        alpha[i] = w.alpha[i];
        buffers.c[i] -= lambda1 * double(w.sign[i]);
    }
    const double limit = tolerance * scale;
    double moved = 0, l1 = 0, off = 0, before = scale * 1e300;
    for (int round = 0;; ++round) {
        off = 0;
        in_groups(width / lanes<double>, [&](auto n, Index first) {
            Vector<double> sums[n.value] = {};
            const Index at = first * lanes<double>;
            sum_of_rows<double, n.value>(k, alpha, [&](Index i) { return buffers.block + i * buffers.capacity + at; }, sums);
            for (int v = 0; v < n.value; ++v) store(residual + at + v * lanes<double>, load(buffers.c + at + v * lanes<double>) - sums[v]);
        });
        for (Index i = 0; i < k; ++i) {
            const double size = std::fabs(residual[i]);
            off = size > off ? size : off;
            w.residual[i] = float(residual[i]);
        }
        // Good enough, and no longer improving: rounding is reached.
        if (off <= limit && (off <= 1e-15 * scale || off > before / 8)) break;
        if (round == 8) return false;
        before = off;
        support.apply_inverse(w.residual, w.step);
        for (Index i = 0; i < k; ++i) alpha[i] += double(w.step[i]);
    }
    const bool free_signs = lambda1 == 0 && !positive;
    for (Index i = 0; i < k; ++i) {
        if (!free_signs && !(alpha[i] * double(w.sign[i]) > 0)) return false;
        moved += std::fabs(alpha[i] - double(w.alpha[i]));
        l1 += std::fabs(alpha[i]);
    }
    // |ρ_j − its single-precision value| is at most `slack` for every atom.
    const double slack = error + gram_top * (moved + double(k + 4) * 6e-8 * (l1 + moved));
    const Index doubtful = find_doubtful(w, gram32, lambda1, positive, slack);
    double worst = off;
    for (Index f = 0; f < doubtful; ++f) {
        const std::int32_t atom = w.found[f];
        double rho;
        correlate_some(atoms, m, x, &atom, 1, &rho);
        const double* row = gram.rows + atom * gram.stride;
        for (Index i = 0; i < k; ++i) rho -= row[w.atoms[i]] * alpha[i];
        const double violation = (positive ? rho : std::fabs(rho)) - lambda1;
        if (violation > limit) return false;
        worst = violation > worst ? violation : worst;
    }
    *kkt = scale > 0 ? worst / scale : 0;
    return true;
}

// Single-precision numbers as doubles.
inline Vector<double> load_wide(const float* from) {
    typedef float Half __attribute__((vector_size(vector_bytes / 2), may_alias, aligned(alignof(float))));
    return __builtin_convertvector(*reinterpret_cast<const Half*>(from), Vector<double>);
}

// The largest violation of Lemma 1 by the single-precision solution in `w`, where ρ is off by `slack` at most: measured in double
// precision on Λ and on the atoms that may violate it. `residual` is scratch for m numbers, in whole vectors.
inline double check_doubtful(Workspace<float>& w, const Gram<float>& gram, const float* atoms, Index m, const float* x, double lambda1,
                             double lambda2, bool positive, double slack, double* residual) {
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
    const Index doubtful = find_doubtful(w, gram, lambda1, positive, slack);
    for (Index f = 0; f < doubtful; ++f) {
        const double rho = correlation(w.found[f]), violation = (positive ? rho : std::fabs(rho)) - lambda1;
        worst = violation > worst ? violation : worst;
    }
    return worst;
}

}  // namespace taskdict::TASKDICT_ISA
