// Threads for one call: started when it begins, joined before it ends. No pool is kept, so there is nothing that a fork could
// break or that could idle on a core.
#pragma once

#include <algorithm>
#include <functional>

#include "types.hpp"

namespace taskdict {

// Threads worth starting for so many microseconds of work. Starting one costs some tens, but where others keep the cores busy,
// waiting for it may cost far more.
inline int worthwhile_threads(int n_threads, double microseconds) {
    return int(std::clamp(microseconds / 400, 1.0, double(n_threads)));
}

// Whether this thread is a helper and should end its task early, since other calls have come to need the cores.
bool should_retire();

// Runs body(i) for 0 ≤ i < count on up to n_threads threads, the caller's among them.
void in_threads(Index count, int n_threads, const std::function<void(Index)>& body);

}  // namespace taskdict
