// Coverage-guided fuzzing of the core: bytes become a small problem, dense and sparse, whose codes are checked against Lemma 1
// in quadruple precision, whatever certificate they come with; then the adjoint and the gradients.
//
// With clang, libFuzzer drives it. Without, main() reads files, so that the corpus can be replayed under any compiler.
// A broken promise is printed, and aborts the program.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <vector>

#include "batch/encode.hpp"
#include "learn/adjoint.hpp"

using namespace taskdict;

namespace {

#ifdef __SIZEOF_FLOAT128__
using Wide = __float128;
#else
using Wide = long double;
#endif

Wide magnitude(Wide value) {
    return value < 0 ? -value : value;
}

[[noreturn]] void broken(const char* what, double value = 0) {
    std::fprintf(stderr, "broken: %s (%g)\n", what, value);
    std::abort();
}

// Numbers from bytes; after the last byte they come from a generator, so that short inputs make whole problems.
class Source {
  public:
    Source(const std::uint8_t* data, std::size_t size) : data_(data), size_(size), state_(size * 2654435761u + 1) {}

    std::uint8_t byte() {
        if (place_ < size_) return data_[place_++];
        state_ = state_ * 6364136223846793005u + 1442695040888963407u;
        return std::uint8_t(state_ >> 56);
    }

    Index in(Index low, Index high) { return low + byte() % (high - low + 1); }

    // Whole numbers, fractions, or the bytes of a number as they are.
    template <class T>
    T number(int form) {
        if (form == 0) return T(int(byte() % 5) - 2);
        if (form == 1) return T(std::int8_t(byte())) / 16;
        if (form == 2) {
            const int digits = byte();
            const T value = T(std::ldexp(1 + digits / 256.0, int(std::int8_t(byte())) / (sizeof(T) == 4 ? 8 : 1)));
            return digits % 2 ? -value : value;
        }
        T value;
        std::uint8_t bytes[sizeof(T)];
        for (std::uint8_t& each : bytes) each = byte();
        std::memcpy(&value, bytes, sizeof(T));
        return std::isfinite(value) ? value : T(0);
    }

