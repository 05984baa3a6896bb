// The problem of one signal: min ½‖x − Dα‖² + λ1 Σ w_j|α_j| + λ2/2‖α‖² over α, or over α ≥ 0.
#pragma once

#include <vector>

#include "solve/certificate.hpp"
#include "types.hpp"

namespace taskdict {

template <class T>
struct Problem {
    const T* atoms;  // p × m, contiguous
    Index p;
    Index m;
    const T* x;
    double lambda1;
    double lambda2;
    bool positive;
    const double* weights = nullptr;  // w, finite and at least zero; null if all are one

    // λ1 of an atom.
    double penalty(Index j) const { return weights ? lambda1 * weights[j] : lambda1; }
    // Whether the sign of a coefficient is of no consequence.
    bool is_free(Index j) const { return penalty(j) == 0 && !positive; }
    double largest_penalty() const {
        double largest = weights ? 0 : lambda1;
        for (Index j = 0; weights && j < p; ++j) largest = penalty(j) > largest ? penalty(j) : largest;
        return largest;
    }
};

// A code with its certificate.
template <class T>
struct CertifiedCode {
    std::vector<std::int32_t> atoms;
    std::vector<T> alpha;  // nonzero
    Certificate certificate;
    int steps = 0;
};

// Scaled penalties and products below this may have lost digits, or all of them.
inline constexpr double underflow_limit = 1e-280;

}  // namespace taskdict
