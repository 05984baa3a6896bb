#include "check.hpp"
#include "system/threads.hpp"

namespace taskdict::tests {
namespace {

void test_team() {
    for (int repeat = 0; repeat < 20; ++repeat) {
        std::vector<int> counts(100);
        with_team(4, nullptr, [&](Team& team) {
            for (Index loop = 0; loop < 200; ++loop) team.loop(loop % 7, [&](Index i) { ++counts[std::size_t(loop % 50 + i)]; });
        });
        int total = 0;
        for (const int count : counts) total += count;
        check(total == 28 * 21 + 6, "every task of every loop once", "team");
    }
}

}  // namespace

void test_system() {
    test_team();
}

}  // namespace taskdict::tests
