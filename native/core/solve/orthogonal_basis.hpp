// A growing orthonormal basis of the span of some atoms, D_Λ = QR, and the least-squares solution on them: R α = Qᵀx.
//
// Unlike products of atoms, it keeps the digits of atoms that are nearly dependent.
#pragma once

#include <cmath>
#include <vector>

#include "solve/wide.hpp"

namespace taskdict {

template <class S>
class OrthogonalBasis {
  public:
    // Starts anew with a signal, which is copied.
    template <class T>
    void start(const T* x, Index m) {
        m_ = m;
        size_ = 0;
        basis_.clear();
        columns_.clear();
        along_.clear();
        residual_.assign(x, x + m);
    }

    Index size() const { return size_; }
    const std::vector<S>& residual() const { return residual_; }  // x − Dα

    // The distance of an atom from the span, relative to its norm, which must not be zero.
    template <class T>
    S distance(const T* atom) {
        candidate_.assign(atom, atom + m_);
        overlaps_.assign(std::size_t(size_), S(0));
        const S norm = std::sqrt(dot<S>(candidate_.data(), candidate_.data(), m_));
        for (int round = 0; round < 2; ++round)  // the second one removes the rounding of the first
            for (Index i = 0; i < size_; ++i) overlaps_[std::size_t(i)] += remove(i, candidate_);
        length_ = std::sqrt(dot<S>(candidate_.data(), candidate_.data(), m_));
        return length_ / norm;
    }

    // Appends the atom whose distance was computed last.
    void append() {
        for (const S value : candidate_) basis_.push_back(value / length_);
        columns_.insert(columns_.end(), overlaps_.begin(), overlaps_.end());
        columns_.push_back(length_);
        along_.push_back(remove(size_++, residual_));
    }

    // α
    std::vector<S> solution() const {
        std::vector<S> alpha = along_;
        solve_upper(alpha);
        return alpha;
    }

    // (D_ΛᵀD_Λ)⁻¹ b
    void solve(std::vector<S>& b) const {
        for (Index i = 0; i < size_; ++i) b[std::size_t(i)] = (b[std::size_t(i)] - dot<S>(column(i), b.data(), i)) / column(i)[i];
        solve_upper(b);
    }

    // Rounds α so that Dα stays where it is as far as it can: one coefficient after the other, each time moving those still to come.
    // A zero stays zero.
    template <class T>
    std::vector<T> rounded(const std::vector<S>& alpha) const {
        std::vector<T> result(alpha.size());
        std::vector<S> shifts(alpha.size());  // R (α − result), of the coefficients that are rounded
        for (Index i = size_ - 1; i >= 0; --i) {
            const auto at = std::size_t(i);
            const S* r = column(i);
            result[at] = alpha[at] == 0 ? T(0) : T(alpha[at] + shifts[at] / r[i]);
            const S moved = alpha[at] - S(result[at]);
            for (Index j = 0; j < i; ++j) shifts[std::size_t(j)] += r[j] * moved;
        }
        return result;
    }

  private:
    const S* column(Index i) const { return columns_.data() + i * (i + 1) / 2; }  // of R

    // Removes the part of v along a vector of the basis, and returns it.
    S remove(Index i, std::vector<S>& v) const {
        const S* q = basis_.data() + i * m_;
        const S along = dot<S>(q, v.data(), m_);
        for (Index f = 0; f < m_; ++f) v[std::size_t(f)] -= along * q[f];
        return along;
    }

    void solve_upper(std::vector<S>& b) const {
        for (Index i = size_ - 1; i >= 0; --i) {
            b[std::size_t(i)] /= column(i)[i];
            for (Index j = 0; j < i; ++j) b[std::size_t(j)] -= column(i)[j] * b[std::size_t(i)];
        }
    }

    Index m_ = 0, size_ = 0;
    std::vector<S> basis_;  // rows of m
    std::vector<S> columns_, along_, residual_, candidate_, overlaps_;
    S length_ = 0;
};

}  // namespace taskdict
