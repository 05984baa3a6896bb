// The third line: exact codes for the signals that the kernels give up on.
//
// Works on the signal and the atoms themselves (no Gram matrix, whose rounding is the limit of the kernels) in wider
// arithmetic: double for float, long double for double. Singular active sets (duplicate or dependent atoms with λ2 = 0)
// are no special case: the proximal-point method replaces the problem by strongly convex ones,
//
//     α⁺ = argmin ½‖x − Dα‖² + λ1‖α‖₁ + λ2/2‖α‖² + δ/2 Σ_j ‖d_j‖² (α_j − α⁻_j)²,
//
// each solved by the same active-set descent with a Cholesky factor; δ shrinks until Lemma 1 holds for the true problem.
#pragma once

#include <vector>

#include "interrupt.hpp"
#include "types.hpp"

namespace taskdict {

template <class T>
struct Problem {
    const T* atoms;  // p × m, contiguous
    Index p;
    Index m;
    const T* x;
    double lambda1;
    double lambda2;
    bool positive;
};

template <class T>
struct ExactCode {
    std::vector<std::int32_t> atoms;  // ascending
    std::vector<T> alpha;             // nonzero
    Certificate certificate;
    int steps = 0;
};

// Starts from a code that others have found, however inaccurate.
template <class T>
ExactCode<T> solve_exact(const Problem<T>& problem, const ExactCode<T>& start, double tolerance, Interrupt& interrupt);

// What a given code has, measured in wider arithmetic.
template <class T>
Certificate certify(const Problem<T>& problem, const std::int32_t* atoms, const T* alpha, Index k);

// β with M_ΛΛ β = g; the least-squares solution of least norm if M_ΛΛ is singular up to the rounding of T.
template <class T>
std::vector<T> solve_least_norm(const Problem<T>& problem, const std::int32_t* atoms, Index k, const T* g, Interrupt& interrupt);

}  // namespace taskdict
