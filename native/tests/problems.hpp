// The problems that codes and their adjoints are tested on.
#pragma once

#include "batch/encode.hpp"
#include "check.hpp"

namespace taskdict::tests {

struct Case {
    const char* name;
    Index p, m, n;
    Parameters parameters;
    bool integers = false;  // entries −1, 0 and 1: ties, and dependent atoms
};

// Calls `body` for every kind of problem, by both methods, with and without signs.
template <class Body>
void for_cases(Body body) {
    for (const Method method : {Method::active_set, Method::homotopy})
        for (const bool positive : {false, true}) {
            body(Case{"random", 70, 30, 200, {0.5, 0.0, positive, method}});
            body(Case{"wide, elastic", 90, 8, 100, {0.01, 1.0, positive, method}});
            body(Case{"ties and dependent atoms", 60, 9, 150, {0.3, 0.0, positive, method}, true});
            body(Case{"least squares", 12, 5, 40, {0.0, 0.0, positive, method}});
            body(Case{"ridge, large support", 150, 20, 5, {0.0, 0.1, positive, method}});
            body(Case{"one feature", 3, 1, 10, {0.1, 0.0, positive, method}});
            body(Case{"one atom", 1, 17, 10, {0.1, 0.0, positive, method}});
            body(Case{"no signal", 4, 3, 0, {0.1, 0.0, positive, method}});
        }
}

// The rule of a given λ1.
inline Goals penalty(const Parameters& parameters) {
    return {Rule::penalty, &parameters.lambda1, 1};
}

// A case with its dictionary, signals and codes.
template <class T>
struct Encoded {
    explicit Encoded(const Case& given)
        : c(given),
          atoms(random_numbers<T>(c.p * c.m, 1, c.integers)),
          signals(random_numbers<T>(c.n * c.m, 2, c.integers)),
          encoder(atoms.data(), c.p, c.m, c.parameters, false, 2, interrupt) {
        encode(encoder, DenseSignals<T>{signals.data(), c.n, c.m, 1}, penalty(c.parameters), codes, 3, interrupt);
    }

    const T* atom(Index j) const { return atoms.data() + j * c.m; }
    const T* signal(Index r) const { return signals.data() + r * c.m; }

    Case c;
    std::vector<T> atoms, signals;
    Interrupt interrupt{nullptr};
    Encoder<T> encoder;
    Codes<T> codes{true};
};

}  // namespace taskdict::tests
