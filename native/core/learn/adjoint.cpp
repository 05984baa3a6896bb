#include "learn/adjoint.hpp"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <mutex>

#include "batch/by_atom.hpp"
#include "simd/kernels.hpp"
#include "system/cost_model.hpp"
#include "system/threads.hpp"

namespace taskdict {
namespace {

constexpr Index signal_block = 32;  // signals in a task
constexpr Index atom_block = 32;    // atoms in a task
constexpr int max_corrections = 8;

constexpr Index triangle(Index k) {
    return k * (k + 1) / 2;
}

// The start of the factors of each signal.
std::vector<Index> factor_starts(const SparsityPattern& pattern) {
    std::vector<Index> starts(pattern.indptr.size());
    for (Index r = 0; r < pattern.rows(); ++r) starts[std::size_t(r) + 1] = starts[std::size_t(r)] + triangle(pattern.count(r));
    return starts;
}

constexpr Index lanes = 4;  // sums that grow side by side

// out += factor · S · in for a symmetric matrix S, given by its lower triangle row after row.
template <class T>
void add_product(const T* __restrict lower, const T* __restrict in, T factor, Index k, T* __restrict out) {
    for (Index i = 0; i < k; ++i) {
        const T weight = factor * in[i];
        T sums[lanes] = {};
        Index j = 0;
        for (; j + lanes <= i; j += lanes)
            for (Index l = 0; l < lanes; ++l) {
                sums[l] += lower[j + l] * in[j + l];
                out[j + l] += lower[j + l] * weight;
            }
        for (; j < i; ++j) {
            sums[0] += lower[j] * in[j];
            out[j] += lower[j] * weight;
        }
        out[i] += factor * ((sums[0] + sums[1]) + (sums[2] + sums[3])) + lower[i] * weight;
        lower += i + 1;
    }
}

template <class T>
double largest_size(const T* values, Index k) {
    double size = 0;
    for (Index i = 0; i < k; ++i) size = std::max(size, std::fabs(double(values[i])));
    return size;
}

// The memory of solve_one.
template <class T>
struct Scratch {
    std::vector<T> matrix, residual, correction;
};

// β_Λ of one signal, from the lower triangle of an inverse with some rounding errors.
template <class T>
void solve_one(const Prepared<T>& encoder, std::span<const std::int32_t> atoms, const T* inverse, std::span<const T> right, T* solution,
               Scratch<T>& scratch, Interrupt& interrupt) {
    const Index k = Index(atoms.size());
    std::fill_n(solution, k, T(0));
    if (std::all_of(right.begin(), right.end(), [](T value) { return value == 0; })) return;
    auto& [matrix, residual, correction] = scratch;
    matrix.resize(std::size_t(triangle(k)));
    encoder.gram_triangle(atoms, matrix.data());
    double top = 0;  // at least the largest entry of M_ΛΛ
    for (Index i = 0; i < k; ++i) top = std::max(top, double(matrix[std::size_t(triangle(i + 1) - 1)]));
    const double epsilon = double(std::numeric_limits<T>::epsilon()), right_size = largest_size(right.data(), k);
    double before = std::numeric_limits<double>::infinity(), off_before = before;
    bool accurate = false;
    for (int round = 0; round < max_corrections; ++round) {
        residual.assign(right.begin(), right.end());
        if (round > 0) add_product(matrix.data(), solution, T(-1), k, residual.data());
        const double off = largest_size(residual.data(), k);
        correction.assign(std::size_t(k), T(0));
        add_product(inverse, residual.data(), T(1), k, correction.data());
        for (Index i = 0; i < k; ++i) solution[i] += correction[std::size_t(i)];
        const double moved = largest_size(correction.data(), k), size = largest_size(solution, k);
        // Each round reduces the error by the same factor, so the last two corrections give an estimate of the remaining error. The
        // same holds for the residual, which also sees directions that are too small in the solution to show in the corrections.
        const double left = round > 0 ? moved * std::min(1.0, moved / before) : moved;
        const double off_left = round > 0 ? off * std::min(1.0, off / off_before) : off;
        accurate = size > 0 && left <= 4 * epsilon * size && off_left <= 64 * epsilon * (top * size + right_size);
        if (accurate || !(moved <= before / 4)) break;
        before = moved;
        off_before = off;
    }
    if (!accurate) {
        const std::vector<T> exact = encoder.solve(atoms, right, interrupt);
        std::copy(exact.begin(), exact.end(), solution);
    }
    const T unit = T(1 / encoder.scale());
    for (Index i = 0; i < k; ++i) solution[i] = solution[i] * unit * unit;
}

// The adjoint of a batch, block by block.
template <class T>
class Adjoint {
  public:
    Adjoint(const Prepared<T>& encoder, const SparsityPattern& pattern, Numbers<T> factors, Numbers<T> g, T* beta)
        : encoder_(encoder), pattern_(pattern), starts_(factor_starts(pattern)), factors_(factors), g_(g), beta_(beta) {}

    Index blocks() const { return (pattern_.rows() + signal_block - 1) / signal_block; }
    double microseconds() const { return cost::per_factor_entry * double(starts_.back()); }

