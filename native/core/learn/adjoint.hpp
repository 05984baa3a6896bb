// Differentiating the codes: the adjoint on the active sets, and the gradients that follow from it (paper, Proposition 1).
#pragma once

#include "batch/sparsity_pattern.hpp"
#include "dictionary/prepared.hpp"
#include "views.hpp"

namespace taskdict {

// The length of all factors of a batch: the lower triangle of a k × k matrix for each signal with k nonzeros.
Index factor_entries(const SparsityPattern& pattern);

// β_Λ = (M_ΛΛ)⁻¹ g_Λ for every signal; g and β hold one number per nonzero of the codes. For a singular M_ΛΛ, β is the
// solution of least norm. Each β is corrected with its residual, so it is as accurate as M_ΛΛ allows.
template <class T>
void solve_adjoint(const Prepared<T>& encoder, const SparsityPattern& pattern, Numbers<T> factors, Numbers<T> g,
                   std::span<std::type_identity_t<T>> beta, int n_threads, Interrupt& interrupt);

// The gradients of Σ ℓ(α*(x, D)) + w Σ ℓu(x, D), where g is ∇α ℓ on the supports. The first n rows of `both` receive the residuals
// x − Dα, the next n rows ∇x = Dβ + w (x − Dα). Then ∇D = Σ β (x − Dα)ᵀ − α ∇xᵀ.
template <class T>
struct CodeGradient {
    std::span<const T> alpha;    // one per nonzero
    std::span<const T> factors;  // of the encoder
    std::span<const T> g;        // one per nonzero
    MatrixView<const T> atoms;   // p × m, as they were given to the encoder
    MatrixView<const T> x;       // n × m
    T reconstruction;            // w
    MatrixView<T> both;          // 2n × m
    MatrixView<T> in_atoms;      // p × m: ∇D
};

template <class T>
void code_gradient(const Prepared<T>& encoder, const SparsityPattern& pattern, const CodeGradient<T>& gradient, int n_threads, Interrupt& interrupt);

}  // namespace taskdict
