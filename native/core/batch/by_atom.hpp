// The nonzeros of a batch of codes sorted by atom, for sums over a batch that are computed atom by atom.
#pragma once

#include <vector>

#include "batch/sparsity_pattern.hpp"

namespace taskdict {

// The nonzeros of atom j are at starts[j] … starts[j + 1]: `rows` has their signals, `places` their positions in the pattern.
struct ByAtom {
    explicit ByAtom(const SparsityPattern& pattern)
        : starts(std::size_t(pattern.atoms) + 1), rows(std::size_t(pattern.nonzeros())), places(rows.size()) {
        for (const std::int32_t atom : pattern.indices) ++starts[std::size_t(atom) + 1];
        for (std::size_t j = 1; j < starts.size(); ++j) starts[j] += starts[j - 1];
        std::vector<Index> next(starts.begin(), starts.end() - 1);
        for (Index r = 0; r < pattern.rows(); ++r)
            for (Index i = pattern.start(r); i < pattern.start(r + 1); ++i) {
                const auto at = std::size_t(next[std::size_t(pattern.indices[std::size_t(i)])]++);
                rows[at] = std::int32_t(r);
                places[at] = i;
            }
    }

    std::vector<Index> starts;
    std::vector<std::int32_t> rows;
    std::vector<std::int64_t> places;
};

}  // namespace taskdict
