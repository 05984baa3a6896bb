// The third line: exact codes for the signals that the kernels cannot solve.
//
// Works on the signal and the atoms themselves (no Gram matrix, whose rounding is the limit of the kernels) in wider
// arithmetic: double for float, long double for double. Singular active sets (duplicate or dependent atoms with λ2 = 0)
// are no special case: the proximal-point method replaces the problem by strongly convex ones,
//
//     α⁺ = argmin ½‖x − Dα‖² + λ1‖α‖₁ + λ2/2‖α‖² + δ/2 Σ_j ‖d_j‖² (α_j − α⁻_j)²,
//
// each solved by the same active-set descent with a Cholesky factor; δ shrinks until Lemma 1 holds for the true problem.
#pragma once

#include "solve/problem.hpp"
#include "system/interrupt.hpp"

namespace taskdict {

// Starts from a code that another solver has found, however inaccurate. The atoms of the result ascend.
template <class T>
CertifiedCode<T> solve_exact(const Problem<T>& problem, const CertifiedCode<T>& start, double tolerance, Interrupt& interrupt);

}  // namespace taskdict
