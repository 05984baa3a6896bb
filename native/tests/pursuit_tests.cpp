#include "check.hpp"

namespace taskdict::tests {

void test_pursuit() {}

}  // namespace taskdict::tests
