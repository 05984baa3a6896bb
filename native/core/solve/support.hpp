// The support Λ of one code, its coefficients, and the inverse of M_ΛΛ, where M = DᵀD + λ2 I.
//
// SparsityPattern are small (tens of atoms). At that size the explicit inverse beats a triangular factor: adding an atom,
// dropping one and solving are each one or two sweeps of k² multiply-adds in full vectors, without the chain of
// dependent steps of a substitution, and the order of the atoms is free. The inverse is less
// accurate than a factor. The solvers compensate for this: they always solve for a correction to the measured residual of Lemma 1.
#pragma once

#include <utility>

#include "simd/kernels.hpp"
#include "simd/vectors.hpp"

namespace taskdict::TASKDICT_ISA {

// The share of the digits of an inverse below which it is computed anew.
inline constexpr double enough_digits = 1e-6;

enum class Joined { yes, needless, dependent };

template <class T>
class Support {
  public:
    Support(Workspace<T>& workspace, const Gram<T>& gram, bool careful = false) : w(workspace), gram_(gram), careful_(careful) {}

    Index size() const { return w.size; }
    const T* gram_row(Index i) const { return gram_.rows + w.atoms[i] * gram_.stride; }

    // Appends an atom with coefficient zero, unless
    // - it depends on Λ up to the relative `threshold` on the squared distance from the span, so that the inverse would
    //   be useless, or
    // - the minimum over Λ ∪ {atom} gives it the other sign: atoms that joined before it in this pass make it needless.
    Joined add(std::int32_t atom, T sign, T residual, T threshold) {
        const T* row = gram_.rows + atom * gram_.stride;
        const Index k = w.size;
        T distance = project(atom);
        if (careful_ && k < gram_.rank && !(distance > threshold * row[atom]) && rebuild(0)) distance = project(atom);
        Vector<T> explained = {};
        for (Index i = 0; i < k; i += lanes<T>) explained += load(w.residual + i) * load(w.product + i);
        if (k >= gram_.rank || !(distance > threshold * row[atom])) return Joined::dependent;
        if (!((residual - total<T>(explained)) * sign > 0)) return Joined::needless;
        append(atom, sign, residual, distance);
        return Joined::yes;
    }

    // Brings in an atom that depends on Λ, in exchange for one of Λ. With d_j = D_Λ u, a move of α_j by t s and of α_Λ by −t s u leaves
    // Dα where it is, so the objective falls with slope λ1 − |ρ_j|, up to the first coefficient that becomes zero. That atom leaves,
    // and d_j takes its place. Where d_j is nearly dependent, the move ends at the minimum along its way. False if nothing has moved.
    bool exchange(std::int32_t atom, T sign, T residual, T threshold) {
        const T* row = gram_.rows + atom * gram_.stride;
        T moved = 0;
        bool changed = false;
        for (;;) {
            const T distance = w.size < gram_.rank ? project(atom) : (project(atom), T(0));
            if (distance > threshold * row[atom]) {
                append(atom, sign, residual, distance);
                w.alpha[w.size - 1] = moved * sign;
                return true;
            }
            const T curvature = distance > 0 ? distance : T(0);
            T length = curvature > 0 && residual * sign > 0 ? residual * sign / curvature : T(-1);
            Index out = -1;
            for (Index i = 0; i < w.size; ++i) {
                if (!(w.alpha[i] * w.product[i] * sign > 0)) continue;
                const T until = w.alpha[i] / (w.product[i] * sign);
                if (length < 0 || until <= length) length = until, out = i;
            }
            if (out < 0) return changed;
            for (Index i = 0; i < w.size; ++i) {
                const T value = w.alpha[i] - length * sign * w.product[i];
                w.alpha[i] = value * w.alpha[i] > 0 ? value : T(0);
            }
            residual -= length * sign * curvature;
            moved += length;
            changed = true;
            drop(out);
            restore_digits();
        }
    }

    // Computes the inverse anew if removals have cost it too many digits.
    void restore_digits() {
        if (w.digits < T(enough_digits)) rebuild(0);
    }

