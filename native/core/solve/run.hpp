// Runs a solver of the kernels with the settings of its precision.
#pragma once

#include <algorithm>

#include "simd/kernels.hpp"
#include "solve/owned_workspace.hpp"

namespace taskdict {

// Calls a solver of the kernels, with a larger workspace if it needs one.
template <class S>
Solution<S> run(Method method, OwnedWorkspace<S>& workspace, const GramProblem<S>& problem, const Settings<S>& settings) {
    const Kernels<S>& kernels = instruction_set().kernels<S>();
    const Solver<S> solver = method == Method::homotopy ? kernels.homotopy : kernels.active_set;
    for (;;) {
        const Solution<S> solution = solver(workspace.view, problem, settings);
        if (solution.outcome != Outcome::full) return solution;
        if (method == Method::homotopy) workspace.clear();  // from the beginning
        workspace.grow(std::min(2 * workspace.view.capacity, round_up(problem.gram.atoms, capacity_step)));
    }
}

// Calls a follower of the kernels, with a larger workspace if it needs one.
template <class S>
PathEnd<S> run_path(PathFollower<S> follower, OwnedWorkspace<S>& workspace, const GramProblem<S>& problem, const PathStop& stop,
                    const Settings<S>& settings) {
    for (;;) {
        workspace.clear();
        const PathEnd<S> end = follower(workspace.view, problem, stop, settings);
        if (end.outcome != Outcome::full) return end;
        workspace.grow(std::min(2 * workspace.view.capacity, round_up(problem.gram.atoms, capacity_step)));
    }
}

// Settings for a precision; with `predictor`, for a solution that is refined afterwards.
template <class S>
Settings<S> settings_for(Method method, Index p, bool predictor) {
    Settings<S> settings;
    settings.violation = sizeof(S) == 8 ? S(1e-12) : predictor ? S(2e-6) : S(1e-5);
    settings.dependence = sizeof(S) == 8 ? S(1e-10) : S(1e-4);
    settings.fraction = S(0.5);
    settings.max_joins = 8;
    settings.max_steps = method == Method::homotopy ? int(100 + 20 * std::min<Index>(p, 100000)) : 200;
    return settings;
}

}  // namespace taskdict
