#include "solve/exact.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "solve/certify.hpp"
#include "solve/cholesky.hpp"
#include "solve/wide.hpp"

namespace taskdict {
namespace {

template <class T>
class ProximalPoint {
    using W = Wide<T>;

  public:
    ProximalPoint(const Problem<T>& problem, double tolerance, Interrupt& interrupt)
        : problem_(problem),
          tolerance_(W(tolerance)),
          interrupt_(interrupt),
          center_(std::size_t(problem.p)),
          rho_(std::size_t(problem.p)),
          inside_(std::size_t(problem.p)) {
        for (Index j = 0; j < problem.p; ++j) {
            interrupt.poll();
            const T* atom = atom_at(j);
            square_.push_back(dot<W>(atom, atom, problem.m));
            scale_ = std::max(scale_, std::fabs(dot<W>(atom, problem.x, problem.m)));
        }
        scale_ = std::max(scale_, W(problem.largest_penalty()));
    }

    // Starts from the code of another solver if its objective is below that of zero.
    CertifiedCode<T> solve(const CertifiedCode<T>& start) {
        const std::size_t size = better_than_zero(start) ? start.atoms.size() : 0;
        for (std::size_t i = 0; i < size; ++i) {
            interrupt_.poll();
            atoms_.push_back(start.atoms[i]);
            alpha_.push_back(W(start.alpha[i]));
            sign_.push_back(start.alpha[i] > 0 ? W(1) : W(-1));
            residual_.push_back(0);
            products_.push_back(products_with(start.atoms[i], i));
            inside_[std::size_t(start.atoms[i])] = true;
            center_[std::size_t(start.atoms[i])] = alpha_.back();
        }
        CertifiedCode<T> best;
        best.certificate.kkt = std::numeric_limits<double>::infinity();
        W delta = std::sqrt(std::numeric_limits<W>::epsilon()) * 100;
        const W least = std::numeric_limits<W>::epsilon() * W(1e5);
        int without_progress = 0;  // rounds since the last that halved the residual
        for (int round = 0; round < 40; ++round) {
            minimise(delta);
            CertifiedCode<T> code = rounded(delta);
            code.steps = steps_;
            without_progress = code.certificate.worst() <= 0.5 * best.certificate.worst() ? 0 : without_progress + 1;
            if (code.certificate.worst() < best.certificate.worst()) best = std::move(code);
            best.steps = steps_;
            const double reached = best.certificate.worst() / double(tolerance_);
            if (reached <= 0.01 || (reached <= 0.5 && without_progress > 0) || without_progress > 12 || scale_ == 0) break;
            std::fill(center_.begin(), center_.end(), W(0));
            for (std::size_t i = 0; i < atoms_.size(); ++i) center_[std::size_t(atoms_[i])] = alpha_[i];
            delta = std::max(delta / 10, least);
        }
        return best;
    }

  private:
    const T* atom_at(Index j) const { return problem_.atoms + j * problem_.m; }
    W penalty(Index j) const { return W(problem_.penalty(j)); }
    bool is_free(std::size_t i) const { return problem_.is_free(atoms_[i]); }

    // Whether the objective of a code is below that of zero; false if it is not a number.
    bool better_than_zero(const CertifiedCode<T>& code) const {
        const std::vector<W> error = reconstruction_error<W>(problem_, code.atoms, code.alpha);
        W value = 0;
        for (std::size_t i = 0; i < code.alpha.size(); ++i) {
            const W alpha = W(code.alpha[i]);
            value += penalty(code.atoms[i]) * std::fabs(alpha) + W(problem_.lambda2) / 2 * alpha * alpha;
        }
        return dot<W>(error.data(), error) / 2 + value < dot<W>(problem_.x, problem_.x, problem_.m) / 2;
    }

    // The strongly convex problem for one δ, from the present support.
    void minimise(W delta) {
        refactor(delta);
        const W limit = tolerance_ * W(1e-3) * scale_;
        W previous = std::numeric_limits<W>::infinity();
        for (int pass = 0; pass < 100 + 4 * int(problem_.p); ++pass, ++steps_) {
            interrupt_.poll();
            const W off = correlate(delta);
            std::vector<std::int32_t> joins = violators(limit);
            if (joins.empty()) {
                if (off <= limit || off > previous / 2) return;
                previous = off;
            } else {
                previous = std::numeric_limits<W>::infinity();
            }
            for (std::int32_t atom : joins) {
                const W sign = rho_[std::size_t(atom)] > 0 ? W(1) : W(-1);
                add(atom, sign, rho_[std::size_t(atom)] - penalty(atom) * sign, delta);
            }
            descend();
        }
    }

