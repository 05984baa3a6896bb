// A dictionary prepared for encoding, and the way of one signal through the solvers:
//
//     float:   active set ──► checked in double ───────────────────┐
//     double:  active set in float ──► refined to double ──────────┴─► certified, or the second line (precise.hpp), or the third (exact.hpp)
//
// Dictionary and signals are scaled by powers of two, which is exact, so that nothing over- or underflows:
// with D = σ D', x = τ x' the code is (τ/σ) α', where α' solves the problem for λ1/(στ) and λ2/σ².
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <type_traits>
#include <vector>

#include "exact.hpp"
#include "interrupt.hpp"
#include "kernels.hpp"
#include "memory.hpp"
#include "precise.hpp"
#include "room.hpp"
#include "threads.hpp"

namespace taskdict {

enum class Status : std::uint8_t {
    converged = 0,  // by the first line
    exact = 1,      // by the second or third
    inexact = 2,    // not known to satisfy Lemma 1 to the tolerance: limited by the rounding of the code itself, or of the signal's products
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

// Loads one vector into a contiguous row, scaled by a power of two if its entries are far from 1. The vector is then
// `scale` · out. If it spans so many magnitudes that scaling would lose small entries, it is `wide` and stays as it is.
struct Loaded {
    double scale = 1;
    double norm = 0;  // of `out`, or a little more
    bool finite = true;
    bool wide = false;
};

template <class T>
Loaded load_scaled(const T* x, Index step, Index m, T* out, float* narrow, bool scales = true) {
    const auto load = instruction_set().kernels<T>().load_signal;
    Loaded loaded;
    Magnitude magnitude = load(x, step, m, T(1), out, narrow);
    loaded.finite = !std::isnan(magnitude.top);
    if (scales && loaded.finite && magnitude.top > 0 && !(magnitude.top > 0x1p-16 && magnitude.top < 0x1p16)) {
        int exponent;
        std::frexp(magnitude.top, &exponent);
        exponent = std::clamp(exponent, std::numeric_limits<T>::min_exponent + 2, std::numeric_limits<T>::max_exponent - 3);
        loaded.scale = std::ldexp(1.0, exponent);
        magnitude = load(x, step, m, T(1 / loaded.scale), out, narrow);
        for (Index i = 0; i < m; ++i) loaded.wide = loaded.wide || (x[i * step] != 0 && std::fabs(out[i]) < std::numeric_limits<T>::min());
        if (loaded.wide) {
            loaded.scale = 1;
            magnitude = load(x, step, m, T(1), out, narrow);
        }
    }
    loaded.norm = std::sqrt(magnitude.squares) * 1.0001;
    return loaded;
}

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
        Array<double> refined;  // memory of `refinement`
        Refinement refinement;
        std::unique_ptr<Precise::Scratch> precise;  // made when first needed
        Array<double> wide;                         // a signal, or its residual, in double (float only)
        ExactCode<T> exact;                         // the code of the second or third line
        enum class Source { fast, precise, exact } source = Source::fast;
        bool rounded_penalty = false;  // λ1/(στ) is too small to be exact
    };

    // `atoms` is p × m, contiguous and finite. With `sparse`, signals come as lists of nonzeros.
    Encoder(const T* atoms, Index p, Index m, const Parameters& parameters, bool sparse, int n_threads, Interrupt& interrupt);

    Index atoms() const { return p_; }
    Index features() const { return m_; }
    Index stride() const { return gram_fast_.stride; }
    double scale() const { return scale_; }
    bool scales_signals() const { return !only_exact_; }
    const Parameters& parameters() const { return parameters_; }

    // Rows of single-precision correlations for loaded signals (scaled, contiguous rows of m).
    void correlate(const float* x, Index rows, float* c) const;
    void correlate_sparse(const std::int32_t* indices, const float* values, Index count, float* c) const;

    // Encodes one loaded signal with its correlations c.
    Code<T> encode(const T* x, const Loaded& loaded, const float* c, Scratch& scratch, Interrupt& interrupt) const;

    // The largest violation of Lemma 1 that a code of the scaled problem may have for this signal.
    Certificate certificate(const T* x, const Loaded& loaded, const std::vector<std::int32_t>& atoms, const std::vector<T>& alpha) const {
        return certify(problem(x, parameters_.lambda1 / scale_ / loaded.scale), atoms.data(), alpha.data(), Index(atoms.size()));
    }

    // What the kernels left of (M_ΛΛ)⁻¹ for the signal last encoded, with its atoms in the given order, rows of k. Zeros if
    // there is nothing: the slow path solved it, or not all of its atoms are wanted.
    std::vector<T> inverse(const Code<T>& code, const std::vector<Index>& order, const Scratch& scratch) const;

    // β_Λ of the scaled problem from scratch in wider arithmetic, for active sets whose inverse is too inaccurate.
    std::vector<T> solve(const std::int32_t* active, Index k, const T* g, Interrupt& interrupt) const {
        return solve_least_norm(problem(nullptr, 0), active, k, g, interrupt);
    }

    // A row of M, of the scaled problem.
    const T* gram_row(Index i) const {
        if constexpr (is_double)
            return precise_->gram().rows + i * precise_->gram().stride;
        else
            return gram_fast_.rows + i * gram_fast_.stride;
    }

    // Atoms whose angle with an earlier one has at least this cosine, in magnitude unless codes are non-negative.
    std::vector<std::int32_t> duplicates(double cosine) const;

  private:
    Code<T> encode_precise(const T* x, double lambda1, double norm, Method first, int steps, Scratch& scratch, Interrupt& interrupt) const;
    Code<T> encode_exact(const T* x, double lambda1, const ExactCode<T>& start, int steps, Scratch& scratch, Interrupt& interrupt) const;
    const Precise* precise(Interrupt& interrupt) const;
    Target target(const T* x, double lambda1, double norm, Scratch& scratch) const;
    Problem<T> problem(const T* x, double lambda1) const { return {atoms_.data(), p_, m_, x, lambda1, lambda2_, parameters_.positive}; }

    const InstructionSet& isa_;
    Index p_, m_;
    Parameters parameters_;
    bool only_exact_ = false;  // the kernels cannot represent this dictionary or λ2
    double scale_ = 1;         // σ
    double lambda2_ = 0;       // λ2/σ²
    Bounds bounds_;
    Array<T> atoms_;           // scaled
    Array<float> atoms_fast_;  // the same in float (double only)
    Array<float> packed_;      // the same in panels, for dense signals
    Array<float> transposed_;  // the same by features, for sparse signals
    Array<float> gram_fast_memory_;
    Gram<float> gram_fast_;
    mutable std::mutex mutex_;             // of the two below for float, which are made when first needed
    mutable Array<double> atoms_precise_;  // atoms_ in double (float only)
    mutable std::unique_ptr<const Precise> precise_;
};

}  // namespace taskdict
