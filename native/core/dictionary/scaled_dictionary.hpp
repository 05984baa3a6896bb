// A dictionary scaled by a power of two.
#pragma once

#include "dictionary/code.hpp"
#include "dictionary/rounding.hpp"
#include "system/memory.hpp"

namespace taskdict {

// How a dictionary and its penalties are scaled.
struct ScaleChoice {
    double scale = 1;         // σ
    double lambda2 = 0;       // λ2/σ²
    bool only_exact = false;  // whether only the third line can represent the result; then nothing is scaled
};

// Of `count` finite numbers.
template <class T>
ScaleChoice choose_scale(const T* numbers, Index count, const Parameters& parameters);

// Of p × m atoms.
template <class T>
RoundingBounds bounds_of(const T* atoms, Index p, Index m, double lambda2);

// With D = σ D' and x = τ x', the code of x is (τ/σ) α', where α' solves the problem of D' and x' for λ1/(στ) and λ2/σ².
template <class T>
class ScaledDictionary {
  public:
    // `atoms` is p × m, contiguous and finite.
    ScaledDictionary(const T* atoms, Index p, Index m, const Parameters& parameters);

    Index atoms() const { return p_; }
    Index features() const { return m_; }
    const T* data() const { return atoms_.data(); }
    double scale() const { return scale_; }      // σ
    double lambda2() const { return lambda2_; }  // λ2/σ²
    const RoundingBounds& bounds() const { return bounds_; }
    // Whether only the third line can represent this dictionary and these penalties. Then nothing is scaled.
    bool only_exact() const { return only_exact_; }

  private:
    Index p_, m_;
    Array<T> atoms_;
    double scale_ = 1;
    double lambda2_ = 0;
    bool only_exact_ = false;
    RoundingBounds bounds_;
};

}  // namespace taskdict
