#include "direct/direct_encoder.hpp"
#include "learn/adjoint.hpp"
#include "problems.hpp"

namespace taskdict::tests {
namespace {

// Lemma 1 in long double, without the code of the core.
template <class T>
long double violation(const Encoded<T>& encoded, const Codes<T>& codes, Index r) {
    const auto& [unused, lambda2, positive, method] = encoded.c.parameters;
    const double lambda1 = codes.lambda1.data()[r];
    const SparsityPattern pattern = codes.pattern(encoded.c.p);
    const Index m = encoded.c.m;
    std::vector<long double> residual(encoded.signal(r), encoded.signal(r) + m), code(std::size_t(encoded.c.p), 0.0L);
    for (Index i = 0; i < pattern.count(r); ++i) {
        const Index atom = pattern.support(r)[i];
        const long double value = codes.values.data()[pattern.start(r) + i];
        code[std::size_t(atom)] = value;
        for (Index f = 0; f < m; ++f) residual[std::size_t(f)] -= value * (long double)(encoded.atom(atom)[f]);
    }
    long double worst = 0, scale = lambda1;
    for (Index j = 0; j < encoded.c.p; ++j) {
        const long double own = code[std::size_t(j)];
        long double rho = -lambda2 * own, correlation = 0;
        for (Index f = 0; f < m; ++f) {
            rho += (long double)(encoded.atom(j)[f]) * residual[std::size_t(f)];
            correlation += (long double)(encoded.atom(j)[f]) * (long double)(encoded.signal(r)[f]);
        }
        scale = std::max(scale, std::fabs(correlation));
        if (positive && own < 0) return INFINITY;
        const long double at_zero = (positive ? rho : std::fabs(rho)) - lambda1;
        worst = std::max(worst, own != 0 ? std::fabs(rho - (own > 0 ? lambda1 : -lambda1)) : at_zero);
    }
    return scale > 0 ? worst / scale : worst;
}

template <class T>
bool optimal(const Encoded<T>& encoded, const Codes<T>& codes) {
    if (codes.status.size() != encoded.c.n) return false;
    for (Index r = 0; r < encoded.c.n; ++r)
        if (!(violation(encoded, codes, r) <= promised_kkt<T>) || codes.status.data()[r] == std::uint8_t(Status::inexact)) return false;
    return true;
}

// Whether a code is where a rule wants it, in long double.
template <class T>
bool fulfils(const Encoded<T>& encoded, const Codes<T>& codes, Index r, const Goal& goal) {
    const SparsityPattern pattern = codes.pattern(encoded.c.p);
    const Index m = encoded.c.m, k = pattern.count(r);
    std::vector<long double> residual(encoded.signal(r), encoded.signal(r) + m);
    long double l1 = 0, squares = 0, error = 0;
    for (Index i = 0; i < k; ++i) {
        const long double value = codes.values.data()[pattern.start(r) + i];
        l1 += std::fabs(value);
        for (Index f = 0; f < m; ++f) residual[std::size_t(f)] -= value * (long double)(encoded.atom(pattern.support(r)[i])[f]);
    }
    for (Index f = 0; f < m; ++f) {
        squares += (long double)(encoded.signal(r)[f]) * (long double)(encoded.signal(r)[f]);
        error += residual[std::size_t(f)] * residual[std::size_t(f)];
    }
    const long double promise = promised_kkt<T>;
    const bool at_end = codes.lambda1.data()[r] <= 1e-12;
    if (goal.rule == Rule::n_nonzero) return k <= Index(goal.amount);
    if (goal.rule == Rule::max_l1) return l1 <= goal.amount * (1 + promise) && (at_end || l1 >= goal.amount * (1 - promise));
    if (codes.status.data()[r] == std::uint8_t(Status::unmet)) return codes.lambda1.data()[r] == 0 && error > goal.amount;
    return std::fabs(error - goal.amount) <= promise * squares || (k == 0 && error <= goal.amount);
}

template <class T>
void test_rules(const Encoded<T>& encoded) {
    const Case& c = encoded.c;
    Interrupt interrupt(nullptr);
    for (const Goal goal : {Goal{Rule::n_nonzero, double(std::min<Index>(3, c.p))}, Goal{Rule::max_error, 0.3 * double(c.m)},
                            Goal{Rule::max_error, 0}, Goal{Rule::max_l1, 0.7}, Goal{Rule::max_l1, 1e6}}) {
        const std::vector<double> amounts(std::size_t(c.n), goal.amount);
        Codes<T> codes(true), same(false);
        const DenseSignals<T> signals = {encoded.signals.data(), c.n, c.m, 1};
        encode(encoded.encoder, signals, {goal.rule, amounts.data(), 1}, codes, 3, interrupt);
        encode(encoded.encoder, signals, {goal.rule, amounts.data(), c.n}, same, 1, interrupt);
        bool met = optimal(encoded, codes) && codes.values.size() == same.values.size();
        for (Index r = 0; r < c.n; ++r) met = met && fulfils(encoded, codes, r, goal);
        for (Index i = 0; met && i < codes.values.size(); ++i) met = codes.values.data()[i] == same.values.data()[i];
        check(met, c.name, goal.rule == Rule::n_nonzero ? "n_nonzero" : goal.rule == Rule::max_error ? "max_error" : "max_l1");
    }
}

template <class T>
void test_case(const Case& c) {
    Encoded<T> encoded(c);
    check(optimal(encoded, encoded.codes), c.name, type_name<T>);
    test_rules(encoded);

    // The certificate of the core against Lemma 1, for a code that is wrong.
    if (encoded.codes.values.size() > 0) {
        const Index k = encoded.codes.pattern(c.p).count(0);
        std::vector<T> wrong(encoded.codes.values.data(), encoded.codes.values.data() + k);
        for (T& value : wrong) value *= T(1.01);
        const Problem<T> problem = {encoded.atoms.data(), c.p, c.m, encoded.signal(0), c.parameters.lambda1, c.parameters.lambda2,
                                    c.parameters.positive};
        const Certificate certificate = certify(problem, {encoded.codes.indices.data(), wrong.size()}, wrong);
        std::copy(wrong.begin(), wrong.end(), encoded.codes.values.data());
        const double expected = double(violation(encoded, encoded.codes, 0));
        check(std::fabs(certificate.kkt - expected) <= 1e-6 * expected + certificate.bound, "certificate of a wrong code", type_name<T>);
        check(k == 0 || expected > promised_kkt<T>, "a wrong code violates Lemma 1", type_name<T>);
    }

    // The same signals as compressed rows.
    std::vector<std::int64_t> indptr = {0};
    std::vector<std::int32_t> indices;
    for (Index r = 0; r < c.n; ++r) {
        for (Index i = 0; i < c.m; ++i) indices.push_back(std::int32_t(i));
        indptr.push_back(std::int64_t(indices.size()));
    }
    const Encoder<T> sparse_encoder(encoded.atoms.data(), c.p, c.m, c.parameters, true, 1, encoded.interrupt);
    Codes<T> sparse_codes(false);
    encode(sparse_encoder, SparseSignals<T>{encoded.signals, indptr, indices}, penalty(c.parameters), sparse_codes, 2, encoded.interrupt);
    check(optimal(encoded, sparse_codes), "sparse signals", type_name<T>);

    // Without a Gram matrix.
    const DirectEncoder<T> direct(encoded.atoms.data(), c.p, c.m, c.parameters);
    Codes<T> direct_codes(true), of_sparse(false);
    encode(direct, DenseSignals<T>{encoded.signals.data(), c.n, c.m, 1}, penalty(c.parameters), direct_codes, 2, encoded.interrupt);
    encode(direct, SparseSignals<T>{encoded.signals, indptr, indices}, penalty(c.parameters), of_sparse, 1, encoded.interrupt);
    check(optimal(encoded, direct_codes), "without a Gram matrix", c.name);
    check(optimal(encoded, of_sparse), "sparse signals without a Gram matrix", c.name);
    check(direct_codes.factors.size() == factor_entries(direct_codes.pattern(c.p)), "factors without a Gram matrix", c.name);
}

// The tasks of a Gram matrix write next to each other, and the product has several slices of features.
template <class T>
void test_threads() {
    const Index p = 400, m = 300;
    const std::vector<T> atoms = random_numbers<T>(p * m, 1);
    Interrupt interrupt(nullptr);
    const Parameters parameters = {0.1, 0.0, false, Method::active_set};
    const Encoder<T> alone(atoms.data(), p, m, parameters, false, 1, interrupt);
    bool same = true;
    for (int round = 0; round < 20; ++round) {
        const Encoder<T> together(atoms.data(), p, m, parameters, false, 4, interrupt);
        for (Index j = 0; j < p; ++j) same = same && std::equal(alone.gram_row(j), alone.gram_row(j) + p, together.gram_row(j));
    }
    check(same, "Gram matrix of several threads", type_name<T>);
}

void test_interrupt() {
    const std::vector<double> atoms = random_numbers<double>(400 * 100, 1), signals = random_numbers<double>(20000 * 100, 2);
    Interrupt patient(nullptr), interrupt([] { return true; });
    const Encoder<double> encoder(atoms.data(), 400, 100, {0.01, 0.1, false, Method::active_set}, false, 1, patient);
    Codes<double> codes(false);
    bool stopped = false;
    try {
        encode(encoder, DenseSignals<double>{signals.data(), 20000, 100, 1}, penalty(encoder.parameters()), codes, 2, interrupt);
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
        encode(encoder, DenseSignals<float>{signals.data(), 500, 10, 1}, penalty(encoder.parameters()), codes, 2, interrupt);
    } catch (const BadSignal& bad) {
        row = bad.row;
    }
    check(row == 321, "bad signal", "float");
}

}  // namespace

void test_coding() {
    for_cases(test_case<float>);
    for_cases(test_case<double>);
    test_threads<float>();
    test_threads<double>();
    test_interrupt();
    test_bad_signal();
}

}  // namespace taskdict::tests
