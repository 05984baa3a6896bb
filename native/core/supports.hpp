// Where the nonzeros of a batch of codes are.
#pragma once

#include "types.hpp"

namespace taskdict {

// The places of the nonzeros of a batch: compressed rows, one per signal.
struct Supports {
    const std::int64_t* indptr;  // rows + 1
    const std::int32_t* indices;
    Index rows;
    Index atoms;  // p
};

}  // namespace taskdict
