// Encoding without a Gram matrix, for dictionaries of so many atoms that its p² entries cost more than some products with all atoms.
//
//     correlate all atoms ──► candidates ──► solve on them ──► residuals ──► correlate all atoms ──► certified, or
//     (a product of the block)   the largest    local_solver.hpp               (a product of the block)     more candidates
//
// An atom is not measured again if it cannot violate Lemma 1: after a move of the residual by Δ, ρ_j has moved by at most ‖d_j‖ Δ. So
// most signals need two products.
#pragma once

#include "batch/encode.hpp"
#include "dictionary/prepared.hpp"
#include "direct/direct_dictionary.hpp"

namespace taskdict {

template <class T>
class DirectEncoder : public Prepared<T> {
  public:
    // `atoms` is p × m, contiguous and finite, and must outlive this object.
    DirectEncoder(const T* atoms, Index p, Index m, const Parameters& parameters, bool packs = true);

    Index atoms() const override { return dictionary_.atoms(); }
    Index features() const override { return dictionary_.features(); }
    double scale() const override { return dictionary_.scale(); }
    const Parameters& parameters() const { return parameters_; }
    const DirectDictionary<T>& dictionary() const { return dictionary_; }

    void gram_triangle(std::span<const std::int32_t> active, T* out) const override;
    double energy(std::span<const std::int32_t> active, std::span<const T> alpha) const override;
    std::vector<T> solve(std::span<const std::int32_t> active, std::span<const T> g, Interrupt& interrupt) const override;
    std::vector<std::int32_t> duplicates(double cosine) const override;

    Problem<T> problem(const T* x, double lambda1) const {
        return {dictionary_.data(), atoms(), features(), x, lambda1, dictionary_.lambda2(), parameters_.positive, nullptr};
    }

  private:
    Parameters parameters_;
    DirectDictionary<T> dictionary_;
};

// What differs between the signals of a batch, or between its atoms.
struct Variation {
    const std::uint8_t* observed = nullptr;  // n × m: 1 where a feature was observed. Null if all were
    const double* weights = nullptr;         // of the ℓ1 norm: n × p, or p with row_step 0; at least 0, or infinite. Null if all are one
    Index weights_row_step = 0;
};

// Appends the codes of all signals, as encode() of batch/encode.hpp.
template <class T, template <class> class Signals>
void encode(const DirectEncoder<T>& encoder, const Signals<T>& signals, const Goals& goals, Codes<T>& codes, int n_threads, Interrupt& interrupt,
            const Variation& variation = {});

// Appends the codes of dense signals, of which each has one of several dictionaries: `atoms` is (k, p, m), and signal r is encoded on
// dictionary which[r], with 0 ≤ which[r] < k.
template <class T>
void encode_each(const T* atoms, Index k, Index p, Index m, const Parameters& parameters, std::span<const std::int32_t> which,
                 const DenseSignals<T>& signals, const Goals& goals, Codes<T>& codes, int n_threads, Interrupt& interrupt);

}  // namespace taskdict
