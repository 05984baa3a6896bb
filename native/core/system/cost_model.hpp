// The cost model: rough times of the loops on one core, from which the number of threads of a call follows.
//
// All numbers are microseconds on the machine of the benchmarks. Results do not depend on them: they only decide how many threads
// are woken. A factor of two in any of them is of no consequence.
#pragma once

#include <algorithm>

namespace taskdict {

namespace cost {

// Work for which one more thread pays. Waking one costs some ten microseconds; on busy cores, waiting for it may cost far more.
inline constexpr double worth_a_thread = 100;

// To load a signal, solve for its code and write it, apart from the terms in p and m·p.
inline constexpr double per_signal = 1.5;
// Per atom and signal: the passes of the solver over all correlations.
inline constexpr double per_correlation = 4e-3;
// Per atom, feature and signal: a multiply-add of X·Dᵀ, memory traffic included.
inline constexpr double per_signal_product = 2.5e-5;
// Per p²·m: a multiply-add of DᵀD, of which half are computed.
inline constexpr double per_gram_product = 1e-5;
// Per p²: an entry of DᵀD that is written and mirrored; more than a core's caches hold.
inline constexpr double per_gram_entry = 1e-3;
// Per atom and signal: the passes of the solver over rows of a Gram matrix that is larger than the caches.
inline constexpr double per_far_correlation = 8e-3;
// Without a Gram matrix. Per entry of the dictionary: packing it. Per signal and feature, and per signal: solving on candidates. Per atom,
// feature and signal: two products, and a third for some. Per atom and signal: listing the largest correlations.
inline constexpr double per_packed_entry = 1.8e-3, direct_per_feature = 0.04, direct_per_signal = 30;
inline constexpr double direct_per_product = 3.5e-5, direct_per_correlation = 6e-3;
// A Gram matrix in double precision, with the copy in single precision that it has, over one in single precision.
inline constexpr double wide_gram = 2.2;
// Per p²·m: a multiply-add of the gradient B − AD of the dictionary update.
inline constexpr double per_update_product = 4e-5;
// Per entry of a stored triangle (M_ΛΛ)⁻¹: all rounds of correction of an adjoint.
inline constexpr double per_factor_entry = 2e-3;
// Per feature of a row that is read for a weighted sum of rows.
inline constexpr double per_row_feature = 1e-4;
// Per pair of nonzeros of one signal: a scattered read or addition.
inline constexpr double per_pair = 1e-3;
// Per entry of a p × p matrix that is scaled or set to zero.
inline constexpr double per_written_entry = 3e-4;

// Per atom, feature and signal: all steps of a matching pursuit.
inline constexpr double per_pursuit_product = 5e-5;
// Per entry of a row of the Gram matrix in a step of a pursuit: read from a cache that holds the matrix, and beyond.
inline constexpr double per_pursuit_entry = 5e-5, per_far_pursuit_entry = 4e-4;

}  // namespace cost

// Whether a matching pursuit keeps a Gram matrix of p atoms: each step then reads k rows of it, else it multiplies m features of all
// atoms. The number of signals plays no role, so that the codes of a signal are the same bits whatever it is encoded with.
inline bool pursuit_by_gram(double p, double m, double bytes) {
    constexpr double cache = 1 << 24, largest = 1 << 28, typical_nonzeros = 16;
    const double matrix = p * p * bytes;
    if (matrix > largest) return false;
    const double per_entry = matrix > cache ? cost::per_far_pursuit_entry : cost::per_pursuit_entry;
    return std::min(typical_nonzeros, m) / 2 * per_entry <= m * cost::per_signal_product;
}

// The number of threads worth using for so many microseconds of work, between 1 and n_threads.
inline int worthwhile_threads(int n_threads, double microseconds) {
    return int(std::clamp(microseconds / cost::worth_a_thread, 1.0, double(n_threads)));
}

// A Gram matrix may take this much memory.
inline constexpr double largest_gram_bytes = 512e6;
// Dictionaries of fewer atoms always have one, so that the bits of their codes do not depend on how many signals come at once.
inline constexpr double least_direct_atoms = 1024;

// Whether n signals of m features are encoded on p atoms without a Gram matrix, which takes `entry_bytes` per entry. The measurements
// behind these numbers are printed by `benchmarks/paths.py`.
inline bool prefers_direct(double n, double m, double p, double entry_bytes) {
    using namespace cost;
    n = std::min(n, 1e9);
    if (p < least_direct_atoms) return false;
    if (p * p * entry_bytes > largest_gram_bytes) return true;
    const double matrix = p * p * (per_gram_product * m + per_gram_entry) * (entry_bytes > 4 ? wide_gram : 1);
    const double gram = matrix + n * (per_signal + p * (per_signal_product * m + per_far_correlation));
    const double direct =
        per_packed_entry * p * m + n * (direct_per_signal + direct_per_feature * m + p * (direct_per_product * m + direct_per_correlation));
    return direct < gram;
}

}  // namespace taskdict
