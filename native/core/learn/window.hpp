// The dictionary update of online learning from the last signals themselves, without p × p statistics.
#pragma once

#include <cstdint>

#include "batch/sparsity_pattern.hpp"
#include "system/interrupt.hpp"
#include "views.hpp"

namespace taskdict {

// The last n signals x_i with their weights w_i and codes α_i, and what is left of those before them: for each atom j the target t_j
// and the curvature a_j. Where some features of some signals are missing, each feature of an atom has a curvature of its own.
template <class T>
struct Window {
    SparsityPattern pattern;
    Numbers<T> values;                             // of the codes
    Numbers<T> weights;                            // n
    ConstMatrix<T> signals;                        // n × m
    ConstMatrix<T> targets;                        // p × m
    Numbers<T> curvatures;                         // p; p × m if `observed` is given
    MatrixView<const std::uint8_t> observed = {};  // n × m: 1 where a feature was observed, 0 elsewhere; without data if all were
};

// One pass of block-coordinate descent on Σ_i w_i ½‖x_i − Dα_i‖² + Σ_j (½ a_j‖d_j‖² − ⟨t_j, d_j⟩) over dictionaries whose atoms lie in
// the unit ball, and are non-negative if `positive`. With residuals r_i = x_i − Dα_i, atom j becomes the projection of
// d_j + (Σ_i w_i α_ij r_i + t_j − a_j d_j) / (Σ_i w_i α_ij² + a_j), the exact minimiser while the others stay; then the residuals of
// the signals that use it change. The cost is proportional to nonzeros · m. An atom without curvature stays unchanged.
//
// With missing features the first sum is Σ_i w_i ½‖o_i ∘ (x_i − Dα_i)‖² with what was observed o_i, and the residuals are zero elsewhere. The
// minimiser for one atom is found as exactly, see move_atom_by_features.
template <class T>
void update_atoms_on_window(MatrixView<T> atoms, const Window<T>& window, bool positive, int n_threads, Interrupt& interrupt);

}  // namespace taskdict