    // Computes the inverse anew from M, by Gauss-Jordan elimination with the largest pivot first. This restores the digits
    // that many changes have cost. False if Λ is dependent up to the relative `threshold`.
    bool rebuild(T threshold) {
        w.digits = 1;
        const Index k = w.size, padded = vectors(k) * lanes<T>;
        for (Index i = 0; i < k; ++i) {
            T* const row = inverse_row(i);
            for (Index j = 0; j < k; ++j) row[j] = gram_row(i)[w.atoms[j]];
            for (Index j = k; j < padded; ++j) row[j] = 0;
            w.column[i] = T(1) / gram_row(i)[w.atoms[i]];  // for the pivots to come
        }
        for (Index done = 0; done < k; ++done) {
            Index pivot = 0;
            T largest_yet = 0;
            for (Index i = 0; i < k; ++i) {
                const T share = inverse_row(i)[i] * w.column[i];
                if (share > largest_yet) largest_yet = share, pivot = i;
            }
            if (!(largest_yet > threshold)) return false;
            w.column[pivot] = 0;
            T* const row = inverse_row(pivot);
            const Vector<T> scale = broadcast(T(1) / row[pivot]);
            row[pivot] = 1;
            for (Index j = 0; j < k; j += lanes<T>) store(row + j, load(row + j) * scale);
            for (Index i = 0; i < k; ++i) {
                if (i == pivot) continue;
                T* const other = inverse_row(i);
                const Vector<T> factor = broadcast(other[pivot]);
                other[pivot] = 0;
                for (Index j = 0; j < k; j += lanes<T>) store(other + j, load(other + j) - factor * load(row + j));
            }
        }
        return true;
    }

    // Removes Λ[i]; the last atom takes its place.
    void drop(Index i) {
        const Index k = w.size, last = k - 1;
        w.position[w.atoms[i]] = -1;
        if (i != last) {
            T *a = inverse_row(i), *b = inverse_row(last);
            for (Index j = 0; j < k; ++j) std::swap(a[j], b[j]);
            for (Index j = 0; j < k; ++j) std::swap(inverse_row(j)[i], inverse_row(j)[last]);
            w.alpha[i] = w.alpha[last];
            w.sign[i] = w.sign[last];
            w.residual[i] = w.residual[last];
            w.atoms[i] = w.atoms[last];
            w.position[w.atoms[i]] = std::int32_t(i);
        }
        w.alpha[last] = w.sign[last] = w.residual[last] = w.step[last] = 0;
        const T* row = inverse_row(last);
        if constexpr (sizeof(T) == 8) {  // a diagonal entry keeps the absolute rounding error that it had before the removal
            T kept = 1;
            for (Index j = 0; j < last; ++j) {
                const T before = inverse_row(j)[j], share = 1 - row[j] * row[j] / (row[last] * before);
                kept = share < kept ? share : kept;
            }
            w.digits *= kept > 0 ? kept : T(0);
        }
        update_inverse(row, T(-1) / row[last], last);
        for (Index j = 0; j < last; ++j) inverse_row(j)[last] = 0;
        w.size = last;
    }

    // out = inverse · in, over whole vectors.
    void apply_inverse(const T* in, T* out) const {
        const Index k = w.size;
        in_groups(vectors(k), [&](auto n, Index first) {
            Vector<T> sums[n.value] = {};
            sum_of_rows<T, n.value>(k, in, [&](Index i) { return inverse_row(i) + first * lanes<T>; }, sums);
            for (int v = 0; v < n.value; ++v) store(out + (first + v) * lanes<T>, sums[v]);
        });
    }

    // out = inverse · in, corrected by the residual in − M_ΛΛ · out: as accurate as with a factor of M_ΛΛ. `scratch` is as long as `in`.
    void solve(const T* in, T* out, T* scratch) const {
        apply_inverse(in, out);
        if (!careful_) return;
        const Index k = w.size;
        T* const left = w.slope;
        for (int round = 0; round < 2; ++round) {
            for (Index i = 0; i < k; ++i) {
                const T* row = gram_row(i);
                T sums[4] = {in[i], 0, 0, 0};
                for (Index j = 0; j < k; ++j) sums[j % 4] -= row[w.atoms[j]] * out[j];
                left[i] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
            }
            apply_inverse(left, scratch);
            for (Index i = 0; i < k; ++i) out[i] += scratch[i];
        }
    }