  private:
    const std::uint8_t* data_;
    std::size_t size_, place_ = 0;
    std::uint64_t state_;
};

template <class T>
struct Task {
    Index m, p, n;
    Parameters parameters;
    bool modest;  // numbers that neither over- nor underflow
    std::vector<T> atoms, signals;
};

// The violation of Lemma 1 relative to max(λ1, ‖Dᵀx‖∞).
template <class T>
double violation(const Task<T>& task, const T* x, const std::int32_t* active, const T* alpha, Index k) {
    const Index m = task.m;
    std::vector<Wide> residual(x, x + m), code(std::size_t(task.p), Wide(0));
    for (Index i = 0; i < k; ++i) {
        code[std::size_t(active[i])] = alpha[i];
        for (Index f = 0; f < m; ++f) residual[std::size_t(f)] -= Wide(alpha[i]) * Wide(task.atoms[std::size_t(active[i] * m + f)]);
    }
    const Wide lambda1 = task.parameters.lambda1;
    Wide worst = 0, scale = lambda1;
    for (Index j = 0; j < task.p; ++j) {
        const Wide own = code[std::size_t(j)];
        Wide rho = -Wide(task.parameters.lambda2) * own, product = 0;
        for (Index f = 0; f < m; ++f) {
            const Wide entry = task.atoms[std::size_t(j * m + f)];
            rho += entry * residual[std::size_t(f)];
            product += entry * Wide(x[f]);
        }
        scale = std::max(scale, magnitude(product));
        if (own != 0)
            worst = std::max(worst, magnitude(rho - (own > 0 ? lambda1 : -lambda1)));
        else
            worst = std::max(worst, (task.parameters.positive ? rho : magnitude(rho)) - lambda1);
    }
    if (worst == 0) return 0;
    return scale == 0 ? std::numeric_limits<double>::infinity() : double(worst / scale);
}

template <class T>
void check_codes(const Task<T>& task, const Codes<T>& codes) {
    if (codes.status.size() != task.n) broken("one state per signal", double(codes.status.size()));
    for (Index r = 0; r < task.n; ++r) {
        const std::int64_t start = codes.indptr.data()[r], end = codes.indptr.data()[r + 1];
        const bool inexact = codes.status.data()[r] == std::uint8_t(Status::inexact);
        for (std::int64_t i = start; i < end; ++i) {
            const std::int32_t atom = codes.indices.data()[i];
            const T value = codes.values.data()[i];
            if (atom < 0 || atom >= task.p || (i > start && atom <= codes.indices.data()[i - 1])) broken("ascending indices", atom);
            if (value == 0 || std::isnan(value) || (std::isinf(value) && !inexact)) broken("a coefficient", double(value));
            if (task.parameters.positive && value < 0) broken("no negative coefficients", double(value));
        }
        const double said = double(codes.kkt.data()[r]);
        if (std::isnan(said)) broken("kkt is a number");
        if (inexact) continue;
        const double kkt =
            violation(task, task.signals.data() + r * task.m, codes.indices.data() + start, codes.values.data() + start, Index(end - start));
        if (!(kkt <= promised_kkt<T>)) broken("Lemma 1", kkt);
        if (!(T(said) <= T(promised_kkt<T>))) broken("a reported kkt above the promise, not marked", said);
    }
}

template <class T>
bool same(const Growing<T>& a, const Growing<T>& b, Index from, Index count) {
    return count == 0 || std::memcmp(a.data() + from, b.data(), std::size_t(count) * sizeof(T)) == 0;
}

// The codes of some signals are those that they have among all: same bits.
template <class T>
void check_same(const Codes<T>& all, const Codes<T>& some, Index first, Index rows, const char* what) {
    const std::int64_t start = all.indptr.data()[first], nonzeros = all.indptr.data()[first + rows] - start;
    if (some.indices.size() != nonzeros || !same(all.indices, some.indices, start, nonzeros) || !same(all.values, some.values, start, nonzeros) ||
        !same(all.status, some.status, first, rows) || !same(all.kkt, some.kkt, first, rows))
        broken(what);
}

template <class T>
void check_adjoint(const Task<T>& task, const Encoder<T>& encoder, const Codes<T>& codes, Source& source, Interrupt& interrupt) {
    const SparsityPattern pattern = codes.pattern(task.p);
    std::vector<T> g(std::size_t(codes.indices.size())), beta(g.size());
    for (T& value : g) value = source.number<T>(1);
    solve_adjoint(encoder, pattern, codes.factors.span(), g, beta, 1, interrupt);
    std::vector<T> both(std::size_t(2 * task.n * task.m)), gradient(std::size_t(task.p * task.m)), other(gradient.size());
    for (const int n_threads : {1, 3})
        code_gradient<T>(encoder, pattern,
                         {codes.values.span(),
                          codes.factors.span(),
                          g,
                          {task.atoms.data(), task.p, task.m},
                          {task.signals.data(), task.n, task.m},
                          T(0.25),
                          {both.data(), 2 * task.n, task.m},
                          {n_threads == 1 ? gradient.data() : other.data(), task.p, task.m}},
                         n_threads, interrupt);
    if (std::memcmp(gradient.data(), other.data(), gradient.size() * sizeof(T)) != 0) broken("gradients do not depend on threads");
    if (!task.modest) return;
    // M (M β − g) = 0, whether M is singular or not.
    for (Index r = 0; r < task.n; ++r) {
        const Index start = pattern.start(r), k = pattern.count(r);
        if (codes.status.data()[r] == std::uint8_t(Status::inexact)) continue;
        std::vector<Wide> gram(std::size_t(k * k)), residual(static_cast<std::size_t>(k));
        Wide size = 0, top = 0;
        for (Index i = 0; i < k; ++i) {
            Wide row = 0;
            for (Index j = 0; j < k; ++j) {
                Wide sum = i == j ? Wide(task.parameters.lambda2) : Wide(0);
                for (Index f = 0; f < task.m; ++f)
                    sum += Wide(task.atoms[std::size_t(pattern.support(r)[i] * task.m + f)]) *
                           Wide(task.atoms[std::size_t(pattern.support(r)[j] * task.m + f)]);
                gram[std::size_t(i * k + j)] = sum;
                row += magnitude(sum);
            }
            size = std::max(size, row);
        }
        for (Index i = 0; i < k; ++i) {
            if (!std::isfinite(beta[std::size_t(start + i)])) broken("the adjoint is finite", double(beta[std::size_t(start + i)]));
            Wide sum = -Wide(g[std::size_t(start + i)]);
            for (Index j = 0; j < k; ++j) sum += gram[std::size_t(i * k + j)] * Wide(beta[std::size_t(start + j)]);
            residual[std::size_t(i)] = sum;
            top = std::max(top, std::max(magnitude(Wide(g[std::size_t(start + i)])), size * magnitude(Wide(beta[std::size_t(start + i)]))));
        }
        for (Index i = 0; i < k; ++i) {
            Wide sum = 0;
            for (Index j = 0; j < k; ++j) sum += gram[std::size_t(i * k + j)] * residual[std::size_t(j)];
            if (!(magnitude(sum) <= Wide(sizeof(T) == 4 ? 1e-3 : 1e-9) * size * top)) broken("the adjoint", double(magnitude(sum) / (size * top)));
        }
    }
}

double penalty(Source& source, double unit) {
    const int kind = source.byte();
    if (kind < 64) return 0;
    if (kind < 96) return unit;
    if (kind < 160) return unit * (1 - std::ldexp(1.0, -1 - source.byte() % 53));
    if (kind < 224) return unit * std::ldexp(1.0, -int(source.byte() % 40));
    return unit * (1 + std::ldexp(1.0, -source.byte() % 53));
}

template <class T>
void run(Source& source) {
    Task<T> task;
    const int flags = source.byte(), forms = source.byte();
    task.m = source.in(1, flags & 16 ? 40 : 9);
    task.p = source.in(1, flags & 32 ? 60 : 14);
    task.n = source.in(1, 6);
    const int of_atoms = forms % 8 == 7 ? 3 : forms % 8 / 2, of_signals = forms / 8 % 8 == 7 ? 3 : forms / 8 % 8 / 2;
    task.modest = of_atoms < 2 && of_signals < 2;
    for (Index i = 0; i < task.p * task.m; ++i) task.atoms.push_back(source.number<T>(of_atoms));
    for (Index i = 0; i < task.n * task.m; ++i) task.signals.push_back(source.number<T>(of_signals));
    // λ1 near the largest product of the first signal, where codes begin to be zero; λ2 near an atom's square.
    double top = 0, square = 0;
    for (Index j = 0; j < task.p; ++j) {
        double product = 0, norm = 0;
        for (Index f = 0; f < task.m; ++f) {
            const double entry = double(task.atoms[std::size_t(j * task.m + f)]);
            product += entry * double(task.signals[std::size_t(f)]);
            norm += entry * entry;
        }
        top = std::max(top, std::fabs(product));
        square = std::max(square, norm);
    }
    const auto bounded = [](double value) { return std::isfinite(value) ? std::min(value, 1e300) : 1.0; };
    task.parameters = {bounded(penalty(source, bounded(top))), flags & 64 ? bounded(penalty(source, bounded(square))) : 0.0, (flags & 4) != 0,
                       flags & 2 ? Method::homotopy : Method::active_set};

    Interrupt interrupt(nullptr);
    const Encoder<T> encoder(task.atoms.data(), task.p, task.m, task.parameters, false, 1, interrupt);
    const Goals goals = {Rule::penalty, &task.parameters.lambda1, 1};
    Codes<T> codes(true), in_threads(true);
    encode(encoder, DenseSignals<T>{task.signals.data(), task.n, task.m, 1}, goals, codes, 1, interrupt);
    check_codes(task, codes);
    encode(encoder, DenseSignals<T>{task.signals.data(), task.n, task.m, 1}, goals, in_threads, 3, interrupt);
    check_same(codes, in_threads, 0, task.n, "codes do not depend on threads");
    for (Index r = 0; r < task.n; ++r) {
        Codes<T> alone(true);
        encode(encoder, DenseSignals<T>{task.signals.data() + r * task.m, 1, task.m, 1}, goals, alone, 1, interrupt);
        check_same(codes, alone, r, 1, "codes do not depend on other signals");
    }

    std::vector<T> values;
    std::vector<std::int64_t> indptr = {0};
    std::vector<std::int32_t> indices;
    for (Index r = 0; r < task.n; ++r) {
        for (Index f = 0; f < task.m; ++f) {
            const T value = task.signals[std::size_t(r * task.m + f)];
            if (value == 0 && !(flags & 8)) continue;  // a stored zero is no harm
            values.push_back(value);
            indices.push_back(std::int32_t(f));
        }
        indptr.push_back(std::int64_t(indices.size()));
    }
    const Encoder<T> sparse(task.atoms.data(), task.p, task.m, task.parameters, true, 1, interrupt);
    Codes<T> of_sparse(false);
    encode(sparse, SparseSignals<T>{values, indptr, indices}, goals, of_sparse, 2, interrupt);
    check_codes(task, of_sparse);

    check_adjoint(task, encoder, codes, source, interrupt);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Source source(data, size);
    if (source.byte() % 2)
        run<double>(source);
    else
        run<float>(source);
    return 0;
}

#ifndef TASKDICT_LIBFUZZER
int main(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
        std::ifstream file(argv[i], std::ios::binary);
        if (!file) {
            std::fprintf(stderr, "%s cannot be read\n", argv[i]);
            return 2;
        }
        const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
        LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    }
    std::printf("%s: %d inputs, no promise broken\n", instruction_set().name, argc - 1);
    return 0;
}
#endif
