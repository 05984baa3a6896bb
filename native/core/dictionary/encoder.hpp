// A dictionary prepared for encoding, and the three lines of solvers that a signal may pass through:
//
//     first line (first_line.hpp) ──► second line (double_solver.hpp) ──► third line (solve/exact.hpp)
//
// A signal passes to the next line if a line cannot certify its code.
#pragma once

#include <vector>

#include "dictionary/code.hpp"
#include "dictionary/first_line.hpp"
#include "dictionary/prepared.hpp"
#include "dictionary/scaled_dictionary.hpp"
#include "dictionary/scaling.hpp"
#include "dictionary/second_line.hpp"
#include "solve/certify.hpp"
#include "solve/least_norm.hpp"
#include "system/interrupt.hpp"

namespace taskdict {

template <class T>
class Encoder : public Prepared<T> {
  public:
    class Scratch {
      public:
        explicit Scratch(const Encoder& encoder) : first(encoder.first_) {}

      private:
        friend class Encoder;
        typename FirstLine<T>::Scratch first;
        typename SecondLine<T>::Scratch second;
        CertifiedCode<T> code;  // of the second or third line
        enum class Line { first, second, third } line = Line::first;
        bool rounded_penalty = false;  // λ1/(στ) is too small to be exact
    };

    // `atoms` is p × m, contiguous and finite. With `sparse`, signals come as lists of nonzeros.
    Encoder(const T* atoms, Index p, Index m, const Parameters& parameters, bool sparse, int n_threads, Interrupt& interrupt);

    Index atoms() const override { return dictionary_.atoms(); }
    Index features() const override { return dictionary_.features(); }
    double scale() const override { return dictionary_.scale(); }
    bool scales_signals() const { return !dictionary_.only_exact(); }
    const Parameters& parameters() const { return parameters_; }
    const FastDictionary& fast() const { return first_.fast(); }

    // Encodes one loaded signal with its single-precision correlations c, to where a rule is met.
    Code<T> encode(const T* x, const Loaded& loaded, const float* c, const Goal& goal, Scratch& scratch, Interrupt& interrupt) const;

    // The certificate of a code of the scaled problem.
    Certificate certificate(const T* x, double lambda1, std::span<const std::int32_t> atoms, std::span<const T> alpha) const {
        return certify(problem(x, lambda1), atoms, alpha);
    }

    // The (M_ΛΛ)⁻¹ of the scaled problem that the kernels left for the signal last encoded, with its atoms in the given order, in rows
    // of k. Zeros if there is none: the third line solved the signal, or `order` lacks some of its atoms.
    std::vector<T> inverse(const Code<T>& code, const std::vector<Index>& order, const Scratch& scratch) const;

    void gram_triangle(std::span<const std::int32_t> active, T* out) const override;
    double energy(std::span<const std::int32_t> active, std::span<const T> alpha) const override;
    std::vector<T> solve(std::span<const std::int32_t> active, std::span<const T> g, Interrupt& interrupt) const override {
        return solve_least_norm(problem(nullptr, 0), active, g, interrupt);
    }

    // A row of M, of the scaled problem.
    const T* gram_row(Index i) const;

    std::vector<std::int32_t> duplicates(double cosine) const override;

  private:
    // A code at a given λ1, or at the point of another rule (rules.cpp).
    Code<T> encode_at(const FastSignal<T>& signal, bool wide, Scratch& scratch, Interrupt& interrupt) const;
    Code<T> encode_rule(const FastSignal<T>& signal, const Loaded& loaded, const Goal& goal, Scratch& scratch, Interrupt& interrupt) const;
    double largest_lambda1(const FastSignal<T>& signal, bool wide) const;
    class RuleSearch;

    Code<T> encode_second(const FastSignal<T>& signal, Method first, int steps, Scratch& scratch, Interrupt& interrupt) const;
    Code<T> encode_third(const FastSignal<T>& signal, const CertifiedCode<T>& start, int steps, Scratch& scratch, Interrupt& interrupt) const;
    Problem<T> problem(const T* x, double lambda1) const {
        return {dictionary_.data(), atoms(), features(), x, lambda1, dictionary_.lambda2(), parameters_.positive, nullptr};
    }

    Parameters parameters_;
    ScaledDictionary<T> dictionary_;
    SecondLine<T> second_;
    FirstLine<T> first_;
};

template <>
inline const float* Encoder<float>::gram_row(Index i) const {
    return first_.fast().gram().row(i);
}

template <>
inline const double* Encoder<double>::gram_row(Index i) const {
    return second_.gram().row(i);
}

}  // namespace taskdict
