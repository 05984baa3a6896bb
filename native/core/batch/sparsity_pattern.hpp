// The sparsity pattern of a batch of codes: the places of its nonzeros, without their values.
#pragma once

#include <span>

#include "types.hpp"

namespace taskdict {

// Compressed rows, one per signal. Functions that take a pattern and values expect one value per nonzero, in the same order.
struct SparsityPattern {
    std::span<const std::int64_t> indptr;   // one more than signals
    std::span<const std::int32_t> indices;  // the atoms of each signal
    Index atoms = 0;                        // p

    Index rows() const { return Index(indptr.size()) - 1; }
    Index nonzeros() const { return Index(indices.size()); }
    // The first nonzero of a signal, and their number.
    Index start(Index row) const { return Index(indptr[std::size_t(row)]); }
    Index count(Index row) const { return start(row + 1) - start(row); }
    const std::int32_t* support(Index row) const { return indices.data() + start(row); }
};

}  // namespace taskdict
