// Sums over a batch of codes, as the learners need them.
//
// Common to all: `values` has one number per nonzero of the pattern, and v_r is the vector of p numbers that has those of signal r
// on its support and zeros elsewhere. With fade = 0, `before` is not read and may be `after`; otherwise the two must not overlap.
#pragma once

#include "batch/sparsity_pattern.hpp"
#include "dictionary/prepared.hpp"
#include "views.hpp"

namespace taskdict {

// after = fade · before + Σ_r v_r x_rᵀ (p × m), where x_r is row r of `x`.
template <class T>
void sum_outer(const SparsityPattern& pattern, Numbers<T> values, ConstMatrix<T> x, std::type_identity_t<T> fade, ConstMatrix<T> before,
               MatrixView<T> after, int n_threads);

// after = fade · before + Σ_r u_r v_rᵀ (p × p), where u_r has the numbers `left` and v_r the numbers `right`.
template <class T>
void sum_outer_sparse(const SparsityPattern& pattern, Numbers<T> left, Numbers<T> right, std::type_identity_t<T> fade, ConstMatrix<T> before,
                      MatrixView<T> after, int n_threads);

// after_r = fade · before_r + D v_r for every signal (rows × m), where the rows of `atoms` (p × m) are the atoms of D.
template <class T>
void decode(const SparsityPattern& pattern, Numbers<T> values, ConstMatrix<T> atoms, std::type_identity_t<T> fade, ConstMatrix<T> before,
            MatrixView<T> after, int n_threads);

// out = ⟨d_j, x_r⟩ for every nonzero (r, j): the correlations with the active atoms.
template <class T>
void correlate_supports(const SparsityPattern& pattern, ConstMatrix<T> atoms, ConstMatrix<T> x, std::span<T> out, int n_threads);

// ½‖x‖² − ½ αᵀMα for every signal: the value of its objective at a code that satisfies Lemma 1.
template <class T>
void objectives(const Prepared<T>& encoder, const SparsityPattern& pattern, Numbers<T> values, ConstMatrix<T> x, std::span<double> out,
                int n_threads);

}  // namespace taskdict
