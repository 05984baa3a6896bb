// Batches of signals, and loading one of them into a contiguous row.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "dictionary/scaling.hpp"

namespace taskdict {

// Dense signals: entry (r, i) is at data[r * row_step + i * column_step].
template <class T>
struct DenseSignals {
    const T* data;
    Index rows;
    Index row_step;
    Index column_step;
};

// Sparse signals in compressed rows.
template <class T>
struct SparseSignals {
    std::span<const T> values;
    std::span<const std::int64_t> indptr;  // one more than rows
    std::span<const std::int32_t> indices;
    Index rows = Index(indptr.size()) - 1;

    Index start(Index row) const { return Index(indptr[std::size_t(row)]); }
    Index count(Index row) const { return start(row + 1) - start(row); }
};

// Thrown for a signal with an entry that is not finite.
struct BadSignal {
    Index row;
};

// Loads a signal into the m numbers of x, and in single precision into `narrow` unless that is null. With `scales`, see load_scaled.
template <class T>
Loaded load_row(const DenseSignals<T>& signals, Index row, Index m, bool scales, T* x, float* narrow) {
    const Loaded loaded = load_scaled(signals.data + row * signals.row_step, signals.column_step, m, x, narrow, scales);
    if (!loaded.finite) throw BadSignal{row};
    return loaded;
}

// Features that occur twice are added up.
template <class T>
Loaded load_row(const SparseSignals<T>& signals, Index row, Index m, bool scales, T* x, float* narrow) {
    const Index start = signals.start(row), count = signals.count(row);
    std::vector<T> scaled(static_cast<std::size_t>(count));
    const Loaded loaded = load_scaled(signals.values.data() + start, 1, count, scaled.data(), nullptr, scales);
    if (!loaded.finite) throw BadSignal{row};
    std::fill_n(x, m, T(0));
    for (std::size_t i = 0; i < scaled.size(); ++i) x[signals.indices[std::size_t(start) + i]] += scaled[i];
    if (narrow) std::copy_n(x, m, narrow);
    return loaded;
}

}  // namespace taskdict
