#include <cstdio>

#include "check.hpp"
#include "simd/kernels.hpp"

namespace taskdict::tests {
namespace {

int passed = 0, failed = 0;

}  // namespace

void check(bool good, const char* what, const char* type) {
    ++(good ? passed : failed);
    if (!good) std::printf("FAILED: %s (%s)\n", what, type);
}

}  // namespace taskdict::tests

int main() {
    using namespace taskdict::tests;
    test_coding();
    test_pursuit();
    test_adjoints();
    test_learning();
    test_images();
    test_system();
    std::printf("%s: %d passed, %d failed\n", taskdict::instruction_set().name, passed, failed);
    return failed > 0;
}
