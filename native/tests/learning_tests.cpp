#include "batch/encode.hpp"
#include "check.hpp"
#include "learn/atoms.hpp"
#include "learn/sums.hpp"
#include "learn/window.hpp"
#include "norms.hpp"

namespace taskdict::tests {
namespace {

// A step of online learning from encoded signals: the surrogate ½ tr(DᵀD A) − tr(DᵀB) falls, atoms stay in the unit ball.
template <class T>
void test_step(Index p, Index m, Index n) {
    std::vector<T> atoms = random_numbers<T>(p * m, 1);
    for (T& value : atoms) value /= T(4 * m);
    const std::vector<T> given = atoms, signals = random_numbers<T>(n * m, 2);
    Interrupt interrupt(nullptr);
    const Encoder<T> encoder(atoms.data(), p, m, {1e-3, 1e-3, false, Method::active_set}, false, 1, interrupt);
    Codes<T> codes(false);
    encode(encoder, DenseSignals<T>{signals.data(), n, m, 1}, {Rule::penalty, &encoder.parameters().lambda1, 1}, codes, 1, interrupt);
    const SparsityPattern pattern = codes.pattern(p);
    const MatrixView<const T> x = {signals.data(), n, m};
    std::vector<T> A(std::size_t(p * p)), B(std::size_t(p * m));
    const MatrixView<T> a = {A.data(), p, p}, b = {B.data(), p, m};
    sum_outer_sparse(pattern, codes.values.span(), codes.values.span(), T(0), {A.data(), p, p}, a, 3);
    sum_outer(pattern, codes.values.span(), x, T(0), {B.data(), p, m}, b, 3);
    const auto surrogate = [&] {
        double sum = 0;
        for (Index j = 0; j < p; ++j)
            for (Index f = 0; f < m; ++f) {
                double product = 0;
                for (Index i = 0; i < p; ++i) product += double(A[std::size_t(j * p + i)]) * double(atoms[std::size_t(i * m + f)]);
                sum += double(atoms[std::size_t(j * m + f)]) * (0.5 * product - double(B[std::size_t(j * m + f)]));
            }
        return sum;
    };
    const double before = surrogate();
    std::vector<T> alone = atoms;
    update_atoms<T>({alone.data(), p, m}, {A.data(), p, p}, {B.data(), p, m}, false, 1, interrupt);
    update_atoms<T>({atoms.data(), p, m}, {A.data(), p, p}, {B.data(), p, m}, false, 4, interrupt);
    check(alone == atoms, "atoms do not depend on threads", type_name<T>);
    check(surrogate() < before, "the surrogate falls", type_name<T>);
    bool inside = true;
    for (Index j = 0; j < p; ++j) {
        double square = 0;
        for (Index f = 0; f < m; ++f) square += double(atoms[std::size_t(j * m + f)]) * double(atoms[std::size_t(j * m + f)]);
        inside = inside && square <= 1 + 1e-5;
    }
    check(inside, "atoms in the unit ball", type_name<T>);
    // From the signals themselves comes the same step.
    const std::vector<T> weights(std::size_t(n), T(1)), targets(std::size_t(p * m)), curvatures(static_cast<std::size_t>(p));
    const Window<T> window = {pattern, codes.values.span(), weights, x, {targets.data(), p, m}, curvatures};
    std::vector<T> windowed = given, shared = given;
    update_atoms_on_window<T>({windowed.data(), p, m}, window, false, 1, interrupt);
    update_atoms_on_window<T>({shared.data(), p, m}, window, false, 4, interrupt);
    check(windowed == shared, "atoms from a window do not depend on threads", type_name<T>);
    double apart = 0;
    for (std::size_t i = 0; i < atoms.size(); ++i) apart = std::max(apart, std::fabs(double(windowed[i]) - double(atoms[i])));
    check(apart < (sizeof(T) == 4 ? 1e-3 : 1e-10), "atoms from a window are those from the statistics", type_name<T>);
    // With a mask that hides nothing as well; with one that hides some, an atom stays in the ball.
    const std::vector<T> by_feature(std::size_t(p * m));
    std::vector<std::uint8_t> observed(std::size_t(n * m), 1);
    Window<T> incomplete = {pattern, codes.values.span(), weights, x, {targets.data(), p, m}, by_feature, {observed.data(), n, m}};
    std::vector<T> masked = given;
    update_atoms_on_window<T>({masked.data(), p, m}, incomplete, false, 2, interrupt);
    double off_mask = 0;
    for (std::size_t i = 0; i < masked.size(); ++i) off_mask = std::max(off_mask, std::fabs(double(masked[i]) - double(windowed[i])));
    check(off_mask < (sizeof(T) == 4 ? 1e-3 : 1e-10), "atoms from a window with nothing missing", type_name<T>);
    for (std::size_t i = 0; i < observed.size(); ++i) observed[i] = i % 3 != 0;
    std::vector<T> partly = given, partly_shared = given;
    update_atoms_on_window<T>({partly.data(), p, m}, incomplete, true, 1, interrupt);
    update_atoms_on_window<T>({partly_shared.data(), p, m}, incomplete, true, 4, interrupt);
    check(partly == partly_shared, "atoms from a window with missing values do not depend on threads", type_name<T>);
    bool in_ball = true;
    for (Index j = 0; j < p; ++j) {
        double squares = 0;
        for (Index i = 0; i < m; ++i) squares += double(partly[std::size_t(j * m + i)]) * double(partly[std::size_t(j * m + i)]);
        in_ball = in_ball && squares <= 1 + 1e-5;
    }
    check(in_ball, "atoms from a window with missing values in the unit ball", type_name<T>);
    std::vector<T> decoded(signals.size()), products(std::size_t(codes.indices.size()));
    decode(pattern, codes.values.span(), {alone.data(), p, m}, T(1), x, MatrixView<T>{decoded.data(), n, m}, 3);
    correlate_supports<T>(pattern, {alone.data(), p, m}, x, products, 3);
    double off = 0;
    for (Index r = 0; r < n; ++r) {
        std::vector<double> expected(signals.begin() + r * m, signals.begin() + (r + 1) * m);
        for (Index i = pattern.start(r); i < pattern.start(r + 1); ++i) {
            double product = 0;
            for (Index f = 0; f < m; ++f) {
                const double entry = double(alone[std::size_t(pattern.indices[std::size_t(i)] * m + f)]);
                expected[std::size_t(f)] += double(codes.values.data()[i]) * entry;
                product += double(signals[std::size_t(r * m + f)]) * entry;
            }
            off = std::max(off, std::fabs(product - double(products[std::size_t(i)])) / double(m));
        }
        for (Index f = 0; f < m; ++f) off = std::max(off, std::fabs(expected[std::size_t(f)] - double(decoded[std::size_t(r * m + f)])) / 1e4);
    }
    check(off < (sizeof(T) == 4 ? 1e-5 : 1e-13), "decoding and correlations on the supports", type_name<T>);
    // The objective at each code, from its definition.
    std::vector<double> values(static_cast<std::size_t>(n));
    objectives(encoder, pattern, codes.values.span(), x, values, 2);
    double worst = 0;
    for (Index r = 0; r < n; ++r) {
        std::vector<long double> residual(x.row(r), x.row(r) + m);
        long double penalty = 0, square = 0;
        for (Index i = pattern.start(r); i < pattern.start(r + 1); ++i) {
            const long double alpha = codes.values.data()[i];
            penalty += 1e-3L * std::fabs(alpha) + 0.5e-3L * alpha * alpha;
            for (Index f = 0; f < m; ++f)
                residual[std::size_t(f)] -= alpha * (long double)(given[std::size_t(pattern.indices[std::size_t(i)] * m + f)]);
        }
        for (const long double value : residual) square += value * value;
        long double whole = 0;  // the objective of zero
        for (Index f = 0; f < m; ++f) whole += 0.5L * (long double)(x.row(r)[f]) * (long double)(x.row(r)[f]);
        worst = std::max(worst, double(std::fabs(0.5L * square + penalty - (long double)(values[std::size_t(r)])) / whole));
    }
    check(worst < (sizeof(T) == 4 ? 1e-3 : 1e-8), "objectives", type_name<T>);
}

}  // namespace

void test_learning() {
    for (const Index m : {1, 7, 100}) {
        test_step<float>(30, m, 50);
        test_step<double>(30, m, 50);
    }
    test_step<float>(150, 200, 400);
}

}  // namespace taskdict::tests
