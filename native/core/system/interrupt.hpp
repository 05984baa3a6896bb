// Stopping a long call from outside (Ctrl-C) or after an error in one of its threads.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

namespace taskdict {

struct Interrupted {};

class Interrupt {
  public:
    // `ask` says whether the user wants to stop; only the thread that made this object calls it, now and then.
    explicit Interrupt(std::function<bool()> ask) : ask_(std::move(ask)), caller_(std::this_thread::get_id()), last_(Clock::now()) {}

    void stop() { stopped_.store(true, std::memory_order_relaxed); }
    bool stopped() const { return stopped_.load(std::memory_order_relaxed); }

    // Throws Interrupted if the work is to end. Cheap: call it for every signal and in every long loop.
    void poll() {
        ask();
        if (stopped()) throw Interrupted{};
    }

    // Asks whether the work is to end, and stops it then.
    void ask() {
        if (stopped() || !ask_ || std::this_thread::get_id() != caller_) return;
        const auto now = Clock::now();
        if (now - last_ < std::chrono::milliseconds(50)) return;
        last_ = now;
        if (ask_()) stop();
    }

  private:
    using Clock = std::chrono::steady_clock;
    std::function<bool()> ask_;
    std::thread::id caller_;
    Clock::time_point last_;
    std::atomic<bool> stopped_ = false;
};

}  // namespace taskdict
