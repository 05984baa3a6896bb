// Double-precision codes at the speed of single precision.
//
// The support of almost every signal is already right in single precision. It remains to solve for α on it to full
// accuracy, with the single-precision inverse as preconditioner, and to certify the atoms outside: those whose ρ_j lies
// below λ1 by more than a bound on the single-precision error cannot violate Lemma 1; the few others are computed anew.
// A signal that fails (by a sign or a violation that only double precision shows) is passed to the double-precision solver.
#pragma once

#include "simd/products.hpp"
#include "solve/doubtful.hpp"
#include "solve/support.hpp"

namespace taskdict::TASKDICT_ISA {

inline constexpr double smallest_residual = 1e-15;  // relative to the scale: rounding in double allows no less
inline constexpr int max_corrections = 8;

// Refines the single-precision solution in `w` to the α of `buffers`, in the order of w.atoms, and sets *kkt. False: not certified.
inline bool refine(Workspace<float>& w, const RefinementProblem& problem, const RefinementBuffers& buffers, double* kkt) {
    const auto [gram32, gram, atoms, m, x, scale, lambda1, positive, tolerance, error, gram_top] = problem;
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
        if (off <= limit && (off <= smallest_residual * scale || off > before / 8)) break;
        if (round == max_corrections) return false;
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
    const double slack = error + gram_top * (moved + double(k + 4) * more_than_float_roundoff * (l1 + moved));
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

}  // namespace taskdict::TASKDICT_ISA
