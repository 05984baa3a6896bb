#include "system/threads.hpp"

#if defined(__linux__)
#include <sched.h>
#endif
#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace taskdict {
namespace {

#if defined(__linux__)
// Puts a helper on a core of its own next to the caller's. Left alone, the system may well start or wake it on the caller's core,
// where it waits for a millisecond and more while another core is idle, or busy only with threads that spin, as those of BLAS and
// OpenMP do for a while after a call. The caller does this, since a thread that waits cannot do it for itself.
class Spread {
  public:
    Spread() : here_(sched_getcpu()) {}

    // For a helper that was last seen on the core `last`, −1 if it is new. Returns whether it was moved.
    bool place(std::thread& thread, int nth, int last) {
        if (here_ < 0 || (last >= 0 && last != here_)) return false;
        if (!usable_ && sched_getaffinity(0, sizeof allowed_, &allowed_) != 0) return false;
        usable_ = true;
        int cpu = here_;
        for (int left = nth % CPU_COUNT(&allowed_); left > 0; --left) do
                cpu = (cpu + 1) % CPU_SETSIZE;
            while (!CPU_ISSET(cpu, &allowed_));
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        return pthread_setaffinity_np(thread.native_handle(), sizeof one, &one) == 0;
    }

    // Called by a helper that was moved once it runs: from there the system may move it.
    void release() const { sched_setaffinity(0, sizeof allowed_, &allowed_); }

    static int core() { return sched_getcpu(); }

  private:
    cpu_set_t allowed_;
    bool usable_ = false;
    int here_;
};
#else
struct Spread {
    bool place(std::thread&, int, int) { return false; }
    void release() const {}
    static int core() { return -1; }
};
#endif

// The threads of this process that are at work, callers and their helpers.
std::atomic<int> at_work = 0;
thread_local int helper_of = 0;  // the number of threads that this helper's caller may use, 0 for a caller

void wait_a_little(int& turns) {
    if (++turns % 64 == 0) {
        std::this_thread::yield();
    } else {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
}

// Waits until `state` is no longer `old`: for some tens of microseconds awake, since the calls of a learner follow each other
// quickly, then asleep.
void wait_while(const std::atomic<int>& state, int old) {
    for (int turns = 0; turns < 4000; wait_a_little(turns))
        if (state.load(std::memory_order_acquire) != old) return;
    state.wait(old, std::memory_order_acquire);
}

// Changes a state that another thread may wait for, and wakes it. The store must be sequentially consistent: notify_all() first reads
// whether anyone waits, and a processor may do that before a plain store is visible, just while the other thread falls asleep.
// It would then never be woken.
void change(std::atomic<int>& state, int value) {
    state.store(value, std::memory_order_seq_cst);
    state.notify_all();
}

// A thread that waits for work and does it, again and again. It never ends: asleep, it costs nothing.
class Worker {
  public:
    Worker()
        : thread_([this] {
              for (;;) {
                  wait_while(state_, idle);
                  if (moved_) spread_->release();
                  helper_of = n_threads_;
                  (*work_)();
                  --at_work;
                  core_ = Spread::core();
                  change(state_, idle);
              }
          }) {}

    void start(const std::function<void()>& work, int n_threads, Spread& spread, int nth) {
        work_ = &work;
        n_threads_ = n_threads;
        spread_ = &spread;
        moved_ = spread.place(thread_, nth, core_);
        change(state_, busy);
    }

    void finish() { wait_while(state_, busy); }
    bool is_busy() const { return state_.load(std::memory_order_acquire) == busy; }

  private:
    enum : int { idle, busy };
    std::atomic<int> state_ = idle;
    const std::function<void()>* work_ = nullptr;
    int n_threads_ = 0;
    const Spread* spread_ = nullptr;
    bool moved_ = false;
    int core_ = -1;       // where it last worked
    std::thread thread_;  // the last member: it uses the others
};

// The workers that have nothing to do. Threads do not live on in a child process, which begins with an empty pool.
class Pool {
  public:
    // Returns a worker, a new one if need be, or nothing if the system has no more threads.
    Worker* take() {
        {
            const std::lock_guard lock(mutex_);
            if (!idle_.empty()) {
                Worker* const worker = idle_.back();
                idle_.pop_back();
                return worker;
            }
        }
        try {
            return new Worker;
        } catch (const std::system_error&) {
            return nullptr;
        }
    }

    void give_back(const std::vector<Worker*>& workers) {
        const std::lock_guard lock(mutex_);
        idle_.insert(idle_.end(), workers.rbegin(), workers.rend());
    }

  private:
    std::mutex mutex_;
    std::vector<Worker*> idle_;
};

Pool* pool = new Pool;
std::atomic<int> generation = 0;

#if defined(__unix__) || defined(__APPLE__)
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] {
    ++generation;
    at_work = 0;
    pool = new Pool;  // the old one may be locked, and its threads are not here
});
#endif

