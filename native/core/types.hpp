// The vocabulary that the portable files and the kernels of each instruction set share.
#pragma once

#include <cstddef>
#include <cstdint>

namespace taskdict {

using Index = std::ptrdiff_t;

inline constexpr Index round_up(Index value, Index multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

// Features that the products sum in one go.
inline constexpr Index slice_length = 256;

// Supports have room for a multiple of this many atoms, whatever the width of a vector.
inline constexpr Index capacity_step = 16;

// Memory for the support Λ of one signal, owned and reused by the caller; every array is aligned to 64 bytes.
template <class T>
struct Workspace {
    Index capacity = 0;                // largest support it can hold
    Index size = 0;                    // k = |Λ|
    T* inverse = nullptr;              // (M_ΛΛ)⁻¹, rows of `capacity`; zero right of column k up to a whole vector
    T* alpha = nullptr;                // coefficients
    T* sign = nullptr;                 // their signs, ±1
    T* residual = nullptr;             // c_Λ − M_ΛΛ α − λ1 s
    T* step = nullptr;                 // inverse · residual
    T* column = nullptr;               // scratch: a column of M_Λ
    T* product = nullptr;              // scratch: inverse · column
    std::int32_t* atoms = nullptr;     // Λ, in no order
    std::int32_t* found = nullptr;     // scratch: atoms or places in Λ (p entries)
    std::int32_t* position = nullptr;  // where an atom is in Λ, or −1 (p entries)
    T* rho = nullptr;                  // c − M α for all atoms (a row of M long)
    T* slope = nullptr;                // scratch of the homotopy (a row of M long)
    T previous = -1;                   // residual on Λ before the last pass that only corrected it, −1 after another
    T digits = 1;                      // share of the inverse's digits that no removal has cost (double precision)
    T before = -1;                     // worst violation before the last pass
    double work = 0;                   // multiply-adds so far
    int passes = 0;                    // so far
};

// A dictionary as the kernels see it: M = DᵀD + λ2 I in rows of `stride` ≥ p, zero beyond column p.
template <class T>
struct Gram {
    const T* rows = nullptr;
    Index atoms = 0;  // p
    Index stride = 0;
    Index rank = 0;  // no more atoms than this are independent: m if λ2 = 0, p otherwise
};

template <class T>
struct Settings {
    T violation = 0;   // accepted violation of Lemma 1, relative to max(λ1, ‖c‖∞)
    T dependence = 0;  // smallest squared distance of an atom from the span of Λ, relative to its squared norm
    T fraction = 0;    // of the largest violation, for an atom to join
    Index most = 0;    // atoms that join in one pass, unless tied or the support is large already
    int max_steps = 0;
    bool careful = false;           // more work per solve, so that nearly dependent atoms cost fewer digits
    void (*poll)(void*) = nullptr;  // called with `context` now and then while the support is large; may throw
    // Sets out = Dᵀ(x − D weights) − λ2 weights for the signal itself, or for zero in its place, more accurately than M and c allow; the
    // weights are those of Λ. The support is then kept as it is found.
    void (*measure)(void*, const Workspace<T>&, const T* weights, bool of_signal, T* out) = nullptr;
    void* context = nullptr;
};

enum class Outcome : int {
    solved,  // a full pass found Lemma 1 satisfied
    stuck,   // beyond what this arithmetic can do: singular Λ, ties, rounding
    slow,    // the homotopy takes less work
    full,    // the workspace is too small; grow it and call again
};

template <class T>
struct Solution {
    Outcome outcome = Outcome::stuck;
    int steps = 0;
    T kkt = 0;  // largest violation of Lemma 1, relative to max(λ1, ‖c‖∞); 1e30 if it was not measured
};

// Memory of the double-precision finish (refine.hpp) for one signal.
struct Refinement {
    Index capacity = 0;
    double* alpha = nullptr;     // the result, in the order of Workspace::atoms
    double* c = nullptr;         // c_Λ − λ1 s
    double* residual = nullptr;  // c_Λ − λ1 s − M_ΛΛ α
    double* block = nullptr;     // M_ΛΛ, rows of `capacity`
};

// The largest violation of Lemma 1 that a code may have, relative to max(λ1, ‖Dᵀx‖∞): measured, with a bound on the error of that.
struct Certificate {
    double kkt = 0;
    double bound = 0;
    double worst() const { return kkt + bound; }
    // What was measured; but what it may be where only that breaks a promise.
    double reported(double promise) const { return kkt <= promise && worst() > promise ? worst() : kkt; }

    // Of absolute numbers, relative to a scale that may be zero. What is not a number stays so.
    static Certificate relative(double violation, double bound, double scale) {
        const auto of = [scale](double value) { return value <= 0 ? 0.0 : value / scale; };
        return {of(violation), of(bound)};
    }
};

// Scaled penalties and products below this may have lost digits, or all of them.
inline constexpr double smallest = 1e-280;

// What loading a signal tells about it.
struct Magnitude {
    double top = 0;      // largest magnitude; NaN if an entry is not finite
    double squares = 0;  // ‖x‖²
};

}  // namespace taskdict