    // ρ for all atoms, with the proximal term; the residual on Λ and its size.
    W correlate(W delta) {
        const std::vector<W> error = reconstruction_error<W>(problem_, atoms_, alpha_);
        for (Index j = 0; j < problem_.p; ++j)
            rho_[std::size_t(j)] = dot<W>(atom_at(j), error) + delta * square_[std::size_t(j)] * center_[std::size_t(j)];
        W off = 0;
        residual_.resize(atoms_.size());
        for (std::size_t i = 0; i < atoms_.size(); ++i) {
            W& rho = rho_[std::size_t(atoms_[i])];
            rho -= (W(problem_.lambda2) + delta * square_[std::size_t(atoms_[i])]) * alpha_[i];
            residual_[i] = rho - penalty(atoms_[i]) * sign_[i];
            off = std::max(off, std::fabs(residual_[i]));
        }
        return off;
    }

    W violation(Index j) const {
        const W rho = rho_[std::size_t(j)];
        return (problem_.positive ? rho : std::fabs(rho)) - penalty(j);
    }

    std::vector<std::int32_t> violators(W limit) const {
        W largest = 0;
        for (Index j = 0; j < problem_.p; ++j)
            if (!inside_[std::size_t(j)]) largest = std::max(largest, violation(j));
        std::vector<std::int32_t> found;
        if (largest <= limit) return found;
        for (Index j = 0; j < problem_.p; ++j)
            if (!inside_[std::size_t(j)] && violation(j) >= std::max(largest / 2, limit)) found.push_back(std::int32_t(j));
        std::stable_sort(found.begin(), found.end(), [&](Index a, Index b) { return violation(a) > violation(b); });
        if (found.size() > 8) found.resize(8);
        return found;
    }

    void add(std::int32_t atom, W sign, W residual, W delta) {
        std::vector<W> products = products_with(atom, atoms_.size());
        if (!append_factor(atom, products, delta)) return;
        atoms_.push_back(atom);
        products_.push_back(std::move(products));
        alpha_.push_back(0);
        sign_.push_back(sign);
        residual_.push_back(residual);
        inside_[std::size_t(atom)] = true;
    }

    // The products of an atom with the first of Λ.
    std::vector<W> products_with(std::int32_t atom, std::size_t count) const {
        std::vector<W> products(count);
        for (std::size_t i = 0; i < count; ++i) products[i] = dot<W>(atom_at(atom), atom_at(atoms_[i]), problem_.m);
        return products;
    }

    bool append_factor(std::int32_t atom, const std::vector<W>& products, W delta) {
        return factor_.append(products.data(), (1 + delta) * square_[std::size_t(atom)] + W(problem_.lambda2));
    }

    void refactor(W delta) {
        factor_.clear();
        for (std::size_t i = 0; i < atoms_.size(); ++i) {
            interrupt_.poll();
            if (!append_factor(atoms_[i], products_[i], delta)) {
                erase(i);
                --i;
            }
        }
    }

    void erase(std::size_t i) {
        inside_[std::size_t(atoms_[i])] = false;
        products_.erase(products_.begin() + std::ptrdiff_t(i));
        for (std::size_t j = i; j < products_.size(); ++j) products_[j].erase(products_[j].begin() + std::ptrdiff_t(i));
        atoms_.erase(atoms_.begin() + std::ptrdiff_t(i));
        alpha_.erase(alpha_.begin() + std::ptrdiff_t(i));
        sign_.erase(sign_.begin() + std::ptrdiff_t(i));
        if (i < residual_.size()) residual_.erase(residual_.begin() + std::ptrdiff_t(i));
    }

    // As in active_set.hpp.
    void descend() {
        while (!atoms_.empty()) {
            std::vector<W> step = residual_;
            factor_.solve(step.data());
            W length = 1;
            std::size_t out = atoms_.size();
            for (std::size_t i = 0; i < atoms_.size(); ++i) {
                const W target = alpha_[i] + step[i];
                if (target * sign_[i] > 0 || is_free(i)) continue;
                const W until = alpha_[i] == 0 ? W(0) : alpha_[i] / (alpha_[i] - target);
                if (until <= length) length = until, out = i;
            }
            for (std::size_t i = 0; i < atoms_.size(); ++i) {
                alpha_[i] += length * step[i];
                residual_[i] *= 1 - length;
                if (!is_free(i) && !(alpha_[i] * sign_[i] > 0)) alpha_[i] = 0;
            }
            if (out == atoms_.size()) return;
            factor_.remove(Index(out));
            erase(out);
            interrupt_.poll();
        }
    }

