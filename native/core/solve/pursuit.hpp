// Orthogonal matching pursuit of one signal: the atom with the largest |⟨r, d_j⟩| / ‖d_j‖ joins the support Λ, then α is the
// least-squares solution on Λ and r = x − Dα.
//
// The signal is seen through c = Dᵀx and M = DᵀD: the correlations Dᵀr = c − Mα of all atoms and the choice of the next one are one
// sweep over k rows of M. Each step solves for a correction to the measured correlations on Λ, which should be zero, so errors of the
// inverse do not add up. What this arithmetic cannot decide is `doubtful`, and left to the exact pursuit.
#pragma once

#include "solve/doubtful.hpp"
#include "solve/support.hpp"

namespace taskdict::TASKDICT_ISA {

// Squared distances below this, relative to the squared norm of the atom, have too few digits.
template <class T>
inline constexpr T doubtful_distance = sizeof(T) == 4 ? T(1e-3) : T(1e-8);

// Correlations below this many units of rounding of the signal and its approximation are doubtful.
inline constexpr int doubtful_units = 32;

// Correlations on Λ above this share of the largest may change the choice of the next atom.
template <class T>
inline constexpr T doubtful_share = T(0.01);

inline Vector<double> load_wide(const double* from) {
    return load_unaligned(from);
}

// The largest score in each lane so far, with the vector that it is in. Of equal scores, that of the smallest atom is kept.
template <class T>
struct Leaders {
    using Places = decltype(Vector<T>{} > Vector<T>{});
    Vector<T> scores = {};
    Places places = {};

    void meet(Vector<T> score, Index at) {
        const Places better = score > scores;
        scores = better ? score : scores;
        places = better ? Places{} + std::int32_t(at) : places;
    }

