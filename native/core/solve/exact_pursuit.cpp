#include "solve/exact_pursuit.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "solve/orthogonal_basis.hpp"

namespace taskdict {
namespace {

constexpr Index polled_atoms = 256;  // correlations between two polls

template <class T>
class ExactPursuit {
  public:
    using W = Wide<T>;

    ExactPursuit(const Pursuit<T>& pursuit, Interrupt& interrupt) : pursuit_(pursuit), interrupt_(interrupt), scale_(W(pursuit.scale)) {}

    PursuitCode<T> solve(std::span<const std::int32_t> start) {
        basis_.start(pursuit_.x, pursuit_.m);
        atoms_.clear();
        open_.assign(std::size_t(pursuit_.p), true);
        for (Index j = 0; j < pursuit_.p; ++j) open_[std::size_t(j)] = pursuit_.norms[j] > 0;
        norm_ = std::sqrt(dot<W>(pursuit_.x, pursuit_.x, pursuit_.m));
        for (const std::int32_t atom : start) {
            interrupt_.poll();
            if (!join(atom)) return solve({});
        }
        for (;;) {
            interrupt_.poll();
            if (pursuit_.max_error >= 0) {
                PursuitCode<T> code = rounded();
                if (code.met) return code;
            }
            if (basis_.size() >= pursuit_.max_nonzero || !join_strongest()) return rounded();
        }
    }

    // Sets the certificate of a code, and whether its error is small enough.
    void measure(PursuitCode<T>& code) {
        const W epsilon = std::numeric_limits<W>::epsilon();
        std::vector<W> error(pursuit_.x, pursuit_.x + pursuit_.m);
        W size = std::sqrt(dot<W>(pursuit_.x, pursuit_.x, pursuit_.m));
        for (std::size_t i = 0; i < code.atoms.size(); ++i) {
            const T* d = atom(code.atoms[i]);
            for (std::size_t f = 0; f < error.size(); ++f) error[f] -= W(code.alpha[i]) * W(d[f]);
            size += std::fabs(W(code.alpha[i])) * W(pursuit_.norms[code.atoms[i]]);
        }
        const W unit = W(pursuit_.m + Index(code.atoms.size()) + 16) * epsilon;
        W worst = 0, bound = 0;
        for (const std::int32_t j : code.atoms) {
            const W violation = std::fabs(dot<W>(atom(j), error)) * W(pursuit_.shares[j]);
            if (!(violation <= worst)) worst = violation;
            bound = std::max(bound, unit * size * W(pursuit_.norms[j] * pursuit_.shares[j]));
        }
        code.met = pursuit_.max_error < 0 || dot<W>(error.data(), error) <= W(pursuit_.max_error);
        if (scale_ < 0) {
            scale_ = 0;
            for (Index j = 0; j < pursuit_.p; ++j) {
                if (j % polled_atoms == 0) interrupt_.poll();
                scale_ = std::max(scale_, std::fabs(dot<W>(atom(std::int32_t(j)), pursuit_.x, pursuit_.m)) * W(pursuit_.shares[j]));
            }
        }
        const auto relative = [this](W value) { return value <= 0 ? 0.0 : double(value / scale_); };
        code.certificate = {relative(worst), relative(bound)};
    }

  private:
    const T* atom(std::int32_t j) const { return pursuit_.atoms + Index(j) * pursuit_.m; }

    // ‖x‖ + Σ|α_j|‖d_j‖
    W size_of(const std::vector<W>& alpha) const {
        W size = norm_;
        for (std::size_t i = 0; i < alpha.size(); ++i) size += std::fabs(alpha[i]) * W(pursuit_.norms[atoms_[i]]);
        return size;
    }

    // False for an atom that depends on the support.
    bool join(std::int32_t atom_index) {
        open_[std::size_t(atom_index)] = false;
        if (!(basis_.distance(atom(atom_index)) > W(dependent_distance<T>))) return false;
        basis_.append();
        atoms_.push_back(atom_index);
        return true;
    }

    // False if only rounding is left.
    bool join_strongest() {
        const std::vector<W>& residual = basis_.residual();
        const W level = W(rounding_level<T>) * size_of(basis_.solution());
        if (!(dot<W>(residual.data(), residual) > level * level)) return false;
        scores_.assign(std::size_t(pursuit_.p), W(0));
        for (Index j = 0; j < pursuit_.p; ++j) {
            if (j % polled_atoms == 0) interrupt_.poll();
            if (open_[std::size_t(j)]) scores_[std::size_t(j)] = std::fabs(dot<W>(atom(std::int32_t(j)), residual)) / W(pursuit_.norms[j]);
        }
        for (;;) {
            const auto best = std::max_element(scores_.begin(), scores_.end());  // the first of the largest
            if (!(*best > level)) return false;
            if (join(std::int32_t(best - scores_.begin()))) return true;
            *best = 0;
            interrupt_.poll();
        }
    }

    // The present code in the arithmetic of the caller, measured.
    PursuitCode<T> rounded() {
        std::vector<W> alpha = basis_.solution();
        const W rounding = 4 * std::numeric_limits<W>::epsilon() * size_of(alpha);
        for (std::size_t i = 0; i < alpha.size(); ++i)
            if (std::fabs(alpha[i]) * W(pursuit_.norms[atoms_[i]]) <= rounding) alpha[i] = 0;  // it would be zero
        PursuitCode<T> code = {atoms_, basis_.template rounded<T>(alpha), {}, true};
        measure(code);
        return code;
    }

    const Pursuit<T>& pursuit_;
    Interrupt& interrupt_;
    OrthogonalBasis<W> basis_;
    std::vector<std::int32_t> atoms_;
    std::vector<bool> open_;  // neither chosen nor dependent
    std::vector<W> scores_;
    W norm_ = 0, scale_;  // scale_: the largest |⟨x, d_j⟩|, negative before it is known
};

}  // namespace

template <class T>
PursuitCode<T> pursue_exactly(const Pursuit<T>& pursuit, std::span<const std::int32_t> start, Interrupt& interrupt) {
    return ExactPursuit<T>(pursuit, interrupt).solve(start);
}

template <class T>
void measure_exactly(const Pursuit<T>& pursuit, PursuitCode<T>& code, Interrupt& interrupt) {
    ExactPursuit<T>(pursuit, interrupt).measure(code);
}

template PursuitCode<float> pursue_exactly(const Pursuit<float>&, std::span<const std::int32_t>, Interrupt&);
template PursuitCode<double> pursue_exactly(const Pursuit<double>&, std::span<const std::int32_t>, Interrupt&);
template void measure_exactly(const Pursuit<float>&, PursuitCode<float>&, Interrupt&);
template void measure_exactly(const Pursuit<double>&, PursuitCode<double>&, Interrupt&);

}  // namespace taskdict
