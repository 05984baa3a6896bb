// The largest entries of a long row that comes in pieces.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "simd/kernels.hpp"

namespace taskdict {

// An atom and the size of its correlation.
struct Entry {
    float size;
    std::int32_t atom;
};

// Keeps the `most` largest entries above a bound; all others are at most `cut()`.
class TopList {
  public:
    void begin(Index most, float bound, bool positive) {
        most_ = std::size_t(most);
        cut_ = bound;
        positive_ = positive;
        entries_.clear();
    }

    // Adds the entries of one piece: `count` numbers, aligned and in whole vectors, of the atoms from `first` on.
    void add(const float* row, Index count, Index first, std::vector<std::int32_t>& scratch) {
        scratch.resize(std::size_t(count));
        const Index found = instruction_set().list_above(row, count, cut_, positive_, scratch.data());
        for (Index f = 0; f < found; ++f) {
            const std::int32_t place = scratch[std::size_t(f)];
            entries_.push_back({row[place] < 0 ? -row[place] : row[place], std::int32_t(first) + place});
        }
        if (entries_.size() > 2 * most_) shorten();
    }

    // Call once after the last piece.
    void end() {
        if (entries_.size() > most_) shorten();
    }

    float cut() const { return cut_; }
    std::span<const Entry> entries() const { return entries_; }

  private:
    // Ties are broken by the number of the atom, so that the result does not depend on the standard library.
    void shorten() {
        const auto before = [](const Entry& a, const Entry& b) { return a.size > b.size || (a.size == b.size && a.atom < b.atom); };
        const auto last = entries_.begin() + std::ptrdiff_t(most_) - 1;
        std::nth_element(entries_.begin(), last, entries_.end(), before);
        cut_ = last->size;
        entries_.resize(most_);
    }

    std::vector<Entry> entries_;
    std::size_t most_ = 1;
    float cut_ = 0;
    bool positive_ = false;
};

}  // namespace taskdict
