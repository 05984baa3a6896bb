// The codes of a batch of signals.
#pragma once

#include "batch/sparsity_pattern.hpp"
#include "system/memory.hpp"

namespace taskdict {

// The codes of a growing number of signals, in compressed rows with ascending indices.
template <class T>
struct Codes {
    explicit Codes(bool keep_factors) : keep_factors(keep_factors) { begin(); }

    const bool keep_factors;
    Growing<T> values;
    Growing<std::int32_t> indices;
    Growing<std::int64_t> indptr;
    Growing<std::uint8_t> status;
    Growing<T> kkt;
    Growing<std::int32_t> steps;
    Growing<double> lambda1;  // where on the path of the signal its code is
    Growing<T> factors;       // lower triangles of (M_ΛΛ)⁻¹ for the scaled problem, row by row, signal after signal

    // Starts anew, after all arrays were released.
    void begin() {
        const std::int64_t zero = 0;
        indptr.append(&zero, 1);
    }

    void append(const Codes& other) {
        const std::int64_t base = indices.size();
        values.append(other.values.data(), other.values.size());
        indices.append(other.indices.data(), other.indices.size());
        std::int64_t* ends = indptr.extend(other.indptr.size() - 1);
        for (Index r = 1; r < other.indptr.size(); ++r) ends[r - 1] = base + other.indptr.data()[r];
        status.append(other.status.data(), other.status.size());
        kkt.append(other.kkt.data(), other.kkt.size());
        steps.append(other.steps.data(), other.steps.size());
        lambda1.append(other.lambda1.data(), other.lambda1.size());
        factors.append(other.factors.data(), other.factors.size());
    }

    // The pattern of the codes, valid until the next change.
    SparsityPattern pattern(Index atoms) const { return {indptr.span(), indices.span(), atoms}; }
};

}  // namespace taskdict
