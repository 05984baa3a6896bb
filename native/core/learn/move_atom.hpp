// The step that all updates of the dictionary share.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

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

// atom ← the minimiser of Σ_i (½ c_i (v_i − atom_i)² − gradient_i (v_i − atom_i)) over v in the unit ball, or in its non-negative part, for a
// curvature c_i of each feature; `change` gets the difference. With b_i = c_i atom_i + gradient_i it is v_i = b_i / (c_i + μ), where μ is zero
// if that fits into the ball, else the multiplier at which the norm is one. An entry without curvature does not matter: it stays as far as
// there is room for it.
template <class T>
void move_atom_by_features(T* atom, const T* gradient, const T* curvatures, Index m, bool positive, T* change) {
    const auto matters = [&](Index i) { return !(curvatures[i] <= std::numeric_limits<T>::min()); };
    const auto pull = [&](Index i) {
        const double b = double(curvatures[i]) * double(atom[i]) + double(gradient[i]);
        return positive && b < 0 ? 0.0 : b;  // NaN stays, to be noticed
    };
    double free = 0, largest = 0, pulls = 0;
    for (Index i = 0; i < m; ++i) {
        if (matters(i)) {
            largest = std::max(largest, double(curvatures[i]));
            pulls += pull(i) * pull(i);
        } else
            free += double(atom[i]) * double(atom[i]);
    }
    if (largest == 0 && pulls == 0) {
        std::fill_n(change, m, T(0));
        return;
    }
    // Newton's method on 1 / ‖v(μ)‖ = 1. The left side is concave and rises with μ, so from below the steps stay below the root.
    double mu = 0, square = 0;
    for (int step = 0; step < 100; ++step) {
        double slope = 0;
        square = 0;
        for (Index i = 0; i < m; ++i)
            if (matters(i)) {
                const double v = pull(i) / (double(curvatures[i]) + mu);
                square += v * v;
                slope += v * v / (double(curvatures[i]) + mu);
            }
        if (!(square > 1 + 1e-14)) break;
        const double norm = std::sqrt(square), next = std::max(mu + square / slope * (norm - 1), std::sqrt(pulls) - largest);
        if (!(next > mu)) break;
        mu = next;
    }
    const double factor = square > 1 ? 1 / std::sqrt(square) : 1.0;
    const double room = mu > 0 ? 0.0 : free + square > 1 ? std::sqrt(std::max(0.0, 1 - square) / free) : 1.0;
    for (Index i = 0; i < m; ++i) {
        const T value = matters(i) ? T(factor * pull(i) / (double(curvatures[i]) + mu)) : T(room * double(atom[i]));
        change[i] = value - atom[i];
        atom[i] = value;
    }
}

}  // namespace taskdict