    void solve_block(Index block, Interrupt& interrupt) const {
        Scratch<T> scratch;
        for (Index r = block * signal_block; r < std::min(pattern_.rows(), (block + 1) * signal_block); ++r) {
            interrupt.poll();
            const auto start = std::size_t(pattern_.start(r)), count = std::size_t(pattern_.count(r));
            solve_one<T>(encoder_, pattern_.indices.subspan(start, count), factors_.data() + starts_[std::size_t(r)], g_.subspan(start, count),
                         beta_ + start, scratch, interrupt);
        }
    }

  private:
    const Prepared<T>& encoder_;
    const SparsityPattern& pattern_;
    std::vector<Index> starts_;
    Numbers<T> factors_, g_;
    T* beta_;
};

}  // namespace

Index factor_entries(const SparsityPattern& pattern) {
    Index entries = 0;
    for (Index r = 0; r < pattern.rows(); ++r) entries += triangle(pattern.count(r));
    return entries;
}

template <class T>
void solve_adjoint(const Prepared<T>& encoder, const SparsityPattern& pattern, Numbers<T> factors, Numbers<T> g,
                   std::span<std::type_identity_t<T>> beta, int n_threads, Interrupt& interrupt) {
    const Adjoint<T> adjoint(encoder, pattern, factors, g, beta.data());
    n_threads = worthwhile_threads(n_threads, adjoint.microseconds());
    in_threads(adjoint.blocks(), n_threads, &interrupt, [&](Index b) { adjoint.solve_block(b, interrupt); });
    interrupt.poll();
}

template <class T>
void code_gradient(const Prepared<T>& encoder, const SparsityPattern& pattern, const CodeGradient<T>& gradient, int n_threads, Interrupt& interrupt) {
    const Index n = pattern.rows(), m = encoder.features(), p = pattern.atoms, nonzeros = pattern.nonzeros();
    std::vector<T> minus(static_cast<std::size_t>(nonzeros)), beta(minus.size());
    for (std::size_t i = 0; i < minus.size(); ++i) minus[i] = -gradient.alpha[i];
    const Adjoint<T> adjoint(encoder, pattern, gradient.factors, gradient.g, beta.data());
    const auto& kernels = instruction_set().kernels<T>();
    const Index width = kernels.slice_width;
    const double work = adjoint.microseconds() + cost::per_row_feature * double(m) * double(4 * nonzeros + 4 * n + p);
    std::mutex mutex;
    std::exception_ptr error;
    with_team(worthwhile_threads(n_threads, work), &interrupt, [&](Team& team) {
        team.loop(adjoint.blocks(), [&](Index b) {
            try {
                adjoint.solve_block(b, interrupt);
            } catch (...) {  // no memory, or an interrupt; tasks of a team must not throw
                const std::lock_guard lock(mutex);
                error = std::current_exception();
            }
            const Index first = b * signal_block, end = std::min(n, first + signal_block);
            for (Index at = 0; at < m; at += width)  // a slice of all atoms stays in the second-level cache
                for (Index r = first; r < end; ++r) {
                    const Index start = pattern.start(r), length = std::min(width, m - at);
                    T *const residual = gradient.both.row(r) + at, *const in_x = gradient.both.row(n + r) + at;
                    RowSum<T> sum = {gradient.atoms.data + at, m, pattern.support(r), minus.data() + start, pattern.count(r)};
                    kernels.add_slices(sum, length, T(1), gradient.x.row(r) + at, residual);
                    sum.weights = beta.data() + start;
                    kernels.add_slices(sum, length, gradient.reconstruction, residual, in_x);
                }
        });
        if (error) std::rethrow_exception(error);
        if (interrupt.stopped()) throw Interrupted{};
        // Each nonzero adds its share of a residual and of an ∇x: two rows of `both`.
        const ByAtom by_atom(pattern);
        std::vector<std::int32_t> rows(2 * minus.size());
        std::vector<T> weights(2 * minus.size());
        for (std::size_t i = 0; i < minus.size(); ++i) {
            const auto place = std::size_t(by_atom.places[i]);
            rows[2 * i] = by_atom.rows[i];
            weights[2 * i] = beta[place];
            rows[2 * i + 1] = std::int32_t(n) + by_atom.rows[i];
            weights[2 * i + 1] = minus[place];
        }
        const Index slices = (m + width - 1) / width, blocks = (p + atom_block - 1) / atom_block;
        team.loop(slices * blocks, [&](Index i) {
            const Index at = i / blocks * width, first = i % blocks * atom_block;
            for (Index j = first; j < std::min(p, first + atom_block); ++j) {
                const Index start = 2 * by_atom.starts[std::size_t(j)], count = 2 * by_atom.starts[std::size_t(j) + 1] - start;
                T* const out = gradient.in_atoms.row(j) + at;
                const RowSum<T> sum = {gradient.both.data + at, m, rows.data() + start, weights.data() + start, count};
                kernels.add_slices(sum, std::min(width, m - at), T(0), out, out);
            }
        });
    });
}

#define TASKDICT_INSTANTIATE(T)                                                                                                        \
    template void solve_adjoint<T>(const Prepared<T>&, const SparsityPattern&, Numbers<T>, Numbers<T>, std::span<T>, int, Interrupt&); \
    template void code_gradient<T>(const Prepared<T>&, const SparsityPattern&, const CodeGradient<T>&, int, Interrupt&);

TASKDICT_INSTANTIATE(float)
TASKDICT_INSTANTIATE(double)

}  // namespace taskdict
