// A growing Cholesky factor in packed rows, for the slow path.
#pragma once

#include <algorithm>
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
            last[i] = (column[i] - product(row(i), last, i)) / row(i)[i];
            pivot -= last[i] * last[i];
        }
        if (!(pivot > 0)) return false;
        last[size_++] = std::sqrt(pivot);
        return true;
    }

    void clear() { size_ = 0; }

    // Takes out row and column i: plane rotations make the rows below it a triangle again.
    void remove(Index i) {
        for (Index c = i; c + 1 < size_; ++c) {  // the entries c and c + 1 of the rows below, so that entry c + 1 of row c + 1 becomes zero
            const Wide* next = row(c + 1);
            const Wide length = std::hypot(next[c], next[c + 1]);
            const Wide cosine = length > 0 ? next[c] / length : Wide(1), sine = length > 0 ? next[c + 1] / length : Wide(0);
            for (Index r = c + 1; r < size_; ++r) {
                Wide* const entries = row(r) + c;
                const Wide first = entries[0], second = entries[1];
                entries[0] = cosine * first + sine * second;
                entries[1] = cosine * second - sine * first;
            }
        }
        for (Index r = i + 1; r < size_; ++r) std::copy_n(row(r), r, row(r - 1));
        --size_;
    }

    // Solves in place.
    void solve(Wide* b) const {
        for (Index i = 0; i < size_; ++i) b[i] = (b[i] - product(row(i), b, i)) / row(i)[i];
        for (Index i = size_ - 1; i >= 0; --i) {
            b[i] /= row(i)[i];
            for (Index j = 0; j < i; ++j) b[j] -= row(i)[j] * b[i];
        }
    }

    // The squared distance of the i-th vector from the span of those before it.
    Wide pivot(Index i) const { return row(i)[i] * row(i)[i]; }

    Wide at(Index i, Index j) const { return row(i)[j]; }

  private:
    // Four sums at once, since each addition has to wait for the one before it in its sum.
    static Wide product(const Wide* a, const Wide* b, Index count) {
        Wide sums[4] = {};
        Index i = 0;
        for (; i + 4 <= count; i += 4)
            for (Index l = 0; l < 4; ++l) sums[l] += a[i + l] * b[i + l];
        for (; i < count; ++i) sums[0] += a[i] * b[i];
        return (sums[0] + sums[1]) + (sums[2] + sums[3]);
    }

    const Wide* row(Index i) const { return rows_.data() + i * (i + 1) / 2; }
    Wide* row(Index i) { return rows_.data() + i * (i + 1) / 2; }
    std::vector<Wide> rows_;
    Index size_ = 0;
};

}  // namespace taskdict
