// Orthogonal matching pursuit of one signal: the atom with the largest |⟨r, d_j⟩| joins the support Λ, then α is the least-squares
// solution on Λ and r = x − Dα. Atoms have norm one, up to rounding.
//
// The signal is seen through c = Dᵀx and M = DᵀD. With D_Λ = QR, the rows V = DᵀQ are all that a step needs: R is in them, r = x − QQᵀx
// makes the correlations fall by a multiple of the last row, and each row follows from a row of M and the earlier ones, which stay in
// the first-level cache. They are kept times the pivots of R. What this arithmetic cannot decide is `doubtful`, and left to the exact pursuit.
#pragma once

#include "solve/doubtful.hpp"
#include "solve/pursuit_workspace.hpp"

namespace taskdict::TASKDICT_ISA {

// Squared distances from the span of Λ below this have too few digits.
template <class T>
inline constexpr T doubtful_distance = sizeof(T) == 4 ? T(1e-3) : T(1e-8);

// Correlations below this many units of rounding of the signal are doubtful.
inline constexpr int doubtful_units = 32;

// Correlations on Λ above this share of the largest may change the choice of the next atom.
template <class T>
inline constexpr T doubtful_share = T(0.01);

template <class V>
using Element = decltype(V{}[0] + V{}[0]);
// |value|, by its bits.
template <class T>
inline Vector<T> magnitude(Vector<T> value) {
    using Bits = decltype(value > value);
    constexpr auto all_but_sign = sizeof(T) == 4 ? 0x7FFFFFFF : 0x7FFFFFFFFFFFFFFF;
    return (Vector<T>)((Bits)value & (Bits{} + Element<Bits>(all_but_sign)));
}

// The largest |c_j| in each lane so far, with the group of vectors that it is in.
template <class T>
struct Leaders {
    using Places = decltype(Vector<T>{} > Vector<T>{});
    Vector<T> scores = {};
    Places groups = {};

    template <int n>
    [[gnu::always_inline]] void meet(const Vector<T> (&values)[n], Index first) {
        Vector<T> top = magnitude<T>(values[0]);
        for (int v = 1; v < n; ++v) top = maximum<T>(top, magnitude<T>(values[v]));
        const Places better = top > scores;
        scores = better ? top : scores;
        groups = better ? Places{} + std::int32_t(first) : groups;
    }

