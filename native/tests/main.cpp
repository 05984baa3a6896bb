#include <cstdio>
#include <cstring>

#include "check.hpp"
#include "simd/dispatch.hpp"

namespace taskdict::tests {
namespace {

int passed = 0, failed = 0;

}  // namespace

void check(bool good, const char* what, const char* type) {
    ++(good ? passed : failed);
    if (!good) std::printf("FAILED: %s (%s)\n", what, type);
}

}  // namespace taskdict::tests

// With --list, prints the instruction sets of this processor; TASKDICT_ISA selects the one to test.
int main(int argc, char** argv) {
    using namespace taskdict::tests;
    if (argc > 1 && std::strcmp(argv[1], "--list") == 0) {
        for (const taskdict::InstructionSet* set : taskdict::instruction_sets()) std::printf("%s\n", set->name);
        return 0;
    }
    test_coding();
    test_pursuit();
    test_adjoints();
    test_learning();
    test_images();
    test_system();
    std::printf("%s: %d passed, %d failed\n", taskdict::instruction_set().name, passed, failed);
    return failed > 0;
}
