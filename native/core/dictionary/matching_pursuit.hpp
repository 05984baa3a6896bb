// A dictionary prepared for orthogonal matching pursuit, and the lines that a signal may pass through:
//
//     p × p Gram matrix:        solve/pursuit.hpp ──────────────► solve/exact_pursuit.hpp
//     dictionary too large:     products of residuals (here) ───► solve/exact_pursuit.hpp
//
// Atoms are scaled by powers of two to norms of about one, so that they may have any norms, and signals as by the encoder. The kernels
// see atoms of norm one, which are rounded; codes are then corrected and certified with the atoms themselves.
#pragma once

#include <optional>
#include <vector>

#include "dictionary/code.hpp"
#include "dictionary/gram.hpp"
#include "dictionary/scaling.hpp"
#include "solve/exact_pursuit.hpp"
#include "solve/orthogonal_basis.hpp"
#include "solve/pursuit_workspace.hpp"

namespace taskdict {

// ‖x − Dα‖² could not be brought down to the bound.
inline constexpr std::uint8_t unmet_status = 3;

// When the pursuit of one signal ends: with the first of the two that is reached.
struct PursuitRule {
    Index n_nonzero = 0;
    double max_error = -1;  // of ‖x − Dα‖²; negative for no such rule
};

template <class T>
class MatchingPursuit {
  public:
    // The code of one signal, in the order in which atoms were chosen.
    struct Result {
        std::vector<std::int32_t> atoms;
        std::vector<T> alpha;
        std::uint8_t status = 0;
        double kkt = 0;

        void clear() {
            atoms.clear();
            alpha.clear();
            status = 0;
            kkt = 0;
        }
    };

    class Scratch {
      public:
        explicit Scratch(const MatchingPursuit& pursuit);

      private:
        friend class MatchingPursuit;
        void grow(Index capacity);  // keeps the pursuit so far

        Index stride;
        PursuitWorkspace<T> workspace;
        Array<T> rows, numbers;
        Array<std::int32_t> atoms;
        Array<double> residual;
        std::vector<double> correlations;
        Array<T> residuals, products;  // of a block
        std::vector<OrthogonalBasis<double>> bases;
    };

    // A loaded signal of a block.
    struct Signal {
        const T* x = nullptr;
        const T* c = nullptr;  // its correlations, with a Gram matrix
        Loaded loaded;
        PursuitRule rule;
    };

    // `atoms` is p × m, contiguous and finite. With `sparse`, signals come as lists of nonzeros.
    MatchingPursuit(const T* atoms, Index p, Index m, bool sparse, int n_threads, Interrupt& interrupt);

    Index atoms() const { return p_; }
    Index features() const { return m_; }
    bool scales_signals() const { return !only_exact_; }
    bool has_gram() const { return gram_.has_value(); }
    Index stride() const { return gram_ ? gram_->view().stride : 0; }  // of rows of correlations

    // Rows of correlations for contiguous rows of m numbers; with a Gram matrix.
    void correlate(const T* x, Index rows, T* c) const;
    bool correlates_sparse() const { return transposed_.size() > 0; }
    void correlate_sparse(const std::int32_t* indices, const T* values, Index count, T* c) const;

    // The codes of a block of signals.
    void pursue(std::span<const Signal> block, std::span<Result> results, Scratch& scratch, Interrupt& interrupt) const;

  private:
    struct Measured;

    void pursue_one(const Signal& signal, Result& result, Scratch& scratch, Interrupt& interrupt) const;
    void pursue_together(std::span<const Signal> block, std::span<Result> results, Scratch& scratch, Interrupt& interrupt) const;
    void pursue_exactly(const Signal& signal, std::span<const std::int32_t> start, double scale, Result& result, Interrupt& interrupt) const;
    template <class Correct>
    bool finish(const Signal& signal, Index k, const std::int32_t* list, const T* alpha, double scale, bool doubtful, Correct correct, Result& result,
                Scratch& scratch) const;
    void unscale(const Signal& signal, Result& result, Interrupt& interrupt) const;
    Index most(const Signal& signal) const { return std::min({signal.rule.n_nonzero, p_, m_}); }
    double max_error(const Signal& signal) const {
        return signal.rule.max_error < 0 ? -1 : signal.rule.max_error / signal.loaded.scale / signal.loaded.scale;
    }
    double scale_of(double largest, const Loaded& loaded) const;
    Pursuit<T> exact_problem(const Signal& signal, double scale) const {
        return {atoms_.data(), p_, m_, signal.x, norms_.data(), shares_.data(), most(signal), max_error(signal), scale};
    }

    Index p_, m_;
    Array<T> atoms_;
    std::vector<int> exponents_;  // of the power of two by which an atom was divided
    std::vector<double> norms_, shares_;
    Array<T> weights_;      // 1 / ‖d_j‖, zero for zero atoms
    Array<T> unit_shares_;  // the shares times the norms: from products with atoms of norm one to the unit of the correlations
    double largest_norm_ = 0;
    Index summands_ = 0;  // of a product
    bool only_exact_ = false;
    Array<T> packed_, transposed_;
    std::optional<GramMatrix<T>> gram_;
};

}  // namespace taskdict
