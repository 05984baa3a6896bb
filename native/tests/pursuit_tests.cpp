#include <cstring>
#include <limits>

#include "batch/pursuit.hpp"
#include "check.hpp"
#include "simd/kernels.hpp"

namespace taskdict::tests {
namespace {

struct Case {
    const char* name;
    Index p, m, n;
    std::int32_t n_nonzero;
    double max_error = -1;
    bool integers = false;  // entries −1, 0 and 1: ties, and dependent atoms
};

template <class T>
struct Pursued {
    explicit Pursued(const Case& c)
        : atoms(random_numbers<T>(c.p * c.m, 1, c.integers)),
          signals(random_numbers<T>(c.n * c.m, 2, c.integers)),
          counts{c.n_nonzero},
          errors(c.max_error >= 0 ? std::vector<double>{c.max_error} : std::vector<double>()) {}

    std::vector<T> atoms, signals;
    std::vector<std::int32_t> counts;
    std::vector<double> errors;
    Interrupt interrupt{nullptr};
};

// In long double, without the code of the core: the largest correlation on the support relative to that of the signal with any atom is
// kept, and the error is as the status says.
template <class T>
bool sound(const Case& c, const Pursued<T>& problem, const Codes<T>& codes) {
    const SparsityPattern pattern = codes.pattern(c.p);
    if (pattern.rows() != c.n) return false;
    for (Index r = 0; r < c.n; ++r) {
        const T* x = problem.signals.data() + r * c.m;
        std::vector<long double> residual(x, x + c.m);
        const auto correlation = [&](Index j, const auto& vector) {
            long double sum = 0;
            for (Index f = 0; f < c.m; ++f) sum += (long double)(problem.atoms[std::size_t(j * c.m + f)]) * (long double)(vector[std::size_t(f)]);
            return std::fabs(sum);
        };
        const std::vector<long double> signal(x, x + c.m);
        for (Index i = 0; i < pattern.count(r); ++i)
            for (Index f = 0; f < c.m; ++f)
                residual[std::size_t(f)] -= (long double)(codes.values.data()[pattern.start(r) + i]) *
                                            (long double)(problem.atoms[std::size_t(pattern.support(r)[i] * c.m + f)]);
        long double worst = 0, scale = 0, squares = 0;
        for (Index i = 0; i < pattern.count(r); ++i) worst = std::max(worst, correlation(pattern.support(r)[i], residual));
        for (Index j = 0; j < c.p; ++j) scale = std::max(scale, correlation(j, signal));
        for (const long double value : residual) squares += value * value;
        const std::uint8_t status = codes.status.data()[r];
        if (!(worst <= promised_kkt<T> * scale) || status == std::uint8_t(Status::inexact)) return false;
        if (c.max_error >= 0 && (squares > c.max_error) != (status == unmet_status)) return false;
        if (pattern.count(r) > c.n_nonzero || codes.steps.data()[r] > std::min({Index(c.n_nonzero), c.m, c.p})) return false;
    }
    return true;
}

template <class T>
void test_case(const Case& c) {
    Pursued<T> problem(c);
    const MatchingPursuit<T> pursuit(problem.atoms.data(), c.p, c.m, false, 2, problem.interrupt);
    const PursuitRules rules = {problem.counts, problem.errors};
    Codes<T> codes(false), alone(false);
    const DenseSignals<T> signals = {problem.signals.data(), c.n, c.m, 1};
    pursue(pursuit, signals, rules, codes, 3, problem.interrupt);
    check(sound(c, problem, codes), c.name, type_name<T>);
    pursue(pursuit, signals, rules, alone, 1, problem.interrupt);
    const auto same = [](const auto& a, const auto& b) {
        return a.size() == b.size() && (a.size() == 0 || std::memcmp(a.data(), b.data(), std::size_t(a.size()) * sizeof(*a.data())) == 0);
    };
    check(same(codes.values, alone.values) && same(codes.indices, alone.indices) && same(codes.kkt, alone.kkt),
          "the same bits for every number of threads", type_name<T>);

    std::vector<std::int64_t> indptr = {0};
    std::vector<std::int32_t> indices;
    for (Index r = 0; r < c.n; ++r) {
        for (Index i = 0; i < c.m; ++i) indices.push_back(std::int32_t(i));
        indptr.push_back(std::int64_t(indices.size()));
    }
    const MatchingPursuit<T> of_sparse(problem.atoms.data(), c.p, c.m, true, 1, problem.interrupt);
    Codes<T> sparse(false);
    pursue(of_sparse, SparseSignals<T>{problem.signals, indptr, indices}, rules, sparse, 2, problem.interrupt);
    check(sound(c, problem, sparse), "sparse signals", type_name<T>);
}

template <class T>
void test_cases() {
    test_case<T>({"random", 70, 30, 200, 6});
    test_case<T>({"an error", 70, 30, 200, 30, 3.0});
    test_case<T>({"both rules", 70, 30, 200, 8, 9.0});
    test_case<T>({"an error that few signals meet", 5, 30, 50, 5, 1.0});
    test_case<T>({"ties and dependent atoms", 60, 6, 150, 6, -1, true});
    test_case<T>({"ties and an error of zero", 60, 6, 100, 6, 0.0, true});
    test_case<T>({"more nonzeros than the workspace holds at first", 150, 80, 6, 75});
    test_case<T>({"no Gram matrix", 9000, 12, 30, 5});
    test_case<T>({"no Gram matrix, an error", 9000, 12, 20, 12, 0.5});
    test_case<T>({"no Gram matrix, ties", 9000, 5, 20, 4, -1, true});
    test_case<T>({"no nonzeros", 9, 4, 10, 0});
    test_case<T>({"one feature", 3, 1, 10, 1});
    test_case<T>({"one atom", 1, 17, 10, 1});
    test_case<T>({"no signal", 4, 3, 0, 2});
}

// Atoms over so many magnitudes that only the exact pursuit can represent them.
template <class T>
void test_magnitudes() {
    std::vector<T> atoms = random_numbers<T>(20 * 8, 1), signals = random_numbers<T>(30 * 8, 2);
    for (std::size_t i = 0; i < atoms.size(); i += 8) atoms[i] = std::numeric_limits<T>::min();
    signals[3] = std::numeric_limits<T>::max() / 4;
    signals[8] = 4 * std::numeric_limits<T>::min();
    const std::vector<std::int32_t> counts = {3};
    Interrupt interrupt(nullptr);
    const MatchingPursuit<T> pursuit(atoms.data(), 20, 8, false, 1, interrupt);
    Codes<T> codes(false);
    pursue(pursuit, DenseSignals<T>{signals.data(), 30, 8, 1}, {counts, {}}, codes, 2, interrupt);
    bool good = codes.status.size() == 30;
    for (Index r = 0; r < codes.status.size(); ++r)
        good = good && (codes.status.data()[r] == std::uint8_t(Status::inexact) || codes.kkt.data()[r] <= promised_kkt<T>);
    check(good, "magnitudes", type_name<T>);
}

void test_interrupt(Index p) {
    const std::vector<double> atoms = random_numbers<double>(p * 60, 1), signals = random_numbers<double>(20000 * 60, 2);
    const std::vector<std::int32_t> counts = {30};
    Interrupt patient(nullptr), interrupt([] { return true; });
    const MatchingPursuit<double> pursuit(atoms.data(), p, 60, false, 2, patient);
    Codes<double> codes(false);
    bool stopped = false;
    try {
        pursue(pursuit, DenseSignals<double>{signals.data(), 20000, 60, 1}, {counts, {}}, codes, 2, interrupt);
    } catch (const Interrupted&) {
        stopped = true;
    }
    check(stopped, "interrupt of a pursuit", "double");
}

void test_bad_signal() {
    std::vector<float> atoms = random_numbers<float>(20 * 10, 1), signals = random_numbers<float>(500 * 10, 2);
    signals[321 * 10 + 7] = std::numeric_limits<float>::infinity();
    const std::vector<std::int32_t> counts = {3};
    Interrupt interrupt(nullptr);
    const MatchingPursuit<float> pursuit(atoms.data(), 20, 10, false, 1, interrupt);
    Codes<float> codes(false);
    Index row = -1;
    try {
        pursue(pursuit, DenseSignals<float>{signals.data(), 500, 10, 1}, {counts, {}}, codes, 2, interrupt);
    } catch (const BadSignal& bad) {
        row = bad.row;
    }
    check(row == 321, "bad signal of a pursuit", "float");
}

}  // namespace

void test_pursuit() {
    test_cases<float>();
    test_cases<double>();
    test_magnitudes<float>();
    test_magnitudes<double>();
    test_interrupt(400);
    test_interrupt(9000);
    test_bad_signal();
}

}  // namespace taskdict::tests
