// The path of solutions from λ = ‖c‖∞ to the point that a rule chooses, by the homotopy method.
//
// On a segment, between an atom that joins or leaves and the next, α moves along step = M_ΛΛ⁻¹ s as λ falls, and
//
//     ‖x − Dα‖²  by  −2γ b + γ² q   with b = Σ (λ s_i + λ2 α_i) step_i and q = Σ s_i step_i − λ2 ‖step‖²,
//     ‖α‖₁       by  γ Σ s_i step_i
//
// when λ falls by γ, so that the point of the rule is known in closed form. The next atom to join is found without a division per atom:
// |ρ_j − γ a_j| − (λ − γ) is convex in γ and at most zero at γ = 0. So j joins before γ if and only if it is positive at γ.
#pragma once

#include "solve/active_set.hpp"

namespace taskdict::TASKDICT_ISA {

// Steps after which α and ρ are computed anew: until then rounding adds up.
inline constexpr int steps_between_corrections = 16;

// The part of λ in which the next atom is looked for first.
inline constexpr double near_part = 0.2;

// By how much λ falls (or rises, if negative) on a segment until a rule is met; `never` if it is not.
inline double point_of_rule(const PathStop& stop, double error, double l1, double along, double b, double q, double never) {
    if (stop.goal.rule == Rule::max_error) {
        const double excess = error - stop.goal.amount, root = b * b - q * excess;
        return root >= 0 && b > 0 ? excess / (b + __builtin_sqrt(root)) : never;
    }
    if (stop.goal.rule == Rule::max_l1) return along > 0 ? (stop.goal.amount - l1) / along : never;
    return never;
}

template <class T>
class Path {
  public:
    Path(Workspace<T>& workspace, const GramProblem<T>& problem, const PathStop& stop, const Settings<T>& settings)
        : w(workspace), problem_(problem), stop_(stop), settings_(settings), support_(workspace, problem.gram), lambda_(problem.top) {}

    PathEnd<T> follow() {
        const Index stride = problem_.gram.stride;
        if (!(lambda_ > 0)) return {Outcome::solved, 0, 0, -1};
        for (Index j = 0; j < stride; j += lanes<T>) {
            store(w.rho + j, load(problem_.c + j));
            store(w.slope + j, Vector<T>{});
        }
        const bool bounded = stop_.goal.rule != Rule::n_nonzero;
        double error = stop_.squares, l1 = 0;
        joins_ = first_join();
        for (int steps = 1; steps <= settings_.max_steps; ++steps) {
            if (settings_.poll && w.size >= polled_size) settings_.poll(settings_.context);
            if (joins_ >= 0) {
                if (stop_.goal.rule == Rule::n_nonzero && double(w.size) >= stop_.goal.amount) return {Outcome::solved, steps, lambda_, joins_};
                if (w.size == w.capacity) return {Outcome::full, steps, 0, -1};
                const T sign = problem_.positive || rho_now(joins_) > 0 ? T(1) : T(-1);
                if (support_.add(joins_, sign, sign, settings_.dependence) != Joined::yes) return {Outcome::stuck, steps, 0, -1};
                w.rho[joins_] = w.slope[joins_] = 0;  // as for all atoms in Λ, so that the search for the next passes over them
            }
            support_.solve(w.sign, w.step, w.column);
            const Index k = w.size;
            double along = 0, squares = 0, ridge = 0;
            for (Index i = 0; i < k && bounded; ++i) along += double(w.sign[i]) * double(w.step[i]);
            for (Index i = 0; i < k && bounded && stop_.lambda2 != 0; ++i) {
                squares += double(w.step[i]) * double(w.step[i]);
                ridge += double(w.alpha[i]) * double(w.step[i]);
            }
            const double b = double(lambda_) * along + stop_.lambda2 * ridge, q = along - stop_.lambda2 * squares;
            const double end = point_of_rule(stop_, error, l1, along, b, q, double(lambda_));
            T gamma = end < double(lambda_) ? T(end > 0 ? end : 0) : lambda_;
            const Index leaves = first_leave(gamma);
            joins_ = -1;
            gamma = next_join(gamma);
            const Vector<T> move = broadcast(gamma);
            for (Index i = 0; i < k; i += lanes<T>) store(w.alpha + i, load(w.alpha + i) + move * load(w.step + i));
            lambda_ -= gamma;
            if (joins_ < 0 && leaves < 0) return {Outcome::solved, steps, lambda_, -1};
            error += double(gamma) * (double(gamma) * q - 2 * b);
            l1 += double(gamma) * along;
            pending_ = gamma;
            left_ = -1;
            if (joins_ < 0) {
                left_ = w.atoms[leaves];
                w.rho[left_] = w.sign[leaves] * lambda_;
                w.slope[left_] = 0;
                support_.drop(leaves);
                support_.restore_digits();
            }
            if (steps % steps_between_corrections == 0) correct();
        }
        return {Outcome::stuck, settings_.max_steps, 0, -1};
    }

  private:
    // An atom with the largest correlation.
    std::int32_t first_join() const {
        const Vector<T> top = broadcast(lambda_);
        for (Index at = 0; at < problem_.gram.stride; at += lanes<T>) {
            const Vector<T> value = problem_.positive ? load(w.rho + at) : abs<T>(load(w.rho + at));
            if (greater_mask<T>(top, value) == all_lanes) continue;
            for (int v = 0; v < lanes<T>; ++v)
                if (value[v] >= lambda_) return std::int32_t(at + v);
        }
        return -1;
    }

