#include <cstdlib>
#include <cstring>

#include "simd/kernels.hpp"

namespace taskdict {

namespace baseline {
extern const InstructionSet instructions;
}
#if defined(TASKDICT_X86)
namespace avx2 {
extern const InstructionSet instructions;
}
#endif

namespace {

const InstructionSet& choose() {
    const char* wanted = std::getenv("TASKDICT_ISA");
    [[maybe_unused]] const auto allowed = [wanted](const InstructionSet& set) { return !wanted || std::strcmp(wanted, set.name) == 0; };
#if defined(TASKDICT_X86)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && allowed(avx2::instructions)) return avx2::instructions;
#endif
    return baseline::instructions;
}

}  // namespace

const InstructionSet& instruction_set() {
    static const InstructionSet& chosen = choose();
    return chosen;
}

}  // namespace taskdict