    // The largest entry of rho (largest magnitude unless `positive`).
    T top(bool positive) const {
        Vector<T> largest_yet = {};
        for (Index at = 0; at < gram_.stride; at += lanes<T>) {
            const Vector<T> value = load(w.rho + at);
            largest_yet = maximum<T>(largest_yet, positive ? value : abs<T>(value));
        }
        return largest<T>(largest_yet);
    }

    // rho = c − M α, as `combine`.
    T correlate(const T* c, bool positive) const { return combine(c, w.alpha, w.rho, positive); }

    // out = c − M_Λ weights; returns its largest entry (largest magnitude unless `positive`).
    T combine(const T* c, const T* weights, T* out, bool positive) const {
        const Index k = w.size;
        Vector<T> top = {};
        in_groups(gram_.stride / lanes<T>, [&](auto n, Index first) {
            Vector<T> sums[n.value] = {};
            sum_of_rows<T, n.value>(k, weights, [&](Index i) { return gram_row(i) + first * lanes<T>; }, sums);
            for (int v = 0; v < n.value; ++v) {
                const Index at = (first + v) * lanes<T>;
                const Vector<T> value = load(c + at) - sums[v];
                store(out + at, value);
                top = maximum<T>(top, positive ? value : abs<T>(value));
            }
        });
        return largest<T>(top);
    }

    Workspace<T>& w;

  private:
    static Index vectors(Index count) { return (count + lanes<T> - 1) / lanes<T>; }
    T* inverse_row(Index i) const { return w.inverse + i * w.capacity; }

    // Sets product = u with M_ΛΛ u = M_Λj; returns the squared distance of the atom from the span of Λ.
    T project(std::int32_t atom) {
        const T* row = gram_.rows + atom * gram_.stride;
        const Index k = w.size, padded = vectors(k) * lanes<T>;
        for (Index i = 0; i < k; ++i) w.column[i] = row[w.atoms[i]];
        for (Index i = k; i < padded; ++i) w.column[i] = 0;
        solve(w.column, w.product, w.step);
        Vector<T> overlap = {};
        for (Index i = 0; i < k; i += lanes<T>) overlap += load(w.column + i) * load(w.product + i);
        return row[atom] - total<T>(overlap);
    }

    // Appends the atom that was projected last, with coefficient zero.
    void append(std::int32_t atom, T sign, T residual, T distance) {
        const Index k = w.size;
        if (k % lanes<T> == 0) {
            T* const padded[] = {w.product, w.residual, w.alpha, w.sign, w.step};  // vectors are read to their end
            for (T* vector : padded) store(vector + k, Vector<T>{});
            for (Index i = 0; i < k; ++i) store(inverse_row(i) + k, Vector<T>{});
        }
        T* last = inverse_row(k);
        for (Index i = 0; i <= k; i += lanes<T>) store(last + i, Vector<T>{});
        // With u = inverse · column, the inverse of the larger matrix is inverse + (u, −1)(u, −1)ᵀ / distance.
        w.product[k] = -1;
        w.size = k + 1;
        update_inverse(w.product, T(1) / distance, w.size);
        w.alpha[k] = 0;
        w.sign[k] = sign;
        w.residual[k] = residual;
        w.atoms[k] = atom;
        w.position[atom] = std::int32_t(k);
    }

    // inverse += scale · u uᵀ in its first rows, over all w.size columns.
    void update_inverse(const T* u, T scale, Index rows) {
        in_groups(vectors(w.size), [&](auto n, Index first) {
            Vector<T> part[n.value];
            for (int v = 0; v < n.value; ++v) part[v] = load(u + (first + v) * lanes<T>);
            for (Index i = 0; i < rows; ++i) {
                const Vector<T> factor = broadcast(u[i] * scale);
                T* to = inverse_row(i) + first * lanes<T>;
                for (int v = 0; v < n.value; ++v) store(to + v * lanes<T>, load(to + v * lanes<T>) + factor * part[v]);
            }
        });
    }

    const Gram<T>& gram_;
    const bool careful_;
};

}  // namespace taskdict::TASKDICT_ISA