    // The present α in the arithmetic of the caller, certified.
    CertifiedCode<T> rounded(W delta) const {
        std::vector<std::size_t> order(atoms_.size());
        std::iota(order.begin(), order.end(), std::size_t(0));
        std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return atoms_[a] < atoms_[b]; });
        const auto collect = [&](const std::vector<T>& alpha) {
            CertifiedCode<T> code;
            for (std::size_t i : order)
                if (alpha[i] != 0) {
                    code.atoms.push_back(atoms_[i]);
                    code.alpha.push_back(alpha[i]);
                }
            code.certificate = certify(problem_, code.atoms, code.alpha);
            return code;
        };
        CertifiedCode<T> code = collect(std::vector<T>(alpha_.begin(), alpha_.end()));
        if (code.certificate.worst() <= double(tolerance_) * 0.5) return code;
        CertifiedCode<T> careful = collect(round_carefully(delta));
        return careful.certificate.kkt < code.certificate.kkt ? careful : code;
    }

    // Rounds one coefficient after the other, each time moving those still to come so that Dα stays where it is as far as
    // it can (the nearest-plane method). With nearly dependent atoms and large coefficients this loses far less than
    // rounding each by itself. The smallest coefficient comes last.
    std::vector<T> round_carefully(W delta) const {
        const std::size_t k = atoms_.size();
        std::vector<std::size_t> order(k);
        std::iota(order.begin(), order.end(), std::size_t(0));
        const auto weight = [&](std::size_t i) { return alpha_[i] * alpha_[i] * square_[std::size_t(atoms_[i])]; };
        std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return weight(a) < weight(b); });
        std::vector<T> result(alpha_.begin(), alpha_.end());
        Cholesky<W> factor;
        for (std::size_t i = 0; i < k; ++i) {
            interrupt_.poll();
            std::vector<W> column(i);
            for (std::size_t j = 0; j < i; ++j) column[j] = dot<W>(atom_at(atoms_[order[i]]), atom_at(atoms_[order[j]]), problem_.m);
            if (!factor.append(column.data(), (1 + delta) * square_[std::size_t(atoms_[order[i]])] + W(problem_.lambda2))) return result;
        }
        std::vector<W> moved(k);
        for (std::size_t i = k; i-- > 0;) {
            W shift = 0;
            for (std::size_t j = i + 1; j < k; ++j) shift -= factor.at(Index(j), Index(i)) * moved[j];
            const W exact = alpha_[order[i]];
            const T value = T(exact + shift / factor.at(Index(i), Index(i)));
            if (is_free(order[i]) || value * T(sign_[order[i]]) > 0) result[order[i]] = value;
            moved[i] = W(result[order[i]]) - exact;
        }
        return result;
    }

    const Problem<T>& problem_;
    const W tolerance_;
    Interrupt& interrupt_;
    W scale_ = 0;
    int steps_ = 0;
    std::vector<W> center_, rho_, square_;  // square_: ‖d_j‖²
    std::vector<char> inside_;
    std::vector<std::int32_t> atoms_;
    std::vector<W> alpha_, sign_, residual_;
    std::vector<std::vector<W>> products_;  // of each active atom with those before it
    Cholesky<W> factor_;
};

}  // namespace

template <class T>
CertifiedCode<T> solve_exact(const Problem<T>& problem, const CertifiedCode<T>& start, double tolerance, Interrupt& interrupt) {
    CertifiedCode<T> code = ProximalPoint<T>(problem, tolerance, interrupt).solve(start);
    if (start.atoms.empty() || code.certificate.worst() <= tolerance) return code;
    // If there are many solutions, the one near the start may have coefficients too large to be rounded. The one near zero has small ones.
    CertifiedCode<T> other = ProximalPoint<T>(problem, tolerance, interrupt).solve({});
    other.steps += code.steps;
    return !(code.certificate.kkt <= other.certificate.kkt) ? other : code;
}

template CertifiedCode<float> solve_exact(const Problem<float>&, const CertifiedCode<float>&, double, Interrupt&);
template CertifiedCode<double> solve_exact(const Problem<double>&, const CertifiedCode<double>&, double, Interrupt&);

}  // namespace taskdict
