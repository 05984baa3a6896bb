// Sums over a batch of codes: what the learners need of it, whatever its size.
#pragma once

#include "encoder.hpp"
#include "supports.hpp"

namespace taskdict {

// after = fade · before + Σ_r v_r x_rᵀ (p × m), where v_r has `values` on the support of signal r and x_r is row r of `x`
// (rows × m, contiguous). With fade = 0, `before` is not read; it must not be `after`.
template <class T>
void sum_outer(const Supports& supports, const T* values, const T* x, Index m, T fade, const T* before, T* after, int n_threads);

// after = fade · before + Σ_r u_r v_rᵀ (p × p), where u_r and v_r have `left` and `right` on the support of signal r.
template <class T>
void sum_outer_sparse(const Supports& supports, const T* left, const T* right, T fade, const T* before, T* after, int n_threads);

// after_r = fade · before_r + Σ_j v_rj d_j (rows × m): what the values on the supports stand for in the dictionary `atoms` (p × m).
template <class T>
void decode(const Supports& supports, const T* values, const T* atoms, Index m, T fade, const T* before, T* after, int n_threads);

// d_j · x_r for every nonzero (r, j): the correlations with the atoms in use.
template <class T>
void correlate_supports(const Supports& supports, const T* atoms, const T* x, Index m, T* out, int n_threads);

// ½‖x‖² − ½ αᵀMα for every signal: the least value of its objective, for a code that satisfies Lemma 1.
template <class T>
void objectives(const Encoder<T>& encoder, const Supports& supports, const T* values, const T* x, double* out, int n_threads);

}  // namespace taskdict
