// Threads for one call. Helpers are kept asleep between calls, so that the many short calls of a learner need not start new ones.
// A child process begins without any.
#pragma once

#include <atomic>
#include <functional>

#include "system/interrupt.hpp"
#include "types.hpp"

namespace taskdict {

// Whether this thread is a helper and should end its task early, since other calls have come to need the cores.
bool should_retire();

// How many forks lie between this process and the one that loaded this library. A call that sees it change
// runs in a child process without its helpers, and cannot be finished there.
int fork_generation();

// Runs body(i) for 0 ≤ i < count on up to n_threads threads, the caller's among them. With `interrupt` (or null), the caller asks
// it also while it waits for the others, which stop if they poll it. Whether all was done is for the caller to check.
void in_threads(Index count, int n_threads, Interrupt* interrupt, const std::function<void(Index)>& body);

// Many short loops one after another: the helpers stay for all of them, and the caller takes the tasks that they do not.
class Team {
  public:
    // With `interrupt`, the caller asks also while it waits whether to stop; tasks that poll then end early.
    explicit Team(Interrupt* interrupt) : interrupt_(interrupt) {}

    // Runs task(i) for 0 ≤ i < count; only the thread that made the team calls this. Tasks must not throw.
    void loop(Index count, const std::function<void(Index)>& task);

    // Runs one task of the current loop if one is left.
    bool take();

  private:
    const std::function<void(Index)>* task_ = nullptr;
    std::atomic<std::uint64_t> ticket_ = 0;
    std::atomic<Index> done_ = 0;
    Interrupt* interrupt_;
};

// Runs body(team) on the caller's thread, with up to n_threads − 1 helpers in the team.
void with_team(int n_threads, Interrupt* interrupt, const std::function<void(Team&)>& body);

}  // namespace taskdict