    // The place in Λ of the first coefficient that becomes zero, at `gamma` at most, or −1.
    Index first_leave(T& gamma) const {
        Index leaves = -1;
        const auto shrinks = [&](Index first) { return greater_mask<T>(Vector<T>{}, load(w.alpha + first) * load(w.step + first)); };
        for_marked<T>(w.size, shrinks, [&](Index i) {
            const T until = -w.alpha[i] / w.step[i];
            if (until <= gamma) gamma = until, leaves = i;
        });
        return leaves;
    }

    T rho_now(Index j) const { return w.rho[j] - pending_ * w.slope[j]; }

    // Brings ρ up to date, and sets slope = a, by which it falls as λ does; returns when the first atom joins, if before `gamma`, and sets it.
    T next_join(T gamma) {
        const Gram<T>& gram = problem_.gram;
        const bool full = w.size >= gram.rank;  // then Λ spans all signals, and atoms join by rounding only
        // Most segments are short: looking for joins in the first part of λ only, few atoms have to be considered.
        const T near = T(near_part) * lambda_;
        T end = gamma < near ? gamma : near;
        Vector<T> best = broadcast(end), bound = broadcast(lambda_ - end);
        const Vector<T> before = broadcast(pending_);
        const Index k = w.size, stride = gram.stride;
        const T *const rows = gram.rows, *const step = w.step;
        const std::int32_t* const atoms = w.atoms;
        T *const rho = w.rho, *const slope = w.slope;
        const bool positive = problem_.positive;
        in_groups(stride / lanes<T>, [&](auto n, Index first) {
            const Index start = first * lanes<T>;
            Vector<T> sums[n.value] = {};
            sum_of_rows<T, n.value>(k, step, [rows, atoms, stride, start](Index i) { return rows + atoms[i] * stride + start; }, sums);
            Vector<T> over = {};
            for (int v = 0; v < n.value; ++v) {
                const Index at = start + v * lanes<T>;
                const Vector<T> now = load(rho + at) - before * load(slope + at), then = now - best * sums[v];
                store(rho + at, now);
                store(slope + at, sums[v]);
                over = maximum<T>(over, positive ? then : abs<T>(then));
            }
            if (greater_mask<T>(over, bound) == 0 || full) return;
            end = earliest(start, n.value, end);
            best = broadcast(end);
            bound = broadcast(lambda_ - end);
        });
        pending_ = 0;
        for (Index i = 0; i < k; ++i) slope[atoms[i]] = 0;
        if (joins_ >= 0 || end == gamma || full) return joins_ >= 0 ? end : gamma;
        return earliest(0, int(gram.stride / lanes<T>), gamma);
    }

    // Lets the first of some neighbouring atoms join that do so before `gamma`, and returns when. Out of line: the loop above is hot.
    [[gnu::noinline]] T earliest(Index first, int vectors, T gamma) {
        for (int v = 0; v < vectors; ++v, first += lanes<T>) {
            const Vector<T> value = load(w.rho + first) - broadcast(gamma) * load(w.slope + first);
            unsigned mask = greater_mask<T>(problem_.positive ? value : abs<T>(value), broadcast(lambda_ - gamma));
            for (; mask; mask &= mask - 1) consider(first + __builtin_ctz(mask), gamma);
        }
        return gamma;
    }

    // Lets an atom join if it does so before `gamma`.
    void consider(Index j, T& gamma) {
        if (j >= problem_.gram.atoms || w.position[j] >= 0) return;
        const T rho = w.rho[j], slope = w.slope[j];
        T at = gamma;
        if (slope < 1 && !(j == left_ && rho > 0)) at = (lambda_ - rho) / (1 - slope);
        if (!problem_.positive && slope > -1 && !(j == left_ && rho < 0)) {
            const T other = (lambda_ + rho) / (1 + slope);
            at = other < at ? other : at;
        }
        if (at < gamma) gamma = at > 0 ? at : T(0), joins_ = std::int32_t(j);
    }

    // Puts α and ρ on the path at λ again.
    void correct() {
        support_.correlate(problem_.c, problem_.positive);
        pending_ = 0;
        measure_residual(w, w.rho, lambda_);
        support_.solve(w.residual, w.step, w.column);
        for (Index i = 0; i < w.size; i += lanes<T>) store(w.alpha + i, load(w.alpha + i) + load(w.step + i));
        support_.combine(w.rho, w.step, w.rho, false);
        for (Index i = 0; i < w.size; ++i) {
            w.residual[i] = w.sign[i];  // as Support::add expects it
            w.rho[w.atoms[i]] = 0;
        }
    }

    static constexpr unsigned all_lanes = lanes<T> == 32 ? ~0u : (1u << lanes<T>)-1;

    Workspace<T>& w;
    const GramProblem<T>& problem_;
    const PathStop& stop_;
    const Settings<T>& settings_;
    Support<T> support_;
    T lambda_;
    T pending_ = 0;                        // ρ is still to fall by so many times its slope
    std::int32_t joins_ = -1, left_ = -1;  // an atom that has just left comes back with the other sign only
};

template <class T>
PathEnd<T> follow_path(Workspace<T>& w, const GramProblem<T>& problem, const PathStop& stop, const Settings<T>& settings) {
    return Path<T>(w, problem, stop, settings).follow();
}

}  // namespace taskdict::TASKDICT_ISA
