#include <atomic>
#include <chrono>
#include <cstdint>

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

// A helper falls asleep some tens of microseconds after its last call. A call just then must still wake it: a lost wake-up ends here,
// in a call that never returns.
void test_helpers_wake_up() {
    std::uint32_t random = 1;
    std::atomic<Index> sum = 0;
    constexpr int calls = 30'000;
    for (int call = 0; call < calls; ++call) {
        in_threads(2, 2, nullptr, [&](Index i) { sum += i; });
        random = random * 1'664'525 + 1'013'904'223;
        const auto next = std::chrono::steady_clock::now() + std::chrono::nanoseconds(20'000 + random % 131'072);
        while (std::chrono::steady_clock::now() < next) {
        }
    }
    check(sum == calls, "every task of every call once", "sleeping helpers");
}

}  // namespace

void test_system() {
    test_team();
    test_helpers_wake_up();
}

}  // namespace taskdict::tests
