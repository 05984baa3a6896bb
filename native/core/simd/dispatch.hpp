// The instruction sets to choose from, for tests; kernels.hpp has the choice.
#pragma once

#include <vector>

#include "simd/kernels.hpp"

namespace taskdict {

// Those that the kernels are compiled for and that this processor has, from the least to the widest.
std::vector<const InstructionSet*> instruction_sets();

}  // namespace taskdict
