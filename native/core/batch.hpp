// Many signals: blocks shared by threads, codes gathered in order.
#pragma once

#include <memory>

#include "encoder.hpp"

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
    const T* values;
    const std::int64_t* indptr;  // rows + 1
    const std::int32_t* indices;
    Index rows;
};

// A signal with an entry that is not finite.
struct BadSignal {
    Index row;
};

// The codes of a growing number of signals, in compressed rows with ascending indices.
template <class T>
struct Codes {
    explicit Codes(bool keep_factors) : keep_factors(keep_factors) { indptr.append(&first, 1); }

    static constexpr std::int64_t first = 0;
    const bool keep_factors;
    Growing<T> values;
    Growing<std::int32_t> indices;
    Growing<std::int64_t> indptr;
    Growing<std::uint8_t> status;
    Growing<T> kkt;
    Growing<std::int32_t> steps;
    Growing<T> factors;  // lower triangles of (M_ΛΛ)⁻¹ for the scaled problem, row by row, signal after signal

    void append(const Codes& other);
};

// Appends the codes of all signals. The same bits whatever the number of threads.
template <class T, template <class> class Signals>
void encode(const Encoder<T>& encoder, const Signals<T>& signals, Codes<T>& codes, int n_threads, Interrupt& interrupt);

}  // namespace taskdict
