// A dictionary prepared for encoding, and the way of one signal through the kernels:
//
//     float:   active set ─────────────────────────────────────────► certified, or slow path (exact.hpp)
//     double:  active set in float ──► refine in double ──► active set in double ──► certified, or slow path
//
// Dictionary and signals are scaled by powers of two, which is exact, so that nothing over- or underflows:
// with D = σ D', x = τ x' the code is (τ/σ) α', where α' solves the problem for λ1/(στ) and λ2/σ².
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "exact.hpp"
#include "interrupt.hpp"
#include "kernels.hpp"
#include "memory.hpp"

namespace taskdict {

enum class Method : int { active_set, homotopy };

enum class Status : std::uint8_t {
    converged = 0,  // by the fast path
    exact = 1,      // by the slower exact path
    inexact = 2,    // the code violates Lemma 1 by more than the tolerance: limited by the rounding of the code itself
};

struct Parameters {
    double lambda1 = 0;
    double lambda2 = 0;
    bool positive = false;
    Method method = Method::active_set;
};

// What the report promises: violations of Lemma 1 relative to max(λ1, ‖Dᵀx‖∞).
template <class T>
inline constexpr double promised_kkt = sizeof(T) == 4 ? 1e-4 : 1e-10;

// The memory of a Workspace.
template <class T>
class Room {
  public:
    Room(Index p, Index stride, Index capacity) : found_(p + 64), position_(p), rho_(stride), slope_(stride) {
        std::fill_n(position_.data(), p, -1);
        view.found = found_.data();
        view.position = position_.data();
        view.rho = rho_.data();
        view.slope = slope_.data();
        grow(capacity);
    }

    void grow(Index capacity) {
        capacity = round_up(capacity, capacity_step);
        inverse_ = Array<T>(capacity * capacity);
        vectors_ = Array<T>(6 * capacity);
        atoms_ = Array<std::int32_t>(capacity);
        view.capacity = capacity;
        view.inverse = inverse_.data();
        T** const parts[] = {&view.alpha, &view.sign, &view.residual, &view.step, &view.column, &view.product};
        for (Index i = 0; i < 6; ++i) *parts[i] = vectors_.data() + i * capacity;
        view.atoms = atoms_.data();
    }

    void clear() {
        for (Index i = 0; i < view.size; ++i) view.position[view.atoms[i]] = -1;
        view.size = 0;
    }

    Workspace<T> view;

  private:
    Array<std::int32_t> found_, position_, atoms_;
    Array<T> rho_, slope_, inverse_, vectors_;
};

// One signal's result; pointers stay valid until the next call with the same scratch.
template <class T>
struct Code {
    Index size = 0;
    const std::int32_t* atoms = nullptr;  // in no order
    const T* alpha = nullptr;             // of the scaled problem
    Status status = Status::converged;
    double kkt = 0;
    int steps = 0;
};

template <class T>
class Encoder {
    static constexpr bool is_double = std::is_same_v<T, double>;

  public:
    class Scratch {
      public:
        explicit Scratch(const Encoder& encoder);

      private:
        friend class Encoder;
        Room<float> fast;
        std::vector<Room<double>> precise;  // at most one, made when first needed
        Array<double> refined;              // memory of `refinement`
        Refinement refinement;
        Array<double> correlations;
        ExactCode<T> exact;
        enum class Source { fast, precise, exact } source = Source::fast;
    };

    // `atoms` is p × m, contiguous and finite. With `sparse`, signals come as lists of nonzeros.
    Encoder(const T* atoms, Index p, Index m, const Parameters& parameters, bool sparse, int n_threads);

    Index atoms() const { return p_; }
    Index features() const { return m_; }
    Index stride() const { return gram_fast_.stride; }
    double scale() const { return scale_; }
    const Parameters& parameters() const { return parameters_; }

    // Rows of single-precision correlations for loaded signals (scaled, contiguous rows of m).
    void correlate(const float* x, Index rows, float* c) const;
    void correlate_sparse(const std::int32_t* indices, const float* values, Index count, float* c) const;

    // Encodes one loaded signal: x = x_scale · (scaled signal), `norm` is the norm of the scaled signal.
    Code<T> encode(const T* x, double x_scale, double norm, const float* c, Scratch& scratch, Interrupt& interrupt) const;

    // (M_ΛΛ)⁻¹ for the signal last encoded, with its atoms (or some of them) in the given order, rows of their number: what the kernel left behind,
    // or, if that is too inaccurate or Λ is singular, the (pseudo-)inverse computed anew.
    std::vector<T> inverse(const Code<T>& code, const std::vector<Index>& order, const Scratch& scratch) const;

    // M_ΛΛ in double or float, of the scaled problem.
    T gram(Index i, Index j) const {
        if constexpr (is_double)
            return gram_precise_.rows[i * gram_precise_.stride + j];
        else
            return gram_fast_.rows[i * gram_fast_.stride + j];
    }

  private:
    template <class S>
    Solution<S> run(Room<S>& room, const Gram<S>& gram, const S* c, S lambda1, S scale, const Extremes<S>& c_extremes) const;
    Code<T> finish(const T* x, double lambda1, double norm, Code<T> code, double magnitude, Scratch& scratch, Interrupt& interrupt) const;
    Code<T> encode_precise(const double* x, double lambda1, double norm, int steps, Scratch& scratch, Interrupt& interrupt) const;
    Problem<T> problem(const T* x, double lambda1) const { return {atoms_.data(), p_, m_, x, lambda1, lambda2_, parameters_.positive}; }

    const InstructionSet& isa_;
    Index p_, m_;
    Parameters parameters_;
    double scale_ = 1;         // σ
    double lambda2_ = 0;       // λ2/σ²
    double atom_top_ = 0;      // largest norm of a scaled atom
    double gram_top_ = 0;      // largest entry of the scaled M
    Array<T> atoms_;           // scaled
    Array<float> atoms_fast_;  // the same in float (double only)
    Array<float> packed_;      // the same in panels, for dense signals
    Array<float> transposed_;  // the same by features, for sparse signals
    Array<float> gram_fast_memory_;
    Array<double> gram_precise_memory_;
    Gram<float> gram_fast_;
    Gram<double> gram_precise_;
};

// Threads worth starting for so many microseconds of work: starting one costs some tens.
inline int worthwhile_threads(int n_threads, double microseconds) {
    return int(std::clamp(microseconds / 100, 1.0, double(n_threads)));
}

// Runs body(i) for 0 ≤ i < count on up to n_threads threads, the caller's among them.
void in_threads(Index count, int n_threads, const std::function<void(Index)>& body);

// Loads one vector into contiguous rows, scaled by a power of two if its entries are far from 1. Returns the scale: the
// vector is scale · out. `magnitude` is that of `out`.
template <class T>
double load_scaled(const T* x, Index step, Index m, T* out, float* narrow, Magnitude& magnitude) {
    const auto load = instruction_set().kernels<T>().load_signal;
    magnitude = load(x, step, m, T(1), out, narrow);
    if (magnitude.top == 0 || !(magnitude.top <= std::numeric_limits<T>::max()) || (magnitude.top > 0x1p-16 && magnitude.top < 0x1p16)) return 1;
    int exponent;
    std::frexp(magnitude.top, &exponent);
    const double scale = std::ldexp(1.0, std::clamp(exponent, std::numeric_limits<T>::min_exponent + 2, std::numeric_limits<T>::max_exponent - 3));
    magnitude = load(x, step, m, T(1 / scale), out, narrow);
    return scale;
}

}  // namespace taskdict