    Strongest<T> first() const {
        Strongest<T> best = {T(0), -1};
        for (int l = 0; l < lanes<T>; ++l) {
            const std::int32_t atom = std::int32_t(places[l]) + l;
            if (scores[l] > best.score || (scores[l] == best.score && best.atom >= 0 && atom < best.atom)) best = {scores[l], atom};
        }
        return best;
    }
};

// The atom with the largest |c_j| · weights[j] among `count`, a whole number of vectors.
template <class T>
Strongest<T> strongest(const T* c, const T* weights, Index count) {
    Leaders<T> leaders;
    for (Index at = 0; at < count; at += lanes<T>) leaders.meet(abs<T>(load(c + at)) * load(weights + at), at);
    return leaders.first();
}

// residual = x − Σ_i alpha[i] · atoms[list[i]] in double precision, for m numbers; returns ‖residual‖².
template <class T>
double residual_of_code(const CodeMeasurement<T>& code, double* residual) {
    const auto [atoms, m, x, list, alpha, k] = code;
    const Index whole = m / lanes<double> * lanes<double>;
    Vector<double> squares = {};
    in_groups(whole / lanes<double>, [&](auto n, Index first) {
        Vector<double> sums[n.value];
        const Index at = first * lanes<double>;
        for (int v = 0; v < n.value; ++v) sums[v] = load_wide(x + at + v * lanes<double>);
        for (Index i = 0; i < k; ++i) {
            const Vector<double> weight = broadcast(double(alpha[i]));
            const T* atom = atoms + list[i] * m + at;
            for (int v = 0; v < n.value; ++v) sums[v] -= weight * load_wide(atom + v * lanes<double>);
        }
        for (int v = 0; v < n.value; ++v) {
            store(residual + at + v * lanes<double>, sums[v]);
            squares += sums[v] * sums[v];
        }
    });
    double sum = total<double>(squares);
    for (Index at = whole; at < m; ++at) {
        residual[at] = double(x[at]);
        for (Index i = 0; i < k; ++i) residual[at] -= double(alpha[i]) * double(atoms[list[i] * m + at]);
        sum += residual[at] * residual[at];
    }
    return sum;
}

// out[i] = ⟨atoms[list[i]], residual⟩ in double precision. Four atoms share the loads of the residual.
template <class T>
void correlate_residual(const T* atoms, Index m, const double* residual, const std::int32_t* list, Index count, double* out) {
    for (Index i = 0; i < count; i += 4) {
        const T* rows[4];
        for (int r = 0; r < 4; ++r) rows[r] = atoms + list[i + r < count ? i + r : i] * m;
        Vector<double> sums[4] = {};
        Index at = 0;
        for (; at + lanes<double> <= m; at += lanes<double>) {
            const Vector<double> value = load(residual + at);
            for (int r = 0; r < 4; ++r) sums[r] += value * load_wide(rows[r] + at);
        }
        for (int r = 0; r < 4 && i + r < count; ++r) {
            double sum = total<double>(sums[r]);
            for (Index rest = at; rest < m; ++rest) sum += residual[rest] * double(rows[r][rest]);
            out[i + r] = sum;
        }
    }
}

// The support and the coefficients so far are in the workspace: a call after `full` goes on from there. `residual` is scratch for m
// numbers, in whole vectors.
template <class T>
Pursued pursue(Workspace<T>& w, const PursuitProblem<T>& problem, double* residual) {
    Support<T> support(w, problem.gram);
    const T* const c = problem.c;
    const Index stride = problem.gram.stride;
    const double unit = sizeof(T) == 4 ? 0x1p-24 : 0x1p-53;
    const auto error = [&] { return residual_of_code<T>({problem.atoms, problem.m, problem.x, w.atoms, w.alpha, w.size}, residual); };
    const bool bounded = problem.max_error >= 0;
    double squares = 0;
    if (bounded) {
        squares = residual_of_code<T>({problem.atoms, problem.m, problem.x, w.atoms, w.alpha, 0}, residual);
        if (squares <= problem.max_error) return Pursued::done;
    }
    for (;;) {
        const Index k = w.size;
        double explained = 0, sizes = 0, l1 = 0;
        for (Index i = 0; i < k; ++i) {
            const double part = double(w.alpha[i]) * double(c[w.atoms[i]]);
            explained += part;
            sizes += std::fabs(part);
            l1 += std::fabs(double(w.alpha[i]));
        }
        // ‖x − Dα‖² = ‖x‖² − cᵀα for the least-squares solution; where rounding might decide, it is measured.
        if (bounded && k > 0 && squares - explained - 2 * doubtful_units * unit * (squares + sizes) <= problem.max_error &&
            error() <= problem.max_error)
            return Pursued::done;
        if (k == problem.max_nonzero) return Pursued::done;
        if (problem.poll && k % 16 == 15) problem.poll(problem.context);
        Strongest<T> best;
        if (k == 0) {
            best = strongest(c, problem.weights, stride);
        } else {
            Leaders<T> leaders;
            in_groups(stride / lanes<T>, [&](auto n, Index first) {
                Vector<T> sums[n.value] = {};
                sum_of_rows<T, n.value>(k, w.alpha, [&](Index i) { return support.gram_row(i) + first * lanes<T>; }, sums);
                for (int v = 0; v < n.value; ++v) {
                    const Index at = (first + v) * lanes<T>;
                    const Vector<T> value = load(c + at) - sums[v];
                    store(w.rho + at, value);
                    leaders.meet(abs<T>(value) * load(problem.weights + at), at);
                }
            });
            best = leaders.first();
        }
        if (!(double(best.score) > doubtful_units * unit * (problem.norm + l1 * problem.largest_norm))) return Pursued::doubtful;
        if (w.position[best.atom] >= 0) return Pursued::doubtful;
        for (Index i = 0; i < k; ++i) {
            w.residual[i] = w.rho[w.atoms[i]];
            if (!(std::fabs(w.residual[i]) * problem.weights[w.atoms[i]] <= doubtful_share<T> * best.score)) return Pursued::doubtful;
        }
        if (k == w.capacity) return Pursued::full;
        const T correlation = k == 0 ? c[best.atom] : w.rho[best.atom];
        if (support.add(best.atom, correlation > 0 ? T(1) : T(-1), correlation, doubtful_distance<T>) != Joined::yes) return Pursued::doubtful;
        support.apply_inverse(w.residual, w.step);
        for (Index i = 0; i <= k; i += lanes<T>) store(w.alpha + i, load(w.alpha + i) + load(w.step + i));
    }
}

// α += (M_ΛΛ)⁻¹ correlations
template <class T>
void correct(Workspace<T>& w, const Gram<T>& gram, const double* correlations) {
    const Support<T> support(w, gram);
    for (Index i = 0; i < w.size; ++i) w.residual[i] = T(correlations[i]);
    support.apply_inverse(w.residual, w.step);
    for (Index i = 0; i < w.size; i += lanes<T>) store(w.alpha + i, load(w.alpha + i) + load(w.step + i));
}

}  // namespace taskdict::TASKDICT_ISA
