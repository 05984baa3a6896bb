// The second line for codes of either precision: a DoubleSolver, and signals in double.
#pragma once

#include <memory>
#include <mutex>

#include "dictionary/double_solver.hpp"
#include "dictionary/scaled_dictionary.hpp"

namespace taskdict {

template <class T>
class SecondLine;

// For codes in double precision, whose first line needs the solver's Gram matrix too.
template <>
class SecondLine<double> {
  public:
    static constexpr bool wider = false;  // than the precision of the codes
    static constexpr double promise = promised_kkt<double>;

    struct Scratch {
        std::unique_ptr<DoubleSolver::Scratch> solver;  // made when first needed
    };

    SecondLine(const ScaledDictionary<double>& dictionary, int n_threads, Interrupt& interrupt);

    const DoubleSolver* solver(Interrupt&) const { return &solver_; }
    const GramMatrix<double>& gram() const { return solver_.gram(); }
    const double* widen(const double* x, Scratch&) const { return x; }

  private:
    DoubleSolver solver_;
};

// For codes in single precision: few signals need it, so it is made when the first does.
template <>
class SecondLine<float> {
  public:
    static constexpr bool wider = true;
    static constexpr double promise = 1e-9;  // before the code is rounded

    struct Scratch {
        std::unique_ptr<DoubleSolver::Scratch> solver;
        Array<double> x;
    };

    SecondLine(const ScaledDictionary<float>& dictionary, int, Interrupt&) : dictionary_(dictionary) {}

    // Null for a dictionary of so many atoms that a Gram matrix in double is too large: the third line needs none.
    const DoubleSolver* solver(Interrupt& interrupt) const;
    const double* widen(const float* x, Scratch& scratch) const;

  private:
    const ScaledDictionary<float>& dictionary_;
    mutable std::mutex mutex_;  // of the two below
    mutable Array<double> atoms_;
    mutable std::unique_ptr<const DoubleSolver> solver_;
};

}  // namespace taskdict
