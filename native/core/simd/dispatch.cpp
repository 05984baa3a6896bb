#include "simd/dispatch.hpp"

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

namespace taskdict {

namespace baseline {
extern const InstructionSet instructions;
}
#if defined(TASKDICT_X86)
namespace avx2 {
extern const InstructionSet instructions;
}
namespace avx512 {
extern const InstructionSet instructions;
}
#endif

namespace {

struct Candidate {
    const InstructionSet* set;
    bool available;  // the processor and the system have it
    bool pays;       // it is faster there than the one before
};

// From the least to the widest.
//
// Wide vectors pay where the processor multiplies them whole and at full clock. That is a question of the generation:
// - Zen 5, measured on the rows of benchmarks/encode.py: of the time with AVX2, the product X·Dᵀ takes 52 to 67 %, encoding 68 to 87 %,
//   preparing a dictionary 66 to 86 %, an update of its atoms some 60 %. Narrow problems gain less (p = 100: 79 to 81 %), but none loses.
// - Intel from Ice Lake on (the first with VBMI2): by its manuals, not measured here.
// - Skylake to Cascade Lake have no VBMI2. They lower the clock of a core that multiplies wide vectors, for all that it runs: AVX2.
// - Zen 4 (family 19h) multiplies wide vectors in halves, so that they save instructions but no multiplications: AVX2, until measured.
std::vector<Candidate> candidates() {
    std::vector<Candidate> result = {{&baseline::instructions, true, true}};
#if defined(TASKDICT_X86)
    __builtin_cpu_init();
    const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                            __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    result.push_back({&avx2::instructions, has_avx2, true});
    result.push_back({&avx512::instructions, has_avx512, __builtin_cpu_supports("avx512vbmi2") && !__builtin_cpu_is("amdfam19h")});
#endif
    return result;
}

const InstructionSet& choose() {
    const char* const wanted = std::getenv("TASKDICT_ISA");
    if (!wanted || !*wanted) {
        const InstructionSet* best = nullptr;
        for (const auto& [set, available, pays] : candidates())
            if (available && pays) best = set;
        return *best;
    }
    std::string names;
    for (const InstructionSet* set : instruction_sets()) {
        if (set->name == std::string_view(wanted)) return *set;
        names += (names.empty() ? "" : ", ") + std::string(set->name);
    }
    throw std::invalid_argument("TASKDICT_ISA is '" + std::string(wanted) + "', but must name an instruction set of this processor: " + names +
                                ". Unset it for the fastest.");
}

}  // namespace

std::vector<const InstructionSet*> instruction_sets() {
    std::vector<const InstructionSet*> result;
    for (const auto& [set, available, pays] : candidates())
        if (available) result.push_back(set);
    return result;
}

const InstructionSet& instruction_set() {
    static const InstructionSet& chosen = choose();
    return chosen;
}

}  // namespace taskdict
