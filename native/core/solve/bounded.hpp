// The point of the path where ‖x − Dα‖² or ‖α‖₁ has a given value, by an active-set descent in which λ1 is an unknown too.
//
// A pass is that of active_set.hpp at the present λ1. Then λ1 moves along the segment of the path that belongs to the support, in closed
// form, to where the rule is met there. With too few atoms the error is too large, so that λ1 is at first too small and then rises. The
// method ends when no atom outside violates Lemma 1, as far as it ends: unlike the descent at a fixed λ1 it has no objective that falls.
#pragma once

#include "solve/path.hpp"

namespace taskdict::TASKDICT_ISA {

inline constexpr int bounded_passes = 40;
inline constexpr double first_lambda = 0.5;      // of the largest correlation
inline constexpr double largest_fall = 0.5;      // of λ1 in one pass
inline constexpr double largest_ahead = 0.3;     // λ1 stays above this share of the largest correlation: atoms have to join first
inline constexpr double negligible_move = 1e-7;  // of λ1, relative to the scale
inline constexpr double smallest_lambda = 1e-4;  // below, the path itself is safer

// Moves α and λ to where the rule is met if the support stays. False if that is too far, or not on this support.
template <class T>
bool meet_on_support(Support<T>& support, const GramProblem<T>& problem, const PathStop& stop, const Settings<T>& settings, double least, T& lambda) {
    Workspace<T>& w = support.w;
    bool met = false;
    for (int round = 0; round < 3 && w.size > 0; ++round) {
        const Index k = w.size;
        support.apply_inverse(w.sign, w.step);
        double along = 0, squares = 0, ridge = 0, l1 = 0, explained = 0;
        for (Index i = 0; i < k; ++i) {
            const double alpha = double(w.alpha[i]), sign = double(w.sign[i]), step = double(w.step[i]);
            along += sign * step;
            l1 += sign * alpha;
            explained += alpha * (double(problem.c[w.atoms[i]]) + double(lambda) * sign + stop.lambda2 * alpha);
            squares += step * step;
            ridge += alpha * step;
        }
        const double b = double(lambda) * along + stop.lambda2 * ridge, q = along - stop.lambda2 * squares;
        const double half = (1 - largest_fall) * double(lambda), room = double(lambda) - least;
        const double most = room < half ? room : half;
        double fall = point_of_rule(stop, stop.squares - explained, l1, along, b, q, 2 * double(lambda));
        met = fall <= most;
        fall = met ? fall : most;
        if (double(lambda) - fall > double(problem.top)) fall = double(lambda) - double(problem.top);
        if (std::fabs(fall) <= negligible_move * double(problem.scale)) break;
        for (Index i = 0; i < k; ++i) w.residual[i] = T(fall) * w.sign[i];
        lambda = T(double(lambda) - fall);
        descend(support, false, settings);
        if (w.size == k) break;
    }
    return met;
}

template <class T>
PathEnd<T> solve_bounded(Workspace<T>& w, const GramProblem<T>& problem, const PathStop& stop, const Settings<T>& settings) {
    Support<T> support(w, problem.gram);
    GramProblem<T> here = problem;
    here.lambda1 = T(first_lambda) * problem.top;
    const T tolerance = settings.violation * problem.scale;
    const T* rho = problem.c;
    T top = problem.top;
    bool met = false;
    for (; w.passes < bounded_passes && here.lambda1 > T(smallest_lambda) * problem.scale; ++w.passes) {
        const T lambda1 = here.lambda1, off = measure_residual(w, rho, lambda1), violation = top > lambda1 ? top - lambda1 : T(0);
        if (met && violation <= tolerance && off <= tolerance)
            return {Outcome::solved, w.passes, lambda1, -1, (violation > off ? violation : off) / problem.scale};
        if (settings.poll && w.size >= polled_size) settings.poll(settings.context);
        const Index quarter = w.size / 4, most = quarter > settings.max_joins ? quarter : settings.max_joins;
        const Index found = find_violators(here, rho, violation, tolerance, settings.fraction, most, w.found);
        if (w.size + found > w.capacity && w.capacity < problem.gram.atoms) return {Outcome::full, w.passes, 0, -1, -1};
        Index added = 0;
        bool dependent = false;
        for (Index f = 0; f < found; ++f) {
            const std::int32_t atom = w.found[f];
            if (w.position[atom] >= 0) continue;
            const T sign = rho[atom] > 0 ? T(1) : T(-1), residual = rho[atom] - lambda1 * sign;
            const Joined joined = support.add(atom, sign, residual, settings.dependence);
            const bool exchanged = joined == Joined::dependent && added == 0 && support.exchange(atom, sign, residual, settings.dependence);
            dependent = dependent || (joined == Joined::dependent && !exchanged);
            added += joined == Joined::yes || exchanged;
            if (exchanged) break;
        }
        if (dependent && added == 0) return {Outcome::stuck, w.passes, lambda1, -1, -1};
        descend(support, false, settings);
        met = meet_on_support(support, problem, stop, settings, largest_ahead * double(top), here.lambda1);
        rho = w.rho;
        top = support.correlate(problem.c, problem.positive);
    }
    return {Outcome::stuck, w.passes, here.lambda1, -1, -1};
}

}  // namespace taskdict::TASKDICT_ISA
