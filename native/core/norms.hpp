// Norms in double precision.
#pragma once

#include "types.hpp"

namespace taskdict {

// ‖x‖² of a contiguous vector. Eight sums at once, since each addition has to wait for the one before it in its sum.
template <class T>
inline double squared_norm(const T* x, Index count) {
    double sums[8] = {};
    Index i = 0;
    for (; i + 8 <= count; i += 8)
        for (Index k = 0; k < 8; ++k) sums[k] += double(x[i + k]) * double(x[i + k]);
    for (; i < count; ++i) sums[0] += double(x[i]) * double(x[i]);
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

}  // namespace taskdict
