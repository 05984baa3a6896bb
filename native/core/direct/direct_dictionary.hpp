// A dictionary as it is read without its Gram matrix: scaled, in both precisions, and packed for products.
#pragma once

#include <vector>

#include "dictionary/code.hpp"
#include "dictionary/rounding.hpp"
#include "system/memory.hpp"

namespace taskdict {

template <class T>
class DirectDictionary {
  public:
    // `atoms` is p × m, contiguous and finite, and must outlive this object: it is copied only if it has to be scaled. With `packs`, a
    // packed copy makes products with many signals faster.
    DirectDictionary(const T* atoms, Index p, Index m, const Parameters& parameters, bool packs = true);

    Index atoms() const { return p_; }
    Index features() const { return m_; }
    const T* data() const { return data_; }
    const float* fast() const;                   // in single precision
    double scale() const { return scale_; }      // σ, see scaled_dictionary.hpp
    double lambda2() const { return lambda2_; }  // λ2/σ²
    const RoundingBounds& bounds() const { return bounds_; }
    // Whether only the third line can represent this dictionary and these penalties. Then nothing is scaled.
    bool only_exact() const { return only_exact_; }

    // The correlations of contiguous rows of m numbers with the atoms from `first` to `end`, in aligned rows of `stride`. `first` and
    // `stride` are multiples of the kernels' panels.
    void correlate(const float* x, Index rows, Index first, Index end, float* out, Index stride) const;

  private:
    Index p_, m_;
    const T* data_;
    Array<T> scaled_;                // if the scale is not one
    Array<float> rounded_;           // of double precision
    Array<float> packed_;            // or, without it:
    std::vector<std::int32_t> all_;  // 0, 1, …, p − 1
    double scale_ = 1;
    double lambda2_ = 0;
    bool only_exact_ = false;
    RoundingBounds bounds_;
};

template <>
inline const float* DirectDictionary<float>::fast() const {
    return data_;
}

template <>
inline const float* DirectDictionary<double>::fast() const {
    return rounded_.data();
}

}  // namespace taskdict
