#include "exact.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "cholesky.hpp"

namespace taskdict {
namespace {

template <class T>
struct Wider;
template <>
struct Wider<float> {
    using type = double;
};
template <>
struct Wider<double> {
    using type = long double;
};

template <class T>
using Wide = typename Wider<T>::type;

template <class W, class T>
W dot(const T* a, const T* b, Index m) {
    W sum = 0;
    for (Index i = 0; i < m; ++i) sum += W(a[i]) * W(b[i]);
    return sum;
}

template <class W, class T>
W dot(const T* a, const std::vector<W>& b) {
    W sum = 0;
    for (std::size_t i = 0; i < b.size(); ++i) sum += W(a[i]) * b[i];
    return sum;
}

// x − Σ_i alpha[i] · atom[i]
template <class W, class T, class A>
std::vector<W> reconstruction_error(const Problem<T>& problem, const std::int32_t* atoms, const A* alpha, Index k) {
    std::vector<W> error(problem.x, problem.x + problem.m);
    for (Index i = 0; i < k; ++i) {
        const T* atom = problem.atoms + atoms[i] * problem.m;
        for (Index j = 0; j < problem.m; ++j) error[std::size_t(j)] -= W(alpha[i]) * W(atom[j]);
    }
    return error;
}

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
            const T* atom = atom_at(j);
            square_.push_back(dot<W>(atom, atom, problem.m));
            scale_ = std::max(scale_, std::fabs(dot<W>(atom, problem.x, problem.m)));
        }
        scale_ = std::max(scale_, W(problem.lambda1));
    }

    ExactCode<T> solve() {
        ExactCode<T> best;
        best.kkt = std::numeric_limits<double>::infinity();
        W delta = std::sqrt(std::numeric_limits<W>::epsilon()) * 100;
        const W least = std::numeric_limits<W>::epsilon() * W(1e5);
        for (int round = 0; round < 40; ++round) {
            minimise(delta);
            ExactCode<T> code = rounded(delta);
            code.steps = steps_;
            if (code.kkt < best.kkt) best = std::move(code);
            best.steps = steps_;
            if (best.kkt <= double(tolerance_) * 0.01 || scale_ == 0) break;
            std::fill(center_.begin(), center_.end(), W(0));
            for (std::size_t i = 0; i < atoms_.size(); ++i) center_[std::size_t(atoms_[i])] = alpha_[i];
            delta = std::max(delta / 10, least);
        }
        return best;
    }

  private:
    const T* atom_at(Index j) const { return problem_.atoms + j * problem_.m; }
    bool free_signs() const { return problem_.lambda1 == 0 && !problem_.positive; }

    // The strongly convex problem for one δ, from the present support.
    void minimise(W delta) {
        refactor(0, delta);
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
                add(atom, sign, rho_[std::size_t(atom)] - W(problem_.lambda1) * sign, delta);
            }
            descend(delta);
        }
    }

    // ρ for all atoms, with the proximal term; the residual on Λ and its size.
    W correlate(W delta) {
        const std::vector<W> error = reconstruction_error<W>(problem_, atoms_.data(), alpha_.data(), Index(atoms_.size()));
        for (Index j = 0; j < problem_.p; ++j)
            rho_[std::size_t(j)] = dot<W>(atom_at(j), error) + delta * square_[std::size_t(j)] * center_[std::size_t(j)];
        W off = 0;
        residual_.resize(atoms_.size());
        for (std::size_t i = 0; i < atoms_.size(); ++i) {
            W& rho = rho_[std::size_t(atoms_[i])];
            rho -= (W(problem_.lambda2) + delta * square_[std::size_t(atoms_[i])]) * alpha_[i];
            residual_[i] = rho - W(problem_.lambda1) * sign_[i];
            off = std::max(off, std::fabs(residual_[i]));
        }
        return off;
    }

    W violation(Index j) const {
        const W rho = rho_[std::size_t(j)];
        return (problem_.positive ? rho : std::fabs(rho)) - W(problem_.lambda1);
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
        std::vector<W> products(atoms_.size());
        for (std::size_t i = 0; i < products.size(); ++i) products[i] = dot<W>(atom_at(atom), atom_at(atoms_[i]), problem_.m);
        if (!append_factor(atom, products, delta)) return;
        atoms_.push_back(atom);
        products_.push_back(std::move(products));
        alpha_.push_back(0);
        sign_.push_back(sign);
        residual_.push_back(residual);
        inside_[std::size_t(atom)] = true;
    }

    bool append_factor(std::int32_t atom, const std::vector<W>& products, W delta) {
        return factor_.append(products.data(), (1 + delta) * square_[std::size_t(atom)] + W(problem_.lambda2));
    }

    void refactor(std::size_t from, W delta) {
        factor_.truncate(Index(from));
        for (std::size_t i = from; i < atoms_.size(); ++i)
            if (!append_factor(atoms_[i], products_[i], delta)) {
                erase(i);
                --i;
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
    void descend(W delta) {
        while (!atoms_.empty()) {
            std::vector<W> step = residual_;
            factor_.solve(step.data());
            W length = 1;
            std::size_t out = atoms_.size();
            for (std::size_t i = 0; i < atoms_.size() && !free_signs(); ++i) {
                const W target = alpha_[i] + step[i];
                if (target * sign_[i] > 0) continue;
                const W until = alpha_[i] == 0 ? W(0) : alpha_[i] / (alpha_[i] - target);
                if (until <= length) length = until, out = i;
            }
            for (std::size_t i = 0; i < atoms_.size(); ++i) {
                alpha_[i] += length * step[i];
                residual_[i] *= 1 - length;
                if (!free_signs() && !(alpha_[i] * sign_[i] > 0)) alpha_[i] = 0;
            }
            if (out == atoms_.size()) return;
            erase(out);
            refactor(out, delta);
        }
    }

    // The present α in the arithmetic of the caller, certified.
    ExactCode<T> rounded(W delta) const {
        std::vector<std::size_t> order(atoms_.size());
        std::iota(order.begin(), order.end(), std::size_t(0));
        std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return atoms_[a] < atoms_[b]; });
        const auto collect = [&](const std::vector<T>& alpha) {
            ExactCode<T> code;
            for (std::size_t i : order)
                if (alpha[i] != 0) {
                    code.atoms.push_back(atoms_[i]);
                    code.alpha.push_back(alpha[i]);
                }
            code.kkt = certify(problem_, code.atoms.data(), code.alpha.data(), Index(code.atoms.size()));
            return code;
        };
        ExactCode<T> code = collect(std::vector<T>(alpha_.begin(), alpha_.end()));
        if (code.kkt <= double(tolerance_) * 0.5) return code;
        ExactCode<T> careful = collect(round_carefully(delta));
        return careful.kkt < code.kkt ? careful : code;
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
            if (free_signs() || value * T(sign_[order[i]]) > 0) result[order[i]] = value;
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

// Eigenvalues and eigenvectors of a symmetric matrix by Jacobi rotations; the columns of `vectors` are the eigenvectors.
template <class W>
void diagonalise(std::vector<W>& matrix, std::vector<W>& vectors, Index k) {
    const auto at = [k](std::vector<W>& a, Index i, Index j) -> W& { return a[std::size_t(i * k + j)]; };
    vectors.assign(std::size_t(k * k), W(0));
    for (Index i = 0; i < k; ++i) at(vectors, i, i) = 1;
    for (int sweep = 0; sweep < 60; ++sweep) {
        W off = 0, diagonal = 0;
        for (Index i = 0; i < k; ++i)
            for (Index j = 0; j < k; ++j) (i == j ? diagonal : off) += at(matrix, i, j) * at(matrix, i, j);
        if (off <= diagonal * std::numeric_limits<W>::epsilon() * std::numeric_limits<W>::epsilon()) return;
        for (Index i = 0; i < k; ++i)
            for (Index j = i + 1; j < k; ++j) {
                const W value = at(matrix, i, j);
                if (value == 0) continue;
                const W theta = (at(matrix, j, j) - at(matrix, i, i)) / (2 * value);
                const W t = (theta >= 0 ? W(1) : W(-1)) / (std::fabs(theta) + std::sqrt(theta * theta + 1));
                const W c = 1 / std::sqrt(t * t + 1), s = t * c;
                for (Index r = 0; r < k; ++r) {
                    const W a = at(matrix, r, i), b = at(matrix, r, j);
                    at(matrix, r, i) = c * a - s * b;
                    at(matrix, r, j) = s * a + c * b;
                }
                for (Index r = 0; r < k; ++r) {
                    const W a = at(matrix, i, r), b = at(matrix, j, r);
                    at(matrix, i, r) = c * a - s * b;
                    at(matrix, j, r) = s * a + c * b;
                    const W u = at(vectors, r, i), v = at(vectors, r, j);
                    at(vectors, r, i) = c * u - s * v;
                    at(vectors, r, j) = s * u + c * v;
                }
            }
    }
}

}  // namespace

