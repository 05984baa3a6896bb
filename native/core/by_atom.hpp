// The nonzeros of a batch of codes, sorted by atom: the sums over a batch go through them atom by atom.
#pragma once

#include <vector>

#include "supports.hpp"

namespace taskdict {

// The nonzeros of each atom: `rows` has their signals, `places` where they are among the nonzeros of the batch.
struct ByAtom {
    explicit ByAtom(const Supports& supports)
        : starts(std::size_t(supports.atoms) + 1), rows(std::size_t(supports.indptr[supports.rows])), places(rows.size()) {
        for (std::size_t i = 0; i < rows.size(); ++i) ++starts[std::size_t(supports.indices[i]) + 1];
        for (std::size_t j = 1; j < starts.size(); ++j) starts[j] += starts[j - 1];
        std::vector<Index> next(starts.begin(), starts.end() - 1);
        for (Index r = 0; r < supports.rows; ++r)
            for (std::int64_t i = supports.indptr[r]; i < supports.indptr[r + 1]; ++i) {
                const auto at = std::size_t(next[std::size_t(supports.indices[i])]++);
                rows[at] = std::int32_t(r);
                places[at] = i;
            }
    }

    std::vector<Index> starts;
    std::vector<std::int32_t> rows;
    std::vector<std::int64_t> places;
};

}  // namespace taskdict
