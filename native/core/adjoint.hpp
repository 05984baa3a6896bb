// The way back through the codes: the adjoint on the active sets, and the gradients that follow from it (paper, Proposition 1).
#pragma once

#include "encoder.hpp"
#include "supports.hpp"

namespace taskdict {

// β_Λ = (M_ΛΛ)⁻¹ g_Λ for every signal; g and β hold one number per nonzero of the codes. For a singular M_ΛΛ, β is the
// solution of least norm. Each β is corrected with its residual, so it is as accurate as M_ΛΛ allows.
template <class T>
void solve_adjoint(const Encoder<T>& encoder, const Supports& supports, const T* factors, const T* g, T* beta, int n_threads, Interrupt& interrupt);

// The gradients of Σ ℓ(α*(x, D)) + w Σ ℓu(x, D), where g is ∇α ℓ on the supports. With the residuals x − Dα in the first `rows` rows
// of `both`, and ∇x = Dβ + w (x − Dα) in the next: ∇D = Σ β (x − Dα)ᵀ − α ∇xᵀ.
template <class T>
struct CodeGradient {
    const T* alpha;    // one per nonzero
    const T* factors;  // of the encoder
    const T* g;        // one per nonzero
    const T* atoms;    // p × m, as they were given to the encoder
    const T* x;        // rows × m
    T reconstruction;  // w
    T* both;           // (2 · rows) × m
    T* in_atoms;       // p × m
};

template <class T>
void code_gradient(const Encoder<T>& encoder, const Supports& supports, const CodeGradient<T>& gradient, int n_threads, Interrupt& interrupt);

}  // namespace taskdict
