// Weighted sums of rows of a table, for sparse signals and for sums over a batch.
#pragma once

#include "simd/kernels.hpp"
#include "simd/vectors.hpp"

namespace taskdict::TASKDICT_ISA {

// out = Σ_i weights[i] · table[rows[i]]: the correlations of a sparse signal with all atoms. Summed in slices, as in products.hpp.
template <class T>
void add_rows(const RowSum<T>& sum, T* out) {
    const T *const table = sum.table, *const weights = sum.weights;
    const std::int32_t* const rows = sum.rows;
    const Index stride = sum.stride, count = sum.count;
    in_groups(stride / lanes<T>, [&](auto n, Index first) {
        Vector<T> sums[n.value] = {};
        for (Index start = 0; start < count; start += slice_length) {
            Vector<T> slice[n.value] = {};
            const Index length = count - start < slice_length ? count - start : slice_length;
            const auto row = [&](Index i) { return table + rows[start + i] * stride + first * lanes<T>; };
            sum_of_rows<T, n.value>(length, weights + start, row, slice);
            for (int v = 0; v < n.value; ++v) sums[v] += slice[v];
        }
        for (int v = 0; v < n.value; ++v) store(out + (first + v) * lanes<T>, sums[v]);
    });
}

template <class T>
inline constexpr int slice_vectors = 8;

// after = fade · before + Σ_i weights[i] · table[rows[i]] for the first `length` numbers of each row, at most slice_vectors
// vectors; nothing needs to be aligned. With fade = 0, `before` is not read and may be `after`; otherwise they must not overlap,
// unless they are the same and `length` is whole vectors.
template <class T>
void add_slices(const RowSum<T>& row_sum, Index length, T fade, const T* before, T* after) {
    const T *const table = row_sum.table, *const weights = row_sum.weights;
    const std::int32_t* const rows = row_sum.rows;
    const Index stride = row_sum.stride, count = row_sum.count;
    const auto sum = [&](auto n, Index start) {
        Vector<T> sums[n.value] = {};
        for (Index i = 0; i < count; ++i) {
            const Vector<T> weight = broadcast(weights[i]);
            const T* row = table + rows[i] * stride + start;
            for (int v = 0; v < n.value; ++v) sums[v] += weight * load_unaligned(row + v * lanes<T>);
        }
        for (int v = 0; v < n.value; ++v) {
            const Index at = start + v * lanes<T>;
            if (fade != 0) sums[v] += fade * load_unaligned(before + at);
            *reinterpret_cast<typename Simd<T>::Unaligned*>(after + at) = sums[v];
        }
    };
    const Index vectors = length / lanes<T>;
    if (vectors == slice_vectors<T>)
        sum(Count<slice_vectors<T>>{}, 0);
    else
        in_groups(vectors, [&](auto n, Index first) { sum(n, first * lanes<T>); });
    if (length % lanes<T> == 0) return;
    if (vectors > 0) {
        sum(Count<1>{}, length - lanes<T>);  // computes some numbers again, to the same bits
    } else {
        for (Index at = 0; at < length; ++at) {
            T total = fade != 0 ? fade * before[at] : T(0);
            for (Index i = 0; i < count; ++i) total += weights[i] * table[rows[i] * stride + at];
            after[at] = total;
        }
    }
}

}  // namespace taskdict::TASKDICT_ISA
