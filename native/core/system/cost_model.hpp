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

}  // namespace taskdict
