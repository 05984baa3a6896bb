// The paper's solver: the homotopy method (LARS with drops). It follows the solution of the elastic net from λ = ‖c‖∞,
// where it is zero, down to λ1. Between two events, an atom that joins or one that leaves, the path is a straight line.
// Here as a second, independent exact method; the active-set descent needs fewer passes.
#pragma once

#include "solve/active_set.hpp"

namespace taskdict::TASKDICT_ISA {

// The first join after `lambda` as ρ falls with slope a: the step γ at which |ρ_j − γ a_j| = λ − γ, for j outside Λ.
template <class T>
T next_join(const Workspace<T>& w, Index p, T lambda, bool positive, std::int32_t excluded, T limit, std::int32_t& joins) {
    T best = limit;
    for (Index j = 0; j < p; ++j) {
        if (w.position[j] >= 0 || j == excluded) continue;
        const T rho = w.rho[j], slope = w.slope[j];
        T gamma = slope < 1 ? (lambda - rho) / (1 - slope) : limit;
        if (!positive && slope > -1) {
            const T other = (lambda + rho) / (1 + slope);
            gamma = other < gamma ? other : gamma;
        }
        if (gamma < best) best = gamma > 0 ? gamma : T(0), joins = std::int32_t(j);
    }
    return best;
}

// Residuals of M_ΛΛ step = signs: one that needs no correction, and one that shows that the inverse is too inaccurate.
inline constexpr double accurate_direction = 1e-6, poor_direction = 1e-3;

// The direction of the path: α moves by −step and ρ by slope as λ rises, with M_ΛΛ step = signs.
template <class T>
void find_direction(Support<T>& support, const Gram<T>& gram, const Settings<T>& settings) {
    Workspace<T>& w = support.w;
    support.solve(w.sign, w.step, w.column);
    if (settings.measure) {
        for (int round = 0;; ++round) {
            settings.measure(settings.context, w, w.step, false, w.slope);
            T off = 0;
            for (Index i = 0; i < w.size; ++i) {
                w.residual[i] = w.sign[i] + w.slope[w.atoms[i]];
                off = std::fabs(w.residual[i]) > off ? std::fabs(w.residual[i]) : off;
            }
            if (round == 3 || off <= T(accurate_direction)) break;
            if (off > T(poor_direction)) support.rebuild(0);
            support.apply_inverse(w.residual, w.column);
            for (Index i = 0; i < w.size; ++i) w.step[i] += w.column[i];
        }
        support.apply_inverse(w.residual, w.column);
        for (Index i = 0; i < w.size; ++i) w.step[i] += w.column[i];
        support.combine(w.slope, w.column, w.slope, false);
        for (Index i = 0; i < w.size; ++i) w.residual[i] = w.sign[i];  // as Support::add expects it
    } else {
        for (Index j = 0; j < gram.stride; ++j) w.slope[j] = 0;
        support.combine(w.slope, w.step, w.slope, false);
    }
    for (Index j = 0; j < gram.stride; ++j) w.slope[j] = -w.slope[j];
}

// Corrects α and ρ for rounding, so that they lie on the path at λ again.
template <class T>
void return_to_path(Support<T>& support, T lambda, const Settings<T>& settings) {
    Workspace<T>& w = support.w;
    settings.measure(settings.context, w, w.alpha, true, w.rho);
    measure_residual(w, w.rho, lambda);
    support.solve(w.residual, w.step, w.column);
    for (Index i = 0; i < w.size; ++i) w.alpha[i] += w.step[i];
    support.combine(w.rho, w.step, w.rho, false);
    for (Index i = 0; i < w.size; ++i) w.residual[i] = w.sign[i];
}

// Corrections of α at the end of the path.
inline constexpr int max_polish = 4;

template <class T>
Solution<T> solve_homotopy(Workspace<T>& w, const GramProblem<T>& problem, const Settings<T>& settings) {
    const auto [gram, c, top, scale, lambda1, positive] = problem;
    Support<T> support(w, gram, settings.careful);
    const T tolerance = settings.violation * scale;
    const T violation_at_zero = top - lambda1;
    for (Index j = 0; j < gram.stride; ++j) w.rho[j] = c[j];
    if (violation_at_zero <= 0) return {Outcome::solved, 0, 0};
    std::int32_t joins = 0, left = -1;
    for (Index j = 1; j < gram.atoms; ++j) {
        const T a = positive ? c[j] : std::fabs(c[j]), b = positive ? c[joins] : std::fabs(c[joins]);
        if (a > b) joins = std::int32_t(j);
    }
    T lambda = top;
    int steps = 0;
    while (lambda > lambda1) {
        if (++steps > settings.max_steps) return {Outcome::stuck, steps, T(unmeasured_kkt)};
        if (settings.poll && w.size >= polled_size) settings.poll(settings.context);
        if (joins >= 0) {
            if (support.size() == w.capacity) return {Outcome::full, steps, 0};
            const T sign = positive || w.rho[joins] > 0 ? T(1) : T(-1);
            if (support.add(joins, sign, sign, settings.dependence) != Joined::yes) return {Outcome::stuck, steps, T(unmeasured_kkt)};
        }
        find_direction(support, gram, settings);

        joins = -1;
        T gamma = lambda - lambda1;
        // A full Λ spans all signals: ρ is proportional to λ, and no atom joins but by rounding.
        if (support.size() < gram.rank) gamma = next_join(w, gram.atoms, lambda, positive, left, gamma, joins);
        Index leaves = -1;
        for (Index i = 0; i < support.size(); ++i)
            if (w.alpha[i] * w.step[i] < 0 && -w.alpha[i] / w.step[i] <= gamma) {
                gamma = -w.alpha[i] / w.step[i];
                leaves = i;
                joins = -1;
            }
        for (Index i = 0; i < support.size(); ++i) w.alpha[i] += gamma * w.step[i];
        for (Index j = 0; j < gram.stride; ++j) w.rho[j] -= gamma * w.slope[j];
        lambda -= gamma;
        if (settings.measure) return_to_path(support, lambda, settings);
        left = -1;
        if (leaves >= 0) {
            left = w.atoms[leaves];
            support.drop(leaves);
            support.restore_digits();
        } else if (joins < 0) {
            break;
        }
    }
    const bool free_signs = lambda1 == 0 && !positive;
    for (Index i = 0; i < support.size() && !free_signs; ++i)  // ties may give an atom the wrong sign
        if (!(w.alpha[i] * w.sign[i] > 0)) return {Outcome::stuck, steps, T(unmeasured_kkt)};
    // α in closed form: corrections to the measured residual, until a full pass certifies it.
    for (int polish = 0; polish < max_polish; ++polish) {
        const T violation = support.correlate(c, positive) - lambda1;
        const T off = measure_residual(w, w.rho, lambda1);
        if (violation <= tolerance && off <= tolerance) {
            const T worst = violation > off ? violation : off;
            return {Outcome::solved, steps, worst > 0 ? worst / scale : T(0)};
        }
        descend(support, free_signs, settings);
    }
    return {Outcome::stuck, steps, T(unmeasured_kkt)};
}

}  // namespace taskdict::TASKDICT_ISA
