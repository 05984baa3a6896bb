// Tests of the core without Python, to be run under the sanitizers (see CONTRIBUTING.md). They assert optimality.
#include <cstdio>
#include <random>

#include "../core/adjoint.hpp"
#include "../core/atoms.hpp"
#include "../core/batch.hpp"
#include "../core/pictures.hpp"
#include "../core/sums.hpp"

using namespace taskdict;

namespace {

int passed = 0, failed = 0;

void check(bool good, const char* what, const char* type) {
    if (good) {
        ++passed;
    } else {
        ++failed;
        std::printf("FAILED: %s (%s)\n", what, type);
    }
}

template <class T>
constexpr const char* type_name = sizeof(T) == 4 ? "float" : "double";

template <class T>
std::vector<T> random_numbers(Index count, unsigned seed, bool integers = false) {
    std::mt19937 generator(seed);
    std::normal_distribution<double> normal;
    std::uniform_int_distribution<int> digit(-1, 1);
    std::vector<T> numbers(static_cast<std::size_t>(count));
    for (T& number : numbers) number = integers ? T(digit(generator)) : T(normal(generator));
    return numbers;
}

template <class T>
bool optimal(const std::vector<T>& atoms, Index p, Index m, const std::vector<T>& signals, const Parameters& parameters, const Codes<T>& codes) {
    const Index n = codes.status.size();
    for (Index r = 0; r < n; ++r) {
        const std::int64_t start = codes.indptr.data()[r], end = codes.indptr.data()[r + 1];
        const Problem<T> problem = {atoms.data(), p, m, signals.data() + r * m, parameters.lambda1, parameters.lambda2, parameters.positive};
        const double kkt = certify(problem, codes.indices.data() + start, codes.values.data() + start, Index(end - start)).kkt;
        if (!(kkt <= promised_kkt<T>) || codes.status.data()[r] == std::uint8_t(Status::inexact)) return false;
    }
    return true;
}

template <class T>
void test_problem(const char* what, Index p, Index m, Index n, const Parameters& parameters, bool integers) {
    const std::vector<T> atoms = random_numbers<T>(p * m, 1, integers), signals = random_numbers<T>(n * m, 2, integers);
    Interrupt interrupt([] { return false; });
    const Encoder<T> encoder(atoms.data(), p, m, parameters, false, 2, interrupt);
    Codes<T> codes(true);
    encode(encoder, DenseSignals<T>{signals.data(), n, m, 1}, codes, 3, interrupt);
    check(codes.status.size() == n && optimal(atoms, p, m, signals, parameters, codes), what, type_name<T>);

    // The same signals as compressed rows.
    std::vector<std::int64_t> indptr = {0};
    std::vector<std::int32_t> indices;
    for (Index r = 0; r < n; ++r) {
        for (Index i = 0; i < m; ++i) indices.push_back(std::int32_t(i));
        indptr.push_back(std::int64_t(indices.size()));
    }
    const Encoder<T> sparse_encoder(atoms.data(), p, m, parameters, true, 1, interrupt);
    Codes<T> sparse_codes(false);
    encode(sparse_encoder, SparseSignals<T>{signals.data(), indptr.data(), indices.data(), n}, sparse_codes, 2, interrupt);
    check(optimal(atoms, p, m, signals, parameters, sparse_codes), "sparse signals", type_name<T>);

    const std::vector<T> g = random_numbers<T>(codes.indices.size(), 3);
    std::vector<T> beta(g.size());
    solve_adjoint(encoder, Supports{codes.indptr.data(), codes.indices.data(), n, p}, codes.factors.data(), g.data(), beta.data(), 2, interrupt);
    bool finite = true;
    for (T value : beta) finite = finite && std::isfinite(value);
    check(finite, "adjoint is finite", type_name<T>);

    std::vector<T> both(std::size_t(2 * n * m)), gradient(std::size_t(p * m)), alone(gradient.size());
    const Supports supports = {codes.indptr.data(), codes.indices.data(), n, p};
    code_gradient(encoder, supports,
                  {codes.values.data(), codes.factors.data(), g.data(), atoms.data(), signals.data(), T(0.5), both.data(), gradient.data()}, 3,
                  interrupt);
    code_gradient(encoder, supports,
                  {codes.values.data(), codes.factors.data(), g.data(), atoms.data(), signals.data(), T(0.5), both.data(), alone.data()}, 1,
                  interrupt);
    check(gradient == alone, "gradients do not depend on threads", type_name<T>);
}

template <class T>
void test_all() {
    for (const Method method : {Method::active_set, Method::homotopy})
        for (const bool positive : {false, true}) {
            test_problem<T>("random", 70, 30, 200, {0.5, 0.0, positive, method}, false);
            test_problem<T>("wide, elastic", 90, 8, 100, {0.01, 1.0, positive, method}, false);
            test_problem<T>("ties and dependent atoms", 60, 9, 150, {0.3, 0.0, positive, method}, true);
            test_problem<T>("least squares", 12, 5, 40, {0.0, 0.0, positive, method}, false);
            test_problem<T>("ridge, large support", 150, 20, 5, {0.0, 0.1, positive, method}, false);
            test_problem<T>("one feature", 3, 1, 10, {0.1, 0.0, positive, method}, false);
            test_problem<T>("one atom", 1, 17, 10, {0.1, 0.0, positive, method}, false);
            test_problem<T>("no signal", 4, 3, 0, {0.1, 0.0, positive, method}, false);
        }
}

// A step of online learning from encoded signals: the surrogate ½ tr(DᵀD A) − tr(DᵀB) falls, atoms stay in the unit ball.
template <class T>
void test_learning(Index p, Index m, Index n) {
    std::vector<T> atoms = random_numbers<T>(p * m, 1);
    for (T& value : atoms) value /= T(4 * m);
    const std::vector<T> signals = random_numbers<T>(n * m, 2);
    Interrupt interrupt(nullptr);
    const Encoder<T> encoder(atoms.data(), p, m, {1e-3, 1e-3, false, Method::active_set}, false, 1, interrupt);
    Codes<T> codes(false);
    encode(encoder, DenseSignals<T>{signals.data(), n, m, 1}, codes, 1, interrupt);
    const Supports supports = {codes.indptr.data(), codes.indices.data(), n, p};
    std::vector<T> A(std::size_t(p * p)), B(std::size_t(p * m));
    sum_outer_sparse(supports, codes.values.data(), codes.values.data(), T(0), A.data(), A.data(), 3);
    sum_outer(supports, codes.values.data(), signals.data(), m, T(0), B.data(), B.data(), 3);
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
    update_atoms(alone.data(), A.data(), B.data(), p, m, false, 1, interrupt);
    update_atoms(atoms.data(), A.data(), B.data(), p, m, false, 4, interrupt);
    check(alone == atoms, "atoms do not depend on threads", type_name<T>);
    check(surrogate() < before, "the surrogate falls", type_name<T>);
    bool inside = true;
    for (Index j = 0; j < p; ++j) {
        double square = 0;
        for (Index f = 0; f < m; ++f) square += double(atoms[std::size_t(j * m + f)]) * double(atoms[std::size_t(j * m + f)]);
        inside = inside && square <= 1 + 1e-5;
    }
    check(inside, "atoms in the unit ball", type_name<T>);
    std::vector<T> decoded(signals.size()), products(std::size_t(codes.indices.size()));
    decode(supports, codes.values.data(), alone.data(), m, T(1), signals.data(), decoded.data(), 3);
    correlate_supports(supports, alone.data(), signals.data(), m, products.data(), 3);
    double off = 0;
    for (Index r = 0; r < n; ++r) {
        std::vector<double> expected(signals.begin() + r * m, signals.begin() + (r + 1) * m);
        for (std::int64_t i = supports.indptr[r]; i < supports.indptr[r + 1]; ++i) {
            double product = 0;
            for (Index f = 0; f < m; ++f) {
                const double entry = double(alone[std::size_t(supports.indices[i] * m + f)]);
                expected[std::size_t(f)] += double(codes.values.data()[i]) * entry;
                product += double(signals[std::size_t(r * m + f)]) * entry;
            }
            off = std::max(off, std::fabs(product - double(products[std::size_t(i)])) / double(m));
        }
        for (Index f = 0; f < m; ++f) off = std::max(off, std::fabs(expected[std::size_t(f)] - double(decoded[std::size_t(r * m + f)])) / 1e4);
    }
    check(off < (sizeof(T) == 4 ? 1e-5 : 1e-13), "decoding and correlations on the supports", type_name<T>);
    std::vector<double> values(static_cast<std::size_t>(n));
    objectives(encoder, supports, codes.values.data(), signals.data(), values.data(), 2);
    bool positive = true;
    for (const double value : values) positive = positive && value > 0;
    check(positive, "objectives are positive", type_name<T>);
}

void test_team() {
    for (int repeat = 0; repeat < 20; ++repeat) {
        std::vector<int> counts(100);
        with_team(4, nullptr, [&](Team& team) {
            for (Index loop = 0; loop < 200; ++loop) team.loop(loop % 7, [&](Index i) { ++counts[std::size_t(loop % 50 + i)]; });
        });
        int total = 0;
        for (const int count : counts) total += count;
        check(total == 28 * 21 + 6, "every task of every loop once", "team");
    }
}

void test_interrupt() {
    const std::vector<double> atoms = random_numbers<double>(400 * 100, 1), signals = random_numbers<double>(20000 * 100, 2);
    Interrupt patient(nullptr), interrupt([] { return true; });
    const Encoder<double> encoder(atoms.data(), 400, 100, {0.01, 0.1, false, Method::active_set}, false, 1, patient);
    Codes<double> codes(false);
    bool stopped = false;
    try {
        encode(encoder, DenseSignals<double>{signals.data(), 20000, 100, 1}, codes, 2, interrupt);
    } catch (const Interrupted&) {
        stopped = true;
    }
    check(stopped, "interrupt", "double");
}

void test_bad_signal() {
    std::vector<float> atoms = random_numbers<float>(20 * 10, 1), signals = random_numbers<float>(500 * 10, 2);
    signals[321 * 10 + 7] = std::numeric_limits<float>::infinity();
    Interrupt interrupt(nullptr);
    const Encoder<float> encoder(atoms.data(), 20, 10, {0.1, 0.0, false, Method::active_set}, false, 1, interrupt);
    Codes<float> codes(false);
    Index row = -1;
    try {
        encode(encoder, DenseSignals<float>{signals.data(), 500, 10, 1}, codes, 2, interrupt);
    } catch (const BadSignal& bad) {
        row = bad.row;
    }
    check(row == 321, "bad signal", "float");
}

template <class T>
void test_halftone() {
    const Tap taps[] = {{0, 1, 7.0 / 16}, {1, -1, 3.0 / 16}, {1, 0, 5.0 / 16}, {1, 1, 1.0 / 16}};
    for (const Index width : {1, 2, 33}) {
        std::vector<T> pixels(std::size_t(40 * width), T(0.25));
        diffuse_errors(pixels.data(), 40, width, taps, 4);
        double total = 0;
        bool binary = true;
        for (const T pixel : pixels) total += double(pixel), binary = binary && (pixel == 0 || pixel == 1);
        check(binary, "halftone has two values", type_name<T>);
        if (width == 33) check(std::fabs(total / double(pixels.size()) - 0.25) < 0.01, "halftone keeps the average", type_name<T>);
    }
}

void test_bend() {
    const Index height = 5, width = 3, knots = 2;
    const std::vector<float> pictures = random_numbers<float>(2 * height * width, 1), weights(std::size_t(height * knots), 1.0f);
    std::vector<float> out(pictures.size()), still(2 * 2 * knots * knots, 0.0f), far(still.size(), 1e9f);
    const Bend bend = {2, height, width, knots, weights.data(), weights.data(), -7.0f};
    const std::int64_t offsets[] = {0, 0, 1, -1};
    taskdict::bend(bend, pictures.data(), offsets, still.data(), out.data());
    bool same = true, moved = true, background = true;
    for (Index i = 0; i < height; ++i)
        for (Index j = 0; j < width; ++j) {
            same = same && out[std::size_t(i * width + j)] == pictures[std::size_t(i * width + j)];
            const bool inside = i > 0 && j + 1 < width;
            const float expected = inside ? pictures[std::size_t((height + i - 1) * width + j + 1)] : -7.0f;
            moved = moved && out[std::size_t((height + i) * width + j)] == expected;
        }
    taskdict::bend(bend, pictures.data(), offsets, far.data(), out.data());
    for (const float value : out) background = background && value == -7.0f;
    check(same, "no bend", "float");
    check(moved, "moved", "float");
    check(background, "bent out of sight", "float");
}

}  // namespace

int main() {
    test_all<float>();
    test_all<double>();
    for (const Index m : {1, 7, 100}) {
        test_learning<float>(30, m, 50);
        test_learning<double>(30, m, 50);
    }
    test_learning<float>(150, 200, 400);
    test_team();
    test_interrupt();
    test_bad_signal();
    test_halftone<float>();
    test_halftone<double>();
    test_bend();
    std::printf("%s: %d passed, %d failed\n", instruction_set().name, passed, failed);
    return failed > 0;
}
