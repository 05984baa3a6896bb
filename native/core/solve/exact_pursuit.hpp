// Orthogonal matching pursuit of one signal in wider arithmetic (double for float, long double for double), for what the kernels
// leave doubtful: supports of nearly dependent atoms, and correlations near rounding. It decides what counts as dependent and as
// rounding, for all precisions alike.
#pragma once

#include <span>
#include <vector>

#include "solve/certificate.hpp"
#include "system/interrupt.hpp"
#include "types.hpp"

namespace taskdict {

// An atom whose distance from the span of the support, relative to its norm, is at most this depends on it.
template <class T>
inline constexpr double dependent_distance = sizeof(T) == 4 ? 0x1p-11 * 0.7071067811865476 : 0x1p-26;  // √ε

// Residuals and correlations up to this, relative to ‖x‖ + Σ|α_j|‖d_j‖, are rounding: four ε.
template <class T>
inline constexpr double rounding_level = sizeof(T) == 4 ? 0x1p-21 : 0x1p-50;

// The problem of one signal.
template <class T>
struct Pursuit {
    const T* atoms;  // p × m
    Index p;
    Index m;
    const T* x;
    const double* norms;   // ‖d_j‖
    const double* shares;  // of the units of the atoms in the unit of the correlations: powers of two, at most 1
    Index max_nonzero;
    double max_error;  // of ‖x − Dα‖²; negative if there is no such rule
    double scale;      // the largest |⟨x, d_j⟩| in these shares, or a little less; negative if it is not known
};

// A code with its certificate: the largest |⟨x − Dα, d_j⟩| on the support relative to the largest |⟨x, d_j⟩| of all atoms.
template <class T>
struct PursuitCode {
    std::vector<std::int32_t> atoms;  // as they were chosen
    std::vector<T> alpha;
    Certificate certificate;
    bool met = true;  // ‖x − Dα‖² ≤ max_error, if that is a rule
};

// Goes on from a support that is known to be right.
template <class T>
PursuitCode<T> pursue_exactly(const Pursuit<T>& pursuit, std::span<const std::int32_t> start, Interrupt& interrupt);

// Measures a given code.
template <class T>
void measure_exactly(const Pursuit<T>& pursuit, PursuitCode<T>& code, Interrupt& interrupt);

}  // namespace taskdict
