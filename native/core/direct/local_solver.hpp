// One signal on some of the atoms, its candidates.
// With weights w, the solvers see α'_j = w_j α_j on d_j / w_j: then all atoms have the penalty λ1, and λ2 / w_j² for λ2. The ρ_j of an atom
// without a penalty is moved by λ1 sign(ρ_j), so that it looks like the others. No Gram matrix is needed: ρ = Dᵀ(x − Dα) − λ2 α is measured on the
// candidates, and of M only the products of atoms that may be active together are computed.
//
//     active set in single precision ──► measured (float) or refined (double) in double precision
//                  │ fails
//                  └──► the three lines of an Encoder of the candidates
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "direct/direct_dictionary.hpp"
#include "rule.hpp"
#include "solve/owned_workspace.hpp"
#include "system/interrupt.hpp"

namespace taskdict {

inline constexpr double no_weight = 1e-300;  // smaller ones have inverses that may overflow, and penalties of no consequence

// A signal of the scaled problem.
template <class T>
struct DirectSignal {
    const T* x = nullptr;
    const float* fast = nullptr;                                   // in single precision
    double norm = 0;                                               // ‖x‖, or a little more
    double lambda1 = 0;                                            // of the atoms with the largest weight
    double scale = 0;                                              // max(λ1, ‖c‖∞), or a little more
    Index n_observed = 0;                                          // features
    const float* observed = nullptr;                               // 1 or 0 for each feature; x is 0 where nothing was observed. Null if all were
    const double* weights = nullptr;                               // of the atoms; infinite if one is excluded. Null if all are one
    double weight_unit = 1;                                        // w_j = weight_unit · weights[j] is at most one, unless the atom is of no use
    double most_weight = std::numeric_limits<double>::infinity();  // as good as any larger one
    Goal goal;                                                     // of the scaled problem; λ1 above follows from it, unless it is a penalty

    double weight(std::int32_t atom) const { return weights ? std::min(most_weight, weight_unit * weights[atom]) : 1; }
    double penalty(std::int32_t atom) const { return lambda1 * weight(atom); }
    bool is_unpenalised(std::int32_t atom) const { return weights && weight(atom) < no_weight; }
    // 1/w_j, by which the penalties of all atoms become the same. Atoms without a penalty keep their scale.
    double factor(std::int32_t atom) const { return !weights || is_unpenalised(atom) ? 1 : 1 / weight(atom); }
};

// The code of a signal on its candidates.
template <class T>
struct LocalCode {
    std::vector<std::int32_t> atoms;  // Λ, in no order
    std::vector<T> alpha;
    std::vector<float> sign;            // of the support of the solver in single precision
    std::vector<float> inverse, block;  // its (M_ΛΛ)⁻¹ and M_ΛΛ, in rows of k; empty if another solver has found the code
    double off = 0;                     // largest residual of Lemma 1 on Λ
    int steps = 0;
    Status status = Status::converged;
    double kkt = 0;         // as reported by the lines of an encoder
    bool by_lines = false;  // found by the lines of an encoder
};

template <class T>
class LocalSolver {
  public:
    LocalSolver(Index features, bool positive);

    // The dictionary of the signals to come, with so many features.
    void use(const DirectDictionary<T>& dictionary) { dictionary_ = &dictionary; }

    // Solves on the candidates, which begin with the atoms of `code`, starting from that code. Sets `residual` = x − Dα. False if single
    // precision cannot: then nothing has changed but the steps.
    bool solve(const DirectSignal<T>& signal, std::span<const std::int32_t> candidates, LocalCode<T>& code, double* residual, Interrupt& interrupt);

    // The same by the three lines of an encoder of the candidates. With another rule than a penalty, sets λ1.
    void solve_slowly(DirectSignal<T>& signal, std::span<const std::int32_t> candidates, LocalCode<T>& code, double* residual,
                      Interrupt& interrupt) const;

    // Sets `residual` = x − Dα, and the largest residual of Lemma 1 on Λ.
    void measure(const DirectSignal<T>& signal, LocalCode<T>& code, double* residual) const;

  private:
    struct Call;

    void reserve(Index count);
    void restore(const LocalCode<T>& code, Index stride);
    void correlate(const Call& call, const Workspace<float>& support, const float* weights, float* out);
    void prepare(const Call& call, const Workspace<float>& support, std::int32_t atom);
    void solve_by_encoder(DirectSignal<T>& signal, std::span<const std::int32_t> candidates, Array<T>& atoms, LocalCode<T>& code,
                          Interrupt& interrupt) const;
    void solve_weighted(const DirectSignal<T>& signal, std::span<const std::int32_t> candidates, const Array<T>& atoms, const LocalCode<T>& from,
                        LocalCode<T>& code, Interrupt& interrupt) const;
    bool refine(const DirectSignal<T>& signal, LocalCode<T>& code, double* residual) const;
    double residual_on(const DirectSignal<T>& signal, const LocalCode<T>& code, std::span<const double> alpha, double* residual,
                       std::vector<double>& off) const;

    const DirectDictionary<T>* dictionary_ = nullptr;
    const bool positive_;
    Index capacity_ = 0;
    std::unique_ptr<OwnedWorkspace<float>> workspace_;
    Array<float> gram_;
    Array<float> residual_, atom_;
    std::vector<float> factors_;      // of the candidates
    std::vector<std::uint8_t> free_;  // which of them have no penalty and any sign
    std::vector<std::int32_t> list_;
    std::vector<float> numbers_;
};

}  // namespace taskdict
