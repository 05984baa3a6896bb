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

// Counts the threads of this process that are at work, the caller's and its helpers. Calls that run at the same time share
// the cores: one that finds others at work takes fewer helpers.
class AtWork {
  public:
    static inline std::atomic<int> threads = 0;

    explicit AtWork(int wanted) : helpers(std::max(0, wanted - 1 - threads.fetch_add(1))) { threads += helpers; }
    ~AtWork() { threads -= helpers + 1; }
    AtWork(const AtWork&) = delete;
    AtWork& operator=(const AtWork&) = delete;

    const int helpers;
};

#if defined(__unix__) || defined(__APPLE__)
// The threads of the parent are not there after a fork.
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] { AtWork::threads = 0; });
#endif

}  // namespace

void in_threads(Index count, int n_threads, const std::function<void(Index)>& body) {
    std::atomic<Index> next = 0;
    std::mutex mutex;
    std::exception_ptr error;
    const auto work = [&] {
        try {
            for (Index i; (i = next.fetch_add(1)) < count;) body(i);
        } catch (...) {
            next.store(count);
            const std::lock_guard lock(mutex);
            if (!error) error = std::current_exception();
        }
    };
    std::vector<std::thread> threads;
    const Spread spread;
    const AtWork at_work(int(std::min<Index>(n_threads, count)));
    for (int t = 1; t <= at_work.helpers; ++t) {
        try {
            threads.emplace_back([&work, &spread, t] {
                spread.place(t);
                work();
            });
        } catch (const std::system_error&) {
            break;  // the system has no more threads: the others do the work
        }
    }
    work();
    for (std::thread& thread : threads) thread.join();
    if (error) std::rethrow_exception(error);
}

}  // namespace taskdict
