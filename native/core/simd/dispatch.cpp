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
// Wide vectors pay where the processor multiplies them as fast as narrow ones:
// - Processors before VBMI2 (Skylake, Cascade Lake) lower their clock for all of the process when one thread multiplies wide vectors.
// - Zen 4 (family 19h) multiplies them in halves, so that they save instructions only; not measured.
// - Zen 5, measured (benchmarks/README.md): the product takes half the time, encoding a batch 70 to 90 %.
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