template <class T>
ExactCode<T> solve_exact(const Problem<T>& problem, double tolerance, Interrupt& interrupt) {
    return ProximalPoint<T>(problem, tolerance, interrupt).solve();
}

template <class T>
double certify(const Problem<T>& problem, const std::int32_t* atoms, const T* alpha, Index k) {
    using W = Wide<T>;
    const std::vector<W> error = reconstruction_error<W>(problem, atoms, alpha, k);
    W scale = W(problem.lambda1), worst = 0;
    Index next = 0;
    std::vector<std::pair<std::int32_t, T>> code;
    for (Index i = 0; i < k; ++i) code.emplace_back(atoms[i], alpha[i]);
    std::sort(code.begin(), code.end());
    for (Index j = 0; j < problem.p; ++j) {
        const T* atom = problem.atoms + j * problem.m;
        scale = std::max(scale, std::fabs(dot<W>(atom, problem.x, problem.m)));
        W rho = dot<W>(atom, error), violation;
        if (next < k && code[std::size_t(next)].first == j) {
            const W value = code[std::size_t(next++)].second;
            rho -= W(problem.lambda2) * value;
            violation = std::fabs(rho - (value > 0 ? W(problem.lambda1) : -W(problem.lambda1)));
            if (problem.positive && value < 0) violation = std::numeric_limits<W>::infinity();
        } else {
            violation = (problem.positive ? rho : std::fabs(rho)) - W(problem.lambda1);
        }
        if (!(violation <= worst)) worst = violation;
    }
    return scale > 0 ? double(worst / scale) : 0.0;
}

