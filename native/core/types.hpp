// The vocabulary that all files of the core share.
#pragma once

#include <cstddef>
#include <cstdint>

namespace taskdict {

using Index = std::ptrdiff_t;

inline constexpr Index round_up(Index value, Index multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

}  // namespace taskdict
