// The interface of the solvers of one signal: the dictionary as they see it, their settings, and their result.
#pragma once

#include "rule.hpp"
#include "solve/workspace.hpp"

namespace taskdict {

// A dictionary as the kernels see it: M = DᵀD + λ2 I in rows of `stride` ≥ p, zero beyond column p.
template <class T>
struct Gram {
    const T* rows = nullptr;
    Index atoms = 0;  // p
    Index stride = 0;
    Index rank = 0;  // an upper bound on the number of independent atoms: min(m, p) if λ2 = 0, p otherwise
};

// The problem of one signal in terms of products: c = Dᵀx and M.
template <class T>
struct GramProblem {
    const Gram<T>& gram;
    const T* c;  // a row of M long
    T top;       // largest entry of c (largest magnitude unless `positive`)
    T scale;     // max(λ1, ‖c‖∞)
    T lambda1;
    bool positive;
};

enum class Method : int { active_set, homotopy };

template <class T>
struct Settings {
    T violation = 0;      // accepted violation of Lemma 1, relative to max(λ1, ‖c‖∞)
    T dependence = 0;     // smallest squared distance of an atom from the span of Λ, relative to its squared norm
    T fraction = 0;       // of the largest violation, for an atom to join
    Index max_joins = 0;  // atoms that join in one pass, unless they are tied or the support is already large
    int max_steps = 0;
    bool careful = false;           // more work per solve, so that nearly dependent atoms cost fewer digits
    void (*poll)(void*) = nullptr;  // called with `context` now and then while the support is large; may throw
    // Sets out = Dᵀ(x − D weights) − λ2 weights, with weights on Λ, more accurately than M and c allow. Without `of_signal`, x is
    // replaced by zero. Leaves the support unchanged.
    void (*measure)(void*, const Workspace<T>&, const T* weights, bool of_signal, T* out) = nullptr;
    // Sets the products of an atom with itself and with Λ in the rows of M, before it may join. Null if M is complete.
    void (*prepare)(void*, const Workspace<T>&, std::int32_t atom) = nullptr;
    const std::uint8_t* free = nullptr;  // 1 for atoms of any sign, whatever λ1; null if there are none
    void* context = nullptr;
};

enum class Outcome : int {
    solved,  // a full pass found Lemma 1 satisfied
    stuck,   // beyond this arithmetic: singular Λ, ties, rounding
    slow,    // the homotopy takes less work
    full,    // the workspace is too small; grow it and call again
};

template <class T>
struct Solution {
    Outcome outcome = Outcome::stuck;
    int steps = 0;
    T kkt = 0;  // largest violation of Lemma 1, relative to max(λ1, ‖c‖∞); `unmeasured_kkt` if it was not measured
};

// Where to stop on the path of a signal.
struct PathStop {
    Goal goal;           // not a penalty
    double squares = 0;  // ‖x‖²
    double lambda2 = 0;
};

// Where a path has ended; the support and its coefficients are in the workspace.
template <class T>
struct PathEnd {
    Outcome outcome = Outcome::stuck;
    int steps = 0;
    T lambda1 = 0;
    std::int32_t next = -1;  // with Rule::n_nonzero, the atom that would join here, or −1 at λ1 = 0
    T kkt = -1;              // largest violation of Lemma 1, as in Solution, or −1 if it was not measured
};

// Solvers poll for interrupts while the support has at least this size.
inline constexpr Index polled_size = 64;

// The violation of a solution that was not measured: larger than any promise.
inline constexpr double unmeasured_kkt = 1e30;

}  // namespace taskdict