template <class T>
std::vector<T> solve_least_norm(const Problem<T>& problem, const std::int32_t* atoms, Index k, const T* g) {
    using W = Wide<T>;
    // M_ΛΛ is exact up to the wider rounding, but atoms that should be dependent are so only up to that of T.
    const W epsilon = std::numeric_limits<T>::epsilon();
    const W negligible = W(100 * k) * std::max(epsilon * epsilon, std::numeric_limits<W>::epsilon());
    std::vector<W> matrix(std::size_t(k * k)), beta(g, g + k);
    Cholesky<W> factor;
    bool definite = true;
    for (Index i = 0; i < k; ++i) {
        for (Index j = 0; j <= i; ++j) {
            const W value = dot<W>(problem.atoms + atoms[i] * problem.m, problem.atoms + atoms[j] * problem.m, problem.m);
            matrix[std::size_t(i * k + j)] = matrix[std::size_t(j * k + i)] = value + (i == j ? W(problem.lambda2) : W(0));
        }
        const W diagonal = matrix[std::size_t(i * k + i)];
        definite = definite && factor.append(matrix.data() + i * k, diagonal) && factor.pivot(i) > negligible * diagonal;
    }
    if (definite) {
        factor.solve(beta.data());
        return std::vector<T>(beta.begin(), beta.end());
    }
    std::vector<W> vectors;
    diagonalise(matrix, vectors, k);
    W largest = 0;
    for (Index i = 0; i < k; ++i) largest = std::max(largest, matrix[std::size_t(i * k + i)]);
    std::fill(beta.begin(), beta.end(), W(0));
    for (Index e = 0; e < k; ++e) {
        const W value = matrix[std::size_t(e * k + e)];
        if (!(value > negligible * largest)) continue;
        W along = 0;
        for (Index i = 0; i < k; ++i) along += vectors[std::size_t(i * k + e)] * W(g[i]);
        for (Index i = 0; i < k; ++i) beta[std::size_t(i)] += vectors[std::size_t(i * k + e)] * along / value;
    }
    return std::vector<T>(beta.begin(), beta.end());
}

template ExactCode<float> solve_exact(const Problem<float>&, double, Interrupt&);
template ExactCode<double> solve_exact(const Problem<double>&, double, Interrupt&);
template double certify(const Problem<float>&, const std::int32_t*, const float*, Index);
template double certify(const Problem<double>&, const std::int32_t*, const double*, Index);
template std::vector<float> solve_least_norm(const Problem<float>&, const std::int32_t*, Index, const float*);
template std::vector<double> solve_least_norm(const Problem<double>&, const std::int32_t*, Index, const double*);

}  // namespace taskdict