// Up to `wanted` threads that run `work`, done when this object ends. In a child forked meanwhile (by a signal handler that
// the caller's thread ran) there is nothing to wait for: the helpers are not there.
class Helpers {
  public:
    // Calls that run at the same time share the cores: one that finds others at work takes fewer helpers.
    Helpers(int n_threads, int wanted, const std::function<void()>& work) {
        const int count = std::max(0, wanted - at_work.fetch_add(1));
        if (count == 0) return;
        workers_.reserve(std::size_t(count));
        for (int t = 1; t <= count; ++t) {
            Worker* const worker = pool->take();
            if (worker == nullptr) break;  // the others do the work
            ++at_work;
            worker->start(work, n_threads, spread_, t);
            workers_.push_back(worker);
        }
    }
    // Waits until all are done, and calls poll() every few milliseconds meanwhile.
    template <class Poll>
    void wait(Poll poll) const {
        int turns = 0;
        for (const Worker* const worker : workers_)
            while (fork_generation() == generation_ && worker->is_busy()) {
                if (turns < 4000) {
                    wait_a_little(turns);
                } else {
                    std::this_thread::sleep_for(std::chrono::milliseconds(2));
                    poll();
                }
            }
    }
    ~Helpers() {
        if (fork_generation() != generation_) return;
        if (!workers_.empty()) {
            for (Worker* const worker : workers_) worker->finish();
            pool->give_back(workers_);
        }
        --at_work;
    }

  private:
    const int generation_ = fork_generation();
    Spread spread_;
    std::vector<Worker*> workers_;
};

}  // namespace

int fork_generation() {
    return generation.load(std::memory_order_relaxed);
}

bool should_retire() {
    return helper_of > 0 && at_work.load() > helper_of;
}

void in_threads(Index count, int n_threads, Interrupt* interrupt, const std::function<void(Index)>& body) {
    std::atomic<Index> next = 0;
    std::mutex mutex;
    std::exception_ptr error, callers_error;
    const auto work = [&](auto stop) {
        for (Index i; !stop() && (i = next.fetch_add(1)) < count;) body(i);
    };
    const std::function<void()> help = [&] {
        try {
            work(should_retire);
        } catch (...) {
            next.store(count);
            const std::lock_guard lock(mutex);
            if (!error) error = std::current_exception();
        }
    };
    {
        const Helpers helpers(n_threads, int(std::min<Index>(n_threads, count)) - 1, help);
        try {
            work([] { return false; });  // the caller stays to the end, also if it is a helper of another call
            if (interrupt) helpers.wait([&] { interrupt->ask(); });
        } catch (...) {  // without the lock: in a forked child, a helper that is not there may hold it
            next.store(count);
            callers_error = std::current_exception();
        }
    }
    if (callers_error) std::rethrow_exception(callers_error);
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
    for (int turns = 0; done_.load(std::memory_order_acquire) < count;) {
        wait_a_little(turns);
        if (interrupt_ && turns % 4096 == 0) interrupt_->ask();
    }
}

void with_team(int n_threads, Interrupt* interrupt, const std::function<void(Team&)>& body) {
    Team team(interrupt);
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
