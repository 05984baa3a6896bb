// The dictionary in single precision, as the first line reads it: its Gram matrix, and correlations with signals.
#pragma once

#include "dictionary/gram.hpp"

namespace taskdict {

class FastDictionary {
  public:
    // `atoms` is p × m. With `sparse`, signals come as lists of nonzeros.
    FastDictionary(const float* atoms, Index p, Index m, double lambda2, bool sparse, int n_threads, Interrupt& interrupt);

    // Rounds atoms, and their Gram matrix.
    FastDictionary(const double* atoms, const GramMatrix<double>& gram, Index p, Index m, bool sparse);

    const GramMatrix<float>& gram() const { return gram_; }

    // Rows of correlations, as long as the rows of the Gram matrix, for contiguous rows of m numbers.
    void correlate(const float* x, Index rows, float* c) const;
    // The correlations of one signal that is given by its nonzeros. A feature may occur more than once.
    void correlate_sparse(const std::int32_t* indices, const float* values, Index count, float* c) const;

  private:
    void transpose(const float* atoms);

    Index p_, m_;
    Array<float> packed_;  // in panels, for dense signals
    GramMatrix<float> gram_;
    Array<float> transposed_;  // by features, for sparse signals
};

}  // namespace taskdict
