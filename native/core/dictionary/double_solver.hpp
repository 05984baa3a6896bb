// The second line: one signal in double precision, for signals that single precision cannot solve or certify.
//
//     descent ──► path (homotopy) ──► path and descent on accurate residuals
//
// The first two see the signal and the dictionary through c = Dᵀx and M = DᵀD + λ2 I, whose rounding limits their certificates. The
// third measures ρ = Dᵀ(x − Dα) − λ2 α itself, to twice the precision of double. It is a descent from the result of the other two.
// If they were stuck, it follows the path first, on accurate residuals too.
#pragma once

#include <vector>

#include "dictionary/gram.hpp"
#include "dictionary/rounding.hpp"
#include "solve/problem.hpp"
#include "solve/run.hpp"
#include "system/interrupt.hpp"

namespace taskdict {

// One signal, without the dictionary.
struct Target {
    const double* x = nullptr;
    double norm = 0;  // ‖x‖, or a little more
    double lambda1 = 0;
    bool positive = false;
};

class DoubleSolver {
  public:
    struct Scratch {
        explicit Scratch(const DoubleSolver& solver);
        OwnedWorkspace<double> workspace;
        Array<double> c, rho, bounds, high, low, zeros;
        std::vector<std::int32_t> all;  // 0, 1, …, p − 1
    };

    // `atoms` is p × m and must outlive this object.
    DoubleSolver(const double* atoms, Index p, Index m, double lambda2, const RoundingBounds& bounds, int n_threads, Interrupt& interrupt);

    const GramMatrix<double>& gram() const { return gram_; }

    struct Result {
        bool solved = false;      // then the code is in the scratch's workspace, with this certificate
        bool accurate = false;    // by the descent on accurate residuals
        bool orthogonal = false;  // λ1 and the products with all atoms are zero up to the error of their measurement; so is the code
        Certificate certificate;
        int steps = 0;
    };
    // Solves by `first`, then by the other method, then on accurate residuals (see above), until the certificate is at most `promise`.
    Result solve(const Target& target, Method first, double promise, Scratch& scratch, Interrupt& interrupt) const;

    // Finds the point of a rule, by the descent with λ1 as an unknown or by the path.
    PathEnd<double> follow(const Target& target, const PathStop& stop, Scratch& scratch, Interrupt& interrupt) const;

    // Measures the certificate of a given code.
    template <class T>
    Certificate certify(const Target& target, const CertifiedCode<T>& code, Scratch& scratch) const {
        const std::vector<double> alpha(code.alpha.begin(), code.alpha.end());
        return certify(target, code.atoms, alpha, scratch);
    }

  private:
    Certificate certify(const Target& target, std::span<const std::int32_t> atoms, std::span<const double> alpha, Scratch& scratch) const;
    bool may_underflow(const double* x) const;
    double measure(const double* x, std::span<const std::int32_t> atoms, const double* alpha, Scratch& scratch) const;

    const InstructionSet& isa_;
    const double* atoms_;
    Index p_, m_;
    double lambda2_;
    RoundingBounds bounds_;
    GramMatrix<double> gram_;
};

}  // namespace taskdict
