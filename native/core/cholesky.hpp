// A growing Cholesky factor in packed rows, for the slow path.
#pragma once

#include <cmath>
#include <vector>

#include "types.hpp"

namespace taskdict {

template <class Wide>
class Cholesky {
  public:
    Index size() const { return size_; }

    // Appends a row: `column` holds the size() products with the earlier ones. False if the matrix is not positive definite.
    bool append(const Wide* column, Wide diagonal) {
        rows_.resize(std::size_t((size_ + 1) * (size_ + 2) / 2));
        Wide* last = row(size_);
        Wide pivot = diagonal;
        for (Index i = 0; i < size_; ++i) {
            Wide value = column[i];
            for (Index j = 0; j < i; ++j) value -= row(i)[j] * last[j];
            last[i] = value / row(i)[i];
            pivot -= last[i] * last[i];
        }
        if (!(pivot > 0)) return false;
        last[size_++] = std::sqrt(pivot);
        return true;
    }

    void truncate(Index size) { size_ = size; }

    // Solves in place.
    void solve(Wide* b) const {
        for (Index i = 0; i < size_; ++i) {
            for (Index j = 0; j < i; ++j) b[i] -= row(i)[j] * b[j];
            b[i] /= row(i)[i];
        }
        for (Index i = size_ - 1; i >= 0; --i) {
            b[i] /= row(i)[i];
            for (Index j = 0; j < i; ++j) b[j] -= row(i)[j] * b[i];
        }
    }

    // The squared distance of the i-th vector from the span of those before it.
    Wide pivot(Index i) const { return row(i)[i] * row(i)[i]; }

    Wide at(Index i, Index j) const { return row(i)[j]; }

  private:
    const Wide* row(Index i) const { return rows_.data() + i * (i + 1) / 2; }
    Wide* row(Index i) { return rows_.data() + i * (i + 1) / 2; }
    std::vector<Wide> rows_;
    Index size_ = 0;
};

}  // namespace taskdict
