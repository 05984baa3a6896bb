// Moving atoms: the dictionary update of online learning, and the projection onto their constraint set.
#pragma once

#include "system/interrupt.hpp"
#include "views.hpp"

namespace taskdict {

// One pass of block-coordinate descent on ½ tr(DᵀD A) − tr(DᵀB) over dictionaries whose atoms lie in the unit ball, and are
// non-negative if `positive` (Mairal et al. 2010, Algorithm 2). Atom j becomes the projection of d_j + (b_j − D a_j) / A_jj, the
// exact minimiser while the others stay. `atoms` and B are p × m, the symmetric A is p × p. An atom with A_jj = 0 stays unchanged.
template <class T>
void update_atoms(MatrixView<T> atoms, ConstMatrix<T> A, ConstMatrix<T> B, bool positive, int n_threads, Interrupt& interrupt);

// Replaces each row by the nearest vector of norm at most one, without negative entries if `positive`.
template <class T>
void shorten_rows(MatrixView<T> rows, bool positive);

}  // namespace taskdict
