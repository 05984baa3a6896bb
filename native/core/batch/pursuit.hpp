// Orthogonal matching pursuit of a batch: threads share blocks of signals, and the codes are collected in order.
#pragma once

#include "batch/encode.hpp"
#include "dictionary/matching_pursuit.hpp"

namespace taskdict {

// When pursuits end; each list has one number for all signals or one per signal, or is empty if there is no such rule.
struct PursuitRules {
    std::span<const std::int32_t> n_nonzero;
    std::span<const double> max_error;  // of ‖x − Dα‖²

    PursuitRule of(Index row, Index most) const {
        const auto at = [row](const auto& list) { return list[list.size() == 1 ? 0 : std::size_t(row)]; };
        return {n_nonzero.empty() ? most : Index(at(n_nonzero)), max_error.empty() ? -1.0 : at(max_error)};
    }
};

// Appends the codes of all signals. Their bits do not depend on the number of threads. Throws BadSignal or Interrupted.
template <class T, template <class> class Signals>
void pursue(const MatchingPursuit<T>& pursuit, const Signals<T>& signals, const PursuitRules& rules, Codes<T>& codes, int n_threads,
            Interrupt& interrupt);

}  // namespace taskdict
