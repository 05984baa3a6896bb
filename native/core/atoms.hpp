// What is done to atoms: the dictionary update of online learning, and the projection on their set.
#pragma once

#include "interrupt.hpp"
#include "types.hpp"

namespace taskdict {

// One pass of block-coordinate descent on ½ tr(DᵀD A) − tr(DᵀB) over dictionaries whose atoms lie in the unit ball, and are
// non-negative if `positive` (Mairal et al. 2010, Algorithm 2). Atom j becomes the projection of d_j + (b_j − D a_j) / A_jj, the
// exact minimiser while the others stay. Rows of `atoms` and B (p × m) and of the symmetric A (p × p) are contiguous. An atom with
// A_jj = 0 stays as it is.
template <class T>
void update_atoms(T* atoms, const T* A, const T* B, Index p, Index m, bool positive, int n_threads, Interrupt& interrupt);

// Each row becomes the nearest vector of norm at most one, without negative entries if `positive`.
template <class T>
void shorten_rows(T* rows, Index count, Index m, bool positive);

}  // namespace taskdict
