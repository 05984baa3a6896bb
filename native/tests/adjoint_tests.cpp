// Adjoints are multiplied back, gradients computed again from them, in long double.
#include "learn/adjoint.hpp"
#include "problems.hpp"

namespace taskdict::tests {
namespace {

using Wide = long double;

template <class T>
constexpr Wide tolerance = sizeof(T) == 4 ? 2e-5L : 1e-13L;

// Whether M (M β − g) = 0 on the supports, and M β = g unless M may be singular, up to the tolerance.
template <class T>
bool multiplies_back(const Encoded<T>& encoded, const SparsityPattern& pattern, const std::vector<T>& g, const std::vector<T>& beta, bool singular) {
    for (Index r = 0; r < pattern.rows(); ++r) {
        const Index k = pattern.count(r), start = pattern.start(r);
        std::vector<Wide> gram(std::size_t(k * k)), residual(static_cast<std::size_t>(k));
        Wide norm = 0, size = 0;  // ‖M‖∞, and a bound on the terms of M β − g
        for (Index i = 0; i < k; ++i) {
            Wide row = 0;
            for (Index j = 0; j < k; ++j) {
                Wide& entry = gram[std::size_t(i * k + j)];
                entry = i == j ? Wide(encoded.c.parameters.lambda2) : Wide(0);
                for (Index f = 0; f < encoded.c.m; ++f)
                    entry += Wide(encoded.atom(pattern.support(r)[i])[f]) * Wide(encoded.atom(pattern.support(r)[j])[f]);
                row += std::fabs(entry);
            }
            norm = std::max(norm, row);
        }
        for (Index i = 0; i < k; ++i)
            size = std::max(size, norm * std::fabs(Wide(beta[std::size_t(start + i)])) + std::fabs(Wide(g[std::size_t(start + i)])));
        for (Index i = 0; i < k; ++i) {
            Wide sum = -Wide(g[std::size_t(start + i)]);
            for (Index j = 0; j < k; ++j) sum += gram[std::size_t(i * k + j)] * Wide(beta[std::size_t(start + j)]);
            if (!singular && !(std::fabs(sum) <= tolerance<T> * size)) return false;
            residual[std::size_t(i)] = sum;
        }
        for (Index i = 0; i < k; ++i) {
            Wide sum = 0;
            for (Index j = 0; j < k; ++j) sum += gram[std::size_t(i * k + j)] * residual[std::size_t(j)];
            if (!(std::fabs(sum) <= tolerance<T> * norm * size)) return false;
        }
    }
    return true;
}

template <class T>
bool near(const std::vector<T>& found, const std::vector<Wide>& expected, const std::vector<Wide>& sizes) {
    for (std::size_t i = 0; i < found.size(); ++i)
        if (!(std::fabs(Wide(found[i]) - expected[i]) <= tolerance<T> * sizes[i])) return false;
    return true;
}

// x − Dα, Dβ + w (x − Dα) and Σ β (x − Dα)ᵀ − α ∇xᵀ, each with the sum of the magnitudes of its terms.
template <class T>
void check_gradient(const Encoded<T>& encoded, const std::vector<T>& beta, T w, const std::vector<T>& both, const std::vector<T>& in_atoms) {
    const SparsityPattern pattern = encoded.codes.pattern(encoded.c.p);
    const Index n = encoded.c.n, m = encoded.c.m;
    std::vector<Wide> rows(both.size()), row_sizes(both.size()), sums(in_atoms.size()), sum_sizes(in_atoms.size());
    for (Index r = 0; r < n; ++r)
        for (Index f = 0; f < m; ++f) {
            Wide &residual = rows[std::size_t(r * m + f)], &residual_size = row_sizes[std::size_t(r * m + f)];
            Wide &in_x = rows[std::size_t((n + r) * m + f)], &in_x_size = row_sizes[std::size_t((n + r) * m + f)];
            residual = encoded.signal(r)[f];
            residual_size = std::fabs(residual);
            for (Index i = pattern.start(r); i < pattern.start(r + 1); ++i) {
                const Wide entry = encoded.atom(pattern.indices[std::size_t(i)])[f], alpha = encoded.codes.values.data()[i];
                residual -= alpha * entry;
                residual_size += std::fabs(alpha * entry);
                in_x += Wide(beta[std::size_t(i)]) * entry;
                in_x_size += std::fabs(Wide(beta[std::size_t(i)]) * entry);
            }
            in_x += Wide(w) * residual;
            in_x_size += std::fabs(Wide(w)) * residual_size;
            for (Index i = pattern.start(r); i < pattern.start(r + 1); ++i) {
                const auto at = std::size_t(pattern.indices[std::size_t(i)] * m + f);
                const Wide alpha = encoded.codes.values.data()[i], b = beta[std::size_t(i)];
                sums[at] += b * residual - alpha * in_x;
                sum_sizes[at] += std::fabs(b) * residual_size + std::fabs(alpha) * in_x_size;
            }
        }
    check(near(both, rows, row_sizes), "residuals and gradients in the signals", type_name<T>);
    check(near(in_atoms, sums, sum_sizes), "gradients in the atoms", type_name<T>);
}

template <class T>
void test_case(const Case& c) {
    Encoded<T> encoded(c);
    const SparsityPattern pattern = encoded.codes.pattern(c.p);
    const std::vector<T> g = random_numbers<T>(pattern.nonzeros(), 3);
    std::vector<T> beta(g.size());
    check(encoded.codes.factors.size() == factor_entries(pattern), "one factor per signal", type_name<T>);
    solve_adjoint(encoded.encoder, pattern, encoded.codes.factors.span(), g, beta, 2, encoded.interrupt);
    check(multiplies_back(encoded, pattern, g, beta, c.integers), "adjoint multiplied back", type_name<T>);

    std::vector<T> both(std::size_t(2 * c.n * c.m)), gradient(std::size_t(c.p * c.m)), alone(gradient.size());
    const T w = T(0.5);
    for (const int n_threads : {1, 3})
        code_gradient<T>(encoded.encoder, pattern,
                         {encoded.codes.values.span(),
                          encoded.codes.factors.span(),
                          g,
                          {encoded.atoms.data(), c.p, c.m},
                          {encoded.signals.data(), c.n, c.m},
                          w,
                          {both.data(), 2 * c.n, c.m},
                          {n_threads == 1 ? alone.data() : gradient.data(), c.p, c.m}},
                         n_threads, encoded.interrupt);
    check(gradient == alone, "gradients do not depend on threads", type_name<T>);
    check_gradient(encoded, beta, w, both, gradient);
}

// Two equal atoms: M is ‖d‖² (1 1; 1 1), and the β of least norm is (g1 + g2) / (4 ‖d‖²) for both. No inverse is given.
template <class T>
void test_least_norm() {
    const std::vector<T> atoms = {3, 4, 3, 4, 0, 2};
    Interrupt interrupt(nullptr);
    const Encoder<T> encoder(atoms.data(), 3, 2, {0.1, 0.0, false, Method::active_set}, false, 1, interrupt);
    const std::vector<std::int64_t> indptr = {0, 2, 3};
    const std::vector<std::int32_t> indices = {0, 1, 2};
    const std::vector<T> factors(4, T(0)), g = {1, 2, 6};
    std::vector<T> beta(3);
    solve_adjoint(encoder, {indptr, indices, 3}, factors, g, beta, 1, interrupt);
    const double expected[] = {0.03, 0.03, 1.5};
    bool good = true;
    for (std::size_t i = 0; i < 3; ++i) good = good && std::fabs(double(beta[i]) - expected[i]) <= 1e-6 * expected[i];
    check(good, "adjoint of least norm", type_name<T>);
}

}  // namespace

void test_adjoints() {
    for_cases(test_case<float>);
    for_cases(test_case<double>);
    test_least_norm<float>();
    test_least_norm<double>();
}

}  // namespace taskdict::tests
