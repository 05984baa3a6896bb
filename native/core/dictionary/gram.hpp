// The Gram matrix M = DᵀD + λ2 I of a dictionary.
#pragma once

#include "simd/kernels.hpp"
#include "system/interrupt.hpp"
#include "system/memory.hpp"

namespace taskdict {

// Atoms as the products of the kernels read them.
template <class S>
Array<S> pack(const S* atoms, Index p, Index m);

template <class S>
class GramMatrix {
  public:
    // From p × m atoms, which are also given packed.
    GramMatrix(const S* atoms, const Array<S>& packed, Index p, Index m, double lambda2, int n_threads, Interrupt& interrupt);

    // A copy in this precision.
    template <class Other>
    explicit GramMatrix(const GramMatrix<Other>& other) : GramMatrix(other.view().atoms, other.view().rank) {
        for (Index j = 0; j < view_.atoms; ++j) {
            const Other* from = other.row(j);
            for (Index i = 0; i < view_.atoms; ++i) memory_[j * view_.stride + i] = S(from[i]);
        }
    }

    const Gram<S>& view() const { return view_; }
    const S* row(Index i) const { return memory_.data() + i * view_.stride; }

  private:
    GramMatrix(Index p, Index rank);

    Gram<S> view_;
    Array<S> memory_;
};

}  // namespace taskdict
