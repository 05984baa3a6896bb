#include "threads.hpp"

#if defined(__linux__)
#include <sched.h>
#endif
#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace taskdict {
namespace {

#if defined(__linux__)
// Puts each new thread on a core of its own next to the caller's. Left alone, the system may well start it on the
// caller's core and leave another to threads that only spin, as those of BLAS and OpenMP do for a while after a call.
class Spread {
  public:
    Spread() : usable_(sched_getaffinity(0, sizeof allowed_, &allowed_) == 0), here_(sched_getcpu()) {}

    void place(int nth) const {
        if (!usable_ || here_ < 0) return;
        int cpu = here_;
        for (int left = nth % CPU_COUNT(&allowed_); left > 0; --left) do
                cpu = (cpu + 1) % CPU_SETSIZE;
            while (!CPU_ISSET(cpu, &allowed_));
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        if (sched_setaffinity(0, sizeof one, &one) == 0) sched_setaffinity(0, sizeof allowed_, &allowed_);
    }

  private:
    cpu_set_t allowed_;
    bool usable_;
    int here_;
};
#else
struct Spread {
    void place(int) const {}
};
#endif

// The threads of this process that are at work, callers and their helpers.
std::atomic<int> at_work = 0;
thread_local int helper_of = 0;  // the number of threads that this helper's caller may use, 0 for a caller

#if defined(__unix__) || defined(__APPLE__)
// The threads of the parent are not there after a fork.
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] { at_work = 0; });
#endif

}  // namespace

bool should_retire() {
    return helper_of > 0 && at_work.load() > helper_of;
}

void in_threads(Index count, int n_threads, const std::function<void(Index)>& body) {
    std::atomic<Index> next = 0;
    std::mutex mutex;
    std::exception_ptr error;
    const auto work = [&] {
        try {
            for (Index i; !should_retire() && (i = next.fetch_add(1)) < count;) body(i);
        } catch (...) {
            next.store(count);
            const std::lock_guard lock(mutex);
            if (!error) error = std::current_exception();
        }
    };
    std::vector<std::thread> threads;
    const Spread spread;
    // Calls that run at the same time share the cores: one that finds others at work takes fewer helpers.
    const int helpers = std::max(0, int(std::min<Index>(n_threads, count)) - 1 - at_work.fetch_add(1));
    at_work += helpers;
    for (int t = 1; t <= helpers; ++t) {
        try {
            threads.emplace_back([&work, &spread, t, n_threads] {
                helper_of = n_threads;
                spread.place(t);
                work();
                --at_work;
            });
        } catch (const std::system_error&) {
            at_work -= helpers - t + 1;
            break;  // the system has no more threads: the others do the work
        }
    }
    work();
    for (std::thread& thread : threads) thread.join();
    --at_work;
    if (error) std::rethrow_exception(error);
}

}  // namespace taskdict
