// Encoding a batch: threads share blocks of signals, and the codes are collected in order.
#pragma once

#include "batch/codes.hpp"
#include "dictionary/encoder.hpp"

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
};

// Thrown for a signal with an entry that is not finite.
struct BadSignal {
    Index row;
};

// Appends the codes of all signals, each at the point of its path that `goals` chooses. Their bits do not depend on the number of threads. Throws
// BadSignal or Interrupted.
template <class T, template <class> class Signals>
void encode(const Encoder<T>& encoder, const Signals<T>& signals, const Goals& goals, Codes<T>& codes, int n_threads, Interrupt& interrupt);

}  // namespace taskdict