    // The first of the largest; `value(at)` is the vector at an atom.
    template <class Value>
    Strongest<T> first(Index count, Value value) const {
        Strongest<T> best = {largest<T>(scores), -1};
        if (!(best.score > 0)) return best;
        constexpr unsigned all = lanes<T> == 32 ? ~0u : (1u << lanes<T>)-1;
        for (unsigned mask = all & ~greater_mask<T>(broadcast(best.score), scores); mask; mask &= mask - 1) {
            const int l = __builtin_ctz(mask);
            for (Index at = Index(groups[l]) * lanes<T>; at < count; at += lanes<T>) {
                if (magnitude<T>(value(at))[l] != best.score) continue;
                const std::int32_t atom = std::int32_t(at) + l;
                if (best.atom < 0 || atom < best.atom) best.atom = atom;
                break;
            }
        }
        return best;
    }
};

// The first atom with the largest |c_j|, or |c_j| · weights[j] unless that is null, among `count`: a whole number of vectors.
template <class T>
Strongest<T> strongest(const T* c, const T* weights, Index count) {
    Leaders<T> leaders;
    const auto value = [=](Index at) { return weights ? load(c + at) * load(weights + at) : load(c + at); };
    const Index vectors = count / lanes<T>;
    Index first = 0;
    for (; first + 4 <= vectors; first += 4) {
        Vector<T> values[4];
        for (int v = 0; v < 4; ++v) values[v] = value((first + v) * lanes<T>);
        leaders.meet(values, first);
    }
    for (; first < vectors; ++first) {
        const Vector<T> values[1] = {value(first * lanes<T>)};
        leaders.meet(values, first);
    }
    return leaders.first(count, value);
}

// residual = x − Σ_i alpha[i] · atoms[list[i]] in double precision, for m numbers; returns ‖residual‖².
template <class T>
double residual_of_code(const CodeMeasurement<T>& code, double* residual) {
    const T *const atoms = code.atoms, *const x = code.x, *const alpha = code.alpha;
    const std::int32_t* const list = code.list;
    const Index m = code.m, k = code.k;
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

// b = R⁻¹ b, with the columns of the triangle R in the workspace.
template <class T>
void solve_upper(const PursuitWorkspace<T>& w, T* b) {
    for (Index i = w.size - 1; i >= 0; --i) {
        const T* column = w.triangle + i * w.capacity;
        b[i] *= w.inverse_pivots[i];
        for (Index j = 0; j < i; ++j) b[j] -= column[j] * b[i];
    }
}

// α of the atoms themselves.
template <class T>
void set_solution(PursuitWorkspace<T>& w, const T* weights) {
    for (Index i = 0; i < w.size; ++i) w.alpha[i] = w.along[i];
    solve_upper(w, w.alpha);
    for (Index i = 0; i < w.size; ++i) w.alpha[i] *= weights[w.atoms[i]];
}

// α += (D_ΛᵀD_Λ)⁻¹ correlations
template <class T>
void correct(PursuitWorkspace<T>& w, const T* weights, const double* correlations) {
    T* const b = w.scratch;
    for (Index i = 0; i < w.size; ++i) {
        const T* column = w.triangle + i * w.capacity;
        T value = T(correlations[i]) * weights[w.atoms[i]];
        for (Index j = 0; j < i; ++j) value -= column[j] * b[j];
        b[i] = value * w.inverse_pivots[i];
    }
    solve_upper(w, b);
    for (Index i = 0; i < w.size; ++i) w.alpha[i] += b[i] * weights[w.atoms[i]];
}

template <class T>
struct Advance {
    const T *products, *rows, *weights, *before;
    T *row, *after;
    Index stride, last;
    Vector<T> along;
};

// Some vectors of `advance`. Inlined, so that the compiler knows that no store changes a pointer.
template <int n, class T>
[[gnu::always_inline]] inline void advance_vectors(const Advance<T>& to, Index first, Leaders<T>& leaders) {
    Vector<T> sums[n];
    const Index at = first * lanes<T>;
    for (int v = 0; v < n; ++v) sums[v] = load(to.products + at + v * lanes<T>);
    const T* from = to.rows + at;
    for (Index i = 0; i < to.last; ++i, from += to.stride) {
        const Vector<T> weight = broadcast(to.weights[i]);
        for (int v = 0; v < n; ++v) sums[v] -= weight * load(from + v * lanes<T>);
    }
    for (int v = 0; v < n; ++v) {
        store(to.row + at + v * lanes<T>, sums[v]);
        sums[v] = load(to.before + at + v * lanes<T>) - to.along * sums[v];
        store(to.after + at + v * lanes<T>, sums[v]);
    }
    leaders.meet(sums, first);
}

// Sets row = M_j − Σ_i column[i] · row_i / pivot_i, for the atom j that joined last, and after = before − along · row / pivot; returns
// the strongest of `after`. Rows are those of V times the pivots.
template <class T>
Strongest<T> advance(const PursuitWorkspace<T>& w, const Gram<T>& gram, const T* before) {
    const Index last = w.size - 1, stride = gram.stride, vectors = stride / lanes<T>;
    const T* const column = w.triangle + last * w.capacity;
    for (Index i = 0; i < last; ++i) w.scratch[i] = column[i] * w.inverse_pivots[i];
    const T* const products = gram.rows + w.atoms[last] * stride;
    T* const after = w.c;
    const Vector<T> along = broadcast(w.along[last] * w.inverse_pivots[last]);
    const Advance<T> to = {products, w.rows, w.scratch, before, w.rows + last * stride, after, stride, last, along};
    Leaders<T> leaders;
    Index first = 0;
    for (; first + 8 <= vectors; first += 8) advance_vectors<8>(to, first, leaders);
    for (; first + 2 <= vectors; first += 2) advance_vectors<2>(to, first, leaders);
    for (; first < vectors; ++first) advance_vectors<1>(to, first, leaders);
    return leaders.first(stride, [=](Index at) { return load(after + at); });
}

// The state is in the workspace: a call after `full` goes on from there. `residual` is scratch for m numbers, in whole vectors. Only the
// outcome `done` or `doubtful` sets α.
template <class T>
Pursued pursue(PursuitWorkspace<T>& w, const PursuitProblem<T>& problem, double* residual) {
    const Gram<T>& gram = problem.gram;
    const double unit = sizeof(T) == 4 ? 0x1p-24 : 0x1p-53;
    const auto end = [&](Pursued outcome) {
        set_solution(w, problem.weights);
        return outcome;
    };
    const auto error = [&] { return residual_of_code<T>({problem.atoms, problem.m, problem.x, w.atoms, w.alpha, w.size}, residual); };
    if (problem.max_error >= 0 && w.size == 0) {
        w.squares = error();
        if (w.squares <= problem.max_error) return Pursued::done;
    }
    for (;;) {
        const Index k = w.size;
        // ‖x − Dα‖² = ‖x‖² − ‖Qᵀx‖²; where rounding might decide, it is measured.
        if (problem.max_error >= 0 && k > 0 && w.squares - w.explained - 2 * doubtful_units * unit * w.squares <= problem.max_error) {
            set_solution(w, problem.weights);
            if (error() <= problem.max_error) return Pursued::done;
        }
        if (k == problem.max_nonzero) return end(Pursued::done);
        if (k == w.capacity) return Pursued::full;  // before c changes
        if (problem.poll && k % 16 == 15) problem.poll(problem.context);
        const T* c = k > 1 ? w.c : problem.c;
        const Strongest<T> best = k > 0 ? advance(w, gram, c) : strongest<T>(c, nullptr, gram.stride);
        if (k > 0) c = w.c;
        if (!(double(best.score) > doubtful_units * unit * problem.norm * (1 + double(w.largest_inverse)))) return end(Pursued::doubtful);
        for (Index i = 0; i < k; ++i)
            if (!(std::fabs(c[w.atoms[i]]) <= doubtful_share<T> * best.score)) return end(Pursued::doubtful);
        T* const column = w.triangle + k * w.capacity;
        T distance = gram.rows[best.atom * gram.stride + best.atom];
        for (Index i = 0; i < k; ++i) {
            column[i] = w.rows[i * gram.stride + best.atom] * w.inverse_pivots[i];
            distance -= column[i] * column[i];
        }
        if (!(distance > doubtful_distance<T>)) return end(Pursued::doubtful);
        const T inverse = T(1) / std::sqrt(distance);
        w.inverse_pivots[k] = inverse;
        w.largest_inverse = inverse > w.largest_inverse ? inverse : w.largest_inverse;
        w.along[k] = c[best.atom] * inverse;
        w.explained += double(w.along[k]) * double(w.along[k]);
        w.atoms[k] = best.atom;
        w.size = k + 1;
    }
}

}  // namespace taskdict::TASKDICT_ISA
