// The second line: one signal in double precision, for what single precision cannot solve or certify.
//
//     descent ──► path (homotopy) ──► path and descent on accurate residuals
//
// The first two know the signal and the dictionary by c = Dᵀx and M = DᵀD + λ2 I, whose rounding limits what they can certify. What
// follows measures ρ = Dᵀ(x − Dα) − λ2 α itself to twice the precision of double: a descent from where they ended, after the path was
// followed once more in this way if they were stuck.
#pragma once

#include <vector>

#include "exact.hpp"
#include "interrupt.hpp"
#include "kernels.hpp"
#include "room.hpp"

namespace taskdict {

enum class Method : int { active_set, homotopy };

// The problem of one signal.
struct Target {
    const double* x = nullptr;
    double norm = 0;  // ‖x‖, or a little more
    double lambda1 = 0;
    bool positive = false;
};

// The largest norms in a dictionary, for bounds on rounding.
struct Bounds {
    double atom = 0;     // ‖d_j‖
    double gram = 0;     // ‖d_j‖² + λ2
    Index summands = 0;  // the longest chain of additions in a product of the kernels

    // How far ρ = c − Mα, as the kernels compute it with unit roundoff u, can be from the truth.
    double rounding(double u, double norm, double l1, Index k) const {
        const double products = double(summands + 4) * atom * (norm + l1 * atom), sum = double(k / 2 + 6) * l1 * gram;
        return 1.01 * u * (products + sum);
    }
};

class Precise {
  public:
    struct Scratch {
        explicit Scratch(const Precise& precise);
        Room<double> room;
        Array<double> c, rho, bounds, high, low, zeros;
        std::vector<std::int32_t> all;  // 0, 1, …, p − 1
    };

    // `atoms` is p × m and must outlive this object.
    Precise(const double* atoms, Index p, Index m, double lambda2, const Bounds& bounds, int n_threads, Interrupt& interrupt);

    const Gram<double>& gram() const { return gram_; }
    const double* atoms() const { return atoms_; }

    struct Result {
        bool solved = false;      // then the code is in the scratch's room, with this certificate
        bool accurate = false;    // by the third step
        bool orthogonal = false;  // its products with all atoms, and λ1, are zero as far as can be told; so is the code then
        Certificate certificate;
        int steps = 0;
    };
    // Solves by `first`, then by the other method, then on accurate residuals (see above), until the certificate is at most `promise`.
    Result solve(const Target& target, Method first, double promise, Scratch& scratch, Interrupt& interrupt) const;

    // What a given code has, certificate aside.
    template <class T>
    Certificate certify(const Target& target, const ExactCode<T>& code, Scratch& scratch) const {
        const std::vector<double> alpha(code.alpha.begin(), code.alpha.end());
        return certify(target, code.atoms.data(), alpha.data(), Index(alpha.size()), scratch);
    }

  private:
    Certificate certify(const Target& target, const std::int32_t* list, const double* alpha, Index k, Scratch& scratch) const;
    bool may_underflow(const double* x) const;
    double measure(const double* x, const std::int32_t* list, const double* alpha, Index k, Scratch& scratch) const;

    const InstructionSet& isa_;
    const double* atoms_;
    Index m_;
    double lambda2_;
    Bounds bounds_;
    Array<double> memory_;
    Gram<double> gram_;
};

// Calls a solver of the kernels, with more room if it needs that.
template <class S>
Solution<S> run(Method method, Room<S>& room, const Gram<S>& gram, const S* c, const Extremes<S>& extremes, S scale, S lambda1, bool positive,
                const Settings<S>& settings) {
    const Kernels<S>& kernels = instruction_set().kernels<S>();
    const Solver<S> solver = method == Method::homotopy ? kernels.homotopy : kernels.active_set;
    for (;;) {
        const Solution<S> solution = solver(room.view, gram, c, positive ? extremes.top : extremes.magnitude, scale, lambda1, positive, settings);
        if (solution.outcome != Outcome::full) return solution;
        if (method == Method::homotopy) room.clear();  // from the beginning
        room.grow(std::min(2 * room.view.capacity, round_up(gram.atoms, capacity_step)));
    }
}

// Settings for a precision; with `predictor`, those of a solution that is refined after it.
template <class S>
Settings<S> settings_for(Method method, Index p, bool predictor) {
    Settings<S> settings;
    settings.violation = sizeof(S) == 8 ? S(1e-12) : predictor ? S(2e-6) : S(1e-5);
    settings.dependence = sizeof(S) == 8 ? S(1e-10) : S(1e-4);
    settings.fraction = S(0.5);
    settings.most = 8;
    settings.max_steps = method == Method::homotopy ? int(100 + 20 * std::min<Index>(p, 100000)) : 200;
    return settings;
}

// Rows of M must not all start at the same place of a cache.
inline Index padded_stride(Index p, Index panel, std::size_t bytes) {
    const Index stride = round_up(p, panel);
    return stride * Index(bytes) % 2048 == 0 ? stride + panel : stride;
}

template <class S>
Array<S> pack(const Kernels<S>& kernels, const S* atoms, Index p, Index m) {
    Array<S> packed(round_up(p, kernels.panel_width) * m);
    kernels.pack_panels(atoms, p, m, packed.data());
    return packed;
}

// M = DᵀD + λ2 I for the rows of `atoms`.
template <class S>
void fill_gram(const Kernels<S>& kernels, const S* atoms, const S* packed, Index p, Index m, S lambda2, S* rows, Index stride, int n_threads,
               Interrupt& interrupt);

}  // namespace taskdict
