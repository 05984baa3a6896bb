// Blocks of signals end in any order; their codes are appended in the order of the signals.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "batch/codes.hpp"

namespace taskdict {

template <class T>
class CodesInOrder {
  public:
    explicit CodesInOrder(Codes<T>& codes) : codes_(codes) {}

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

}  // namespace taskdict
