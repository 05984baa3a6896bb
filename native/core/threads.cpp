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
// Puts each new thread on a core of its own next to the caller's. Left alone, the system may well start it on the caller's core,
// where it waits for a millisecond and more while another core is idle, or busy only with threads that spin, as those of BLAS and
// OpenMP do for a while after a call. The creator does this, since a thread that waits cannot do it for itself.
class Spread {
  public:
    Spread() : usable_(sched_getaffinity(0, sizeof allowed_, &allowed_) == 0), here_(sched_getcpu()) {}

    void place(std::thread& thread, int nth) const {
        if (!usable_ || here_ < 0) return;
        int cpu = here_;
        for (int left = nth % CPU_COUNT(&allowed_); left > 0; --left) do
                cpu = (cpu + 1) % CPU_SETSIZE;
            while (!CPU_ISSET(cpu, &allowed_));
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        pthread_setaffinity_np(thread.native_handle(), sizeof one, &one);
    }

    // Called by the thread itself once it runs where it was placed: from there it may be moved.
    void release() const {
        if (usable_ && here_ >= 0) sched_setaffinity(0, sizeof allowed_, &allowed_);
    }

  private:
    cpu_set_t allowed_;
    bool usable_;
    int here_;
};
#else
struct Spread {
    void place(std::thread&, int) const {}
    void release() const {}
};
#endif

// The threads of this process that are at work, callers and their helpers.
std::atomic<int> at_work = 0;
thread_local int helper_of = 0;  // the number of threads that this helper's caller may use, 0 for a caller

#if defined(__unix__) || defined(__APPLE__)
// The threads of the parent are not there after a fork.
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] { at_work = 0; });
#endif

void wait_a_little(int& turns) {
    if (++turns % 64 == 0) {
        std::this_thread::yield();
    } else {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
}

// Up to `wanted` threads that run `work`, joined when this object ends.
class Helpers {
  public:
    // Calls that run at the same time share the cores: one that finds others at work takes fewer helpers.
    Helpers(int n_threads, int wanted, const std::function<void()>& work) {
        const int count = std::max(0, wanted - at_work.fetch_add(1));
        at_work += count;
        if (count == 0) return;
        threads_.reserve(std::size_t(count));
        for (int t = 1; t <= count; ++t) {
            try {
                threads_.emplace_back([this, &work, t, n_threads] {
                    helper_of = n_threads;
                    for (int turns = 0; placed_.load(std::memory_order_acquire) < t;) wait_a_little(turns);
                    spread_.release();
                    work();
                    --at_work;
                });
                spread_.place(threads_.back(), t);
                placed_.store(t, std::memory_order_release);
            } catch (const std::system_error&) {
                at_work -= count - t + 1;
                break;  // the system has no more threads: the others do the work
            }
        }
    }
    ~Helpers() {
        for (std::thread& thread : threads_) thread.join();
        --at_work;
    }

  private:
    const Spread spread_;
    std::atomic<int> placed_ = 0;
    std::vector<std::thread> threads_;
};

}  // namespace

bool should_retire() {
    return helper_of > 0 && at_work.load() > helper_of;
}

void in_threads(Index count, int n_threads, const std::function<void(Index)>& body) {
    std::atomic<Index> next = 0;
    std::mutex mutex;
    std::exception_ptr error;
    const std::function<void()> work = [&] {
        try {
            for (Index i; !should_retire() && (i = next.fetch_add(1)) < count;) body(i);
        } catch (...) {
            next.store(count);
            const std::lock_guard lock(mutex);
            if (!error) error = std::current_exception();
        }
    };
    {
        const Helpers helpers(n_threads, int(std::min<Index>(n_threads, count)) - 1, work);
        work();
    }
    if (error) std::rethrow_exception(error);
}

// A ticket holds the number of tasks of the current loop and the next one to take, so that a helper reads both at once.
bool Team::take() {
    std::uint64_t ticket = ticket_.load(std::memory_order_acquire);
    if (std::uint32_t(ticket) >= ticket >> 32) return false;
    ticket = ticket_.fetch_add(1, std::memory_order_acq_rel);
    if (std::uint32_t(ticket) >= ticket >> 32) return false;
    (*task_)(Index(std::uint32_t(ticket)));  // the loop cannot end before this task is done, so task_ is still its own
    done_.fetch_add(1, std::memory_order_release);
    return true;
}

void Team::loop(Index count, const std::function<void(Index)>& task) {
    task_ = &task;
    done_.store(0, std::memory_order_relaxed);
    ticket_.store(std::uint64_t(count) << 32, std::memory_order_release);
    while (take()) {
    }
    for (int turns = 0; done_.load(std::memory_order_acquire) < count;) wait_a_little(turns);
}

void with_team(int n_threads, const std::function<void(Team&)>& body) {
    Team team;
    std::atomic<bool> ended = false;
    const std::function<void()> help = [&] {
        for (int turns = 0; !ended.load(std::memory_order_acquire) && !should_retire();)
            if (!team.take()) wait_a_little(turns);
    };
    const Helpers helpers(n_threads, n_threads - 1, help);
    struct End {
        std::atomic<bool>& ended;
        ~End() { ended.store(true, std::memory_order_release); }
    } const end{ended};
    body(team);
}

}  // namespace taskdict
