// Blocks of signals shared by threads: they end in any order, and their codes are appended in the order of the signals.
#pragma once

#include <atomic>
#include <exception>
#include <map>
#include <memory>
#include <mutex>

#include "batch/codes.hpp"
#include "system/interrupt.hpp"
#include "system/threads.hpp"

namespace taskdict {

template <class T>
class InOrder {
  public:
    explicit InOrder(Codes<T>& codes) : codes_(codes) {}

    void add(Index block, std::unique_ptr<Codes<T>> part) {
        const std::lock_guard lock(mutex_);
        waiting_.emplace(block, std::move(part));
        for (auto ready = waiting_.find(next_); ready != waiting_.end(); ready = waiting_.find(++next_)) {
            codes_.append(*ready->second);
            waiting_.erase(ready);
        }
    }

  private:
    Codes<T>& codes_;
    std::mutex mutex_;
    std::map<Index, std::unique_ptr<Codes<T>>> waiting_;
    Index next_ = 0;
};

// Appends the codes of all blocks. `make()` returns a worker, once per thread; worker(block, upcoming, part) writes the codes of a block,
// and may prepare for the block that this thread will take next.
template <class T, class Make>
void encode_blocks(Index blocks, Codes<T>& codes, int n_threads, Interrupt& interrupt, const Make& make) {
    InOrder<T> in_order(codes);
    std::atomic<Index> next = 0;
    std::mutex mutex;
    std::exception_ptr cause;  // the first error; the other threads then stop as if interrupted
    const auto take_blocks = [&] {
        if (next.load() >= blocks || interrupt.stopped()) return;
        try {
            auto worker = make();
            for (Index b = next.fetch_add(1), upcoming; b < blocks; b = upcoming) {
                upcoming = should_retire() ? blocks : next.fetch_add(1);
                auto part = std::make_unique<Codes<T>>(codes.keep_factors);
                worker(b, upcoming, *part);
                in_order.add(b, std::move(part));
            }
        } catch (const Interrupted&) {
            interrupt.stop();
        } catch (...) {
            const std::lock_guard lock(mutex);
            if (!cause) cause = std::current_exception();
            interrupt.stop();
        }
    };
    in_threads(std::min<Index>(n_threads, blocks), n_threads, &interrupt, [&](Index) { take_blocks(); });
    take_blocks();  // the blocks that helpers left when they retired early
    if (cause) std::rethrow_exception(cause);
    if (interrupt.stopped()) throw Interrupted{};
}

}  // namespace taskdict
