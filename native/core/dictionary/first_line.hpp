// The first line: one signal solved in single precision, then checked or refined in double.
//
//     float:   active set ──► checked in double
//     double:  active set in float ──► refined to double
//
// For a rule, the path (n_nonzero) or a descent with λ1 as an unknown comes first. Then λ1 is corrected in closed form on the support that it has
// found.
#pragma once

#include <vector>

#include "dictionary/code.hpp"
#include "dictionary/fast_dictionary.hpp"
#include "dictionary/fulfilment.hpp"
#include "dictionary/second_line.hpp"

namespace taskdict {

// A signal of the scaled problem.
template <class T>
struct FastSignal {
    const T* x = nullptr;
    const float* c = nullptr;  // its correlations in single precision
    double norm = 0;           // ‖x‖, or a little more
    double lambda1 = 0;
};

template <class T>
struct FirstAttempt {
    bool certified = false;
    Code<T> code;                      // if not certified, only its number of steps
    Method next = Method::active_set;  // for the second line to begin with
    bool near_end = false;             // of a rule: it may be met at λ1 = 0 only
};

template <class T>
class FirstLine;

// Codes in single precision.
template <>
class FirstLine<float> {
  public:
    struct Scratch {
        explicit Scratch(const FirstLine& line) : workspace(line.fast_.gram().view()) {}
        OwnedWorkspace<float> workspace;
        Array<double> residual;
        std::vector<double> step;
    };

    FirstLine(const ScaledDictionary<float>& dictionary, const SecondLine<float>&, const Parameters& parameters, bool sparse, int n_threads,
              Interrupt& interrupt);

    const FastDictionary& fast() const { return fast_; }
    FirstAttempt<float> solve(const FastSignal<float>& signal, Scratch& scratch, Interrupt& interrupt) const;
    // For a rule; the λ1 of the signal is not used.
    FirstAttempt<float> follow(const FastSignal<float>& signal, const PathStop& stop, Scratch& scratch, Interrupt& interrupt) const;

  private:
    const ScaledDictionary<float>& dictionary_;
    Parameters parameters_;
    FastDictionary fast_;
};

// Codes in double precision, with the support and the inverse of single precision. The Gram matrix in double is that of the second
// line.
template <>
class FirstLine<double> {
  public:
    struct Scratch {
        explicit Scratch(const FirstLine& line) : workspace(line.fast_.gram().view()) {}
        OwnedWorkspace<float> workspace;
        Array<double> memory;  // of the buffers
        RefinementBuffers buffers;
        std::vector<double> step, residual;
    };

    FirstLine(const ScaledDictionary<double>& dictionary, const SecondLine<double>& second, const Parameters& parameters, bool sparse, int n_threads,
              Interrupt& interrupt);

    const FastDictionary& fast() const { return fast_; }
    FirstAttempt<double> solve(const FastSignal<double>& signal, Scratch& scratch, Interrupt& interrupt) const;
    // For a rule; the λ1 of the signal is not used.
    FirstAttempt<double> follow(const FastSignal<double>& signal, const PathStop& stop, Scratch& scratch, Interrupt& interrupt) const;

  private:
    const ScaledDictionary<double>& dictionary_;
    const GramMatrix<double>& gram_;
    Parameters parameters_;
    FastDictionary fast_;
};

}  // namespace taskdict
