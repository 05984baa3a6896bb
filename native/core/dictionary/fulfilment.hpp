// Whether a code fulfils a rule.
#pragma once

#include <cmath>

#include "solve/solver.hpp"

namespace taskdict {

enum class Fulfilment { met, unmet, missed };  // unmet: no code of the path can

// Judges a code at λ1 by the number that its rule bounds, ‖x − Dα‖², ‖α‖₁ or the number of nonzeros, which was measured up to `bound`.
// The promise is relative to ‖x‖² and τ.
inline Fulfilment judge(const PathStop& stop, double lambda1, double value, double bound, double promise) {
    const double off = value - stop.goal.amount;
    switch (stop.goal.rule) {
        case Rule::max_error:
            if (std::fabs(off) + bound <= promise * stop.squares) return Fulfilment::met;
            return lambda1 == 0 && off > 0 ? Fulfilment::unmet : Fulfilment::missed;
        case Rule::max_l1: {
            const bool small = off + bound <= promise * stop.goal.amount;
            return small && (lambda1 == 0 || bound - off <= promise * stop.goal.amount) ? Fulfilment::met : Fulfilment::missed;
        }
        default: return off <= 0 ? Fulfilment::met : Fulfilment::missed;
    }
}

// A correction of λ1 so that a rule is met on the segment of the path with this α and step = M_ΛΛ⁻¹ s; `value` is as for `judge`.
struct Segment {
    double along = 0;    // Σ s_i step_i
    double squares = 0;  // ‖step‖²
    double ridge = 0;    // Σ α_i step_i
};

inline double correction(const PathStop& stop, double lambda1, double value, const Segment& segment) {
    const auto [along, squares, ridge] = segment;
    double change = 0;
    if (stop.goal.rule == Rule::max_error) {
        const double b = lambda1 * along + stop.lambda2 * ridge, q = along - stop.lambda2 * squares, lacking = stop.goal.amount - value;
        const double root = b * b + q * lacking, below = b + std::sqrt(root > 0 ? root : 0);
        change = below > 0 ? lacking / below : 0;
    } else if (stop.goal.rule == Rule::max_l1) {
        change = along > 0 ? (value - stop.goal.amount) / along : 0;
    }
    return change > -lambda1 ? change : -lambda1;
}

// Sets step = inverse · s for the support in a workspace, for k numbers.
template <class S>
Segment find_segment(const Workspace<S>& w, const auto& alpha, double* step) {
    Segment segment;
    for (Index i = 0; i < w.size; ++i) {
        const S* row = w.inverse + i * w.capacity;
        S sum = 0;
        for (Index j = 0; j < w.size; ++j) sum += row[j] * w.sign[j];
        step[i] = double(sum);
        segment.along += double(w.sign[i]) * step[i];
        segment.squares += step[i] * step[i];
        segment.ridge += double(alpha[i]) * step[i];
    }
    return segment;
}

}  // namespace taskdict
