// The parameters of a call, and the code of one signal.
#pragma once

#include "solve/solver.hpp"

namespace taskdict {

struct Parameters {
    double lambda1 = 0;  // the least λ1 > 0 that will be asked for, or 0
    double lambda2 = 0;
    bool positive = false;
    Method method = Method::active_set;
};

enum class Status : std::uint8_t {
    converged = 0,   // by the first line
    exact = 1,       // by the second or third
    inexact = 2,     // not known to satisfy Lemma 1 to the promise: limited by the rounding of the code or of the signal's products
    unmet = 3,       // the rule cannot be met: the code is that at λ1 = 0
    unobserved = 4,  // nothing of the signal was observed: its code is zero
};

// Pointers stay valid until the next call with the same scratch.
template <class T>
struct Code {
    Index size = 0;
    const std::int32_t* atoms = nullptr;  // in no order
    const T* alpha = nullptr;             // of the scaled problem
    Status status = Status::converged;
    double kkt = 0;
    int steps = 0;
    double lambda1 = 0;  // of the scaled problem
};

}  // namespace taskdict
