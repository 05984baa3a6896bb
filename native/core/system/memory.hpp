// Aligned memory with an owner.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>

#include "types.hpp"

namespace taskdict {

struct Free {
    void operator()(void* memory) const { std::free(memory); }
};

// `count` numbers, aligned to 64 bytes and set to zero.
template <class T>
class Array {
  public:
    Array() = default;
    explicit Array(Index count) : size_(count) {
        const std::size_t bytes = std::size_t(round_up(count * Index(sizeof(T)), 64));
        memory_.reset(static_cast<T*>(std::aligned_alloc(64, bytes > 0 ? bytes : 64)));
        if (!memory_) throw std::bad_alloc();
        std::memset(memory_.get(), 0, bytes);
    }
    T* data() { return memory_.get(); }
    const T* data() const { return memory_.get(); }
    Index size() const { return size_; }
    T& operator[](Index i) { return memory_.get()[i]; }
    const T& operator[](Index i) const { return memory_.get()[i]; }

  private:
    std::unique_ptr<T[], Free> memory_;
    Index size_ = 0;
};

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define TASKDICT_POISON
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(NDEBUG)
#define TASKDICT_POISON
#endif

// In debug and sanitizer builds, overwrites scratch with NaN (or −1), so that a read of the results of an earlier signal is noticed.
template <class T>
void poison([[maybe_unused]] Array<T>& scratch) {
#if defined(TASKDICT_POISON)
    std::memset(static_cast<void*>(scratch.data()), 0xFF, std::size_t(scratch.size()) * sizeof(T));
#endif
}

// An array that grows at its end, in place where the system can (realloc). Its memory can be released to another owner.
template <class T>
class Growing {
  public:
    T* extend(Index count) {
        if (size_ + count > capacity_) {
            capacity_ = size_ + count + capacity_ / 2;
            void* larger = std::realloc(memory_.get(), std::size_t(capacity_) * sizeof(T));
            if (!larger) throw std::bad_alloc();
            (void)memory_.release();
            memory_.reset(static_cast<T*>(larger));
        }
        size_ += count;
        return memory_.get() + size_ - count;
    }
    void append(const T* from, Index count) {
        T* to = extend(count);
        if (count > 0) std::memcpy(to, from, std::size_t(count) * sizeof(T));
    }
    void drop_last(Index count) { size_ -= count; }
    T* data() { return memory_.get(); }
    const T* data() const { return memory_.get(); }
    Index size() const { return size_; }
    std::span<const T> span() const { return {memory_.get(), std::size_t(size_)}; }

    // Gives the memory, cut to size, to the caller, which must call std::free.
    T* release() {
        if (void* smaller = std::realloc(memory_.get(), std::size_t(size_ > 0 ? size_ : 1) * sizeof(T))) {
            (void)memory_.release();
            memory_.reset(static_cast<T*>(smaller));
        }
        size_ = capacity_ = 0;
        return memory_.release();
    }

  private:
    std::unique_ptr<T[], Free> memory_;
    Index size_ = 0;
    Index capacity_ = 0;
};

}  // namespace taskdict
