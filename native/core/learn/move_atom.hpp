// The step that all updates of the dictionary share.
#pragma once

#include <cmath>

#include "norms.hpp"
#include "types.hpp"

namespace taskdict {

// atom ← the projection of atom + gradient / curvature on the unit ball, or on its non-negative part; `change` gets the difference.
template <class T>
void move_atom(T* atom, const T* gradient, T curvature, Index m, bool positive, T* change) {
    const T step = 1 / curvature;
    for (Index i = 0; i < m; ++i) {
        const T value = atom[i] + gradient[i] * step;
        change[i] = positive && value < 0 ? T(0) : value;  // NaN stays, to be noticed
    }
    const double square = squared_norm(change, m);
    const T factor = square > 1 ? T(1 / std::sqrt(square)) : T(1);
    for (Index i = 0; i < m; ++i) {
        const T value = change[i] * factor;
        change[i] = value - atom[i];
        atom[i] = value;
    }
}

}  // namespace taskdict
