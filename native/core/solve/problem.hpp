// The problem of one signal: min ½‖x − Dα‖² + λ1‖α‖₁ + λ2/2‖α‖² over α, or over α ≥ 0.
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
