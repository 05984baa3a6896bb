#include "adjoint.hpp"

#include <exception>
#include <mutex>

#include "by_atom.hpp"

namespace taskdict {
namespace {

constexpr Index signal_block = 32;  // signals in a task
constexpr Index atom_block = 32;    // atoms in a task

// Where the factors of each signal start.
std::vector<std::int64_t> starts_of(const Supports& supports) {
    std::vector<std::int64_t> starts(std::size_t(supports.rows) + 1);
    for (Index r = 0; r < supports.rows; ++r) {
        const std::int64_t k = supports.indptr[r + 1] - supports.indptr[r];
        starts[std::size_t(r) + 1] = starts[std::size_t(r)] + k * (k + 1) / 2;
    }
    return starts;
}

constexpr Index lanes = 4;  // sums that grow side by side

// out += factor · S · in for a symmetric matrix S that is given by its lower triangle, row after row.
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

// β_Λ of one signal with k active atoms, from the lower triangle of an inverse that rounding has spoilt a little.
template <class T>
void solve_one(const Encoder<T>& encoder, const std::int32_t* atoms, Index k, const T* inverse, const T* right, T* solution, Scratch<T>& scratch,
               Interrupt& interrupt) {
    std::fill_n(solution, k, T(0));
    if (std::all_of(right, right + k, [](T value) { return value == 0; })) return;
    auto& [matrix, residual, correction] = scratch;
    matrix.resize(std::size_t(k * (k + 1) / 2));
    T* to = matrix.data();
    double top = 0;  // at least the largest entry of M_ΛΛ
    for (Index i = 0; i < k; ++i) {
        const T* row = encoder.gram_row(atoms[i]);
        for (Index j = 0; j <= i; ++j) *to++ = row[atoms[j]];
        top = std::max(top, double(row[atoms[i]]));
    }
    const double epsilon = double(std::numeric_limits<T>::epsilon()), right_size = largest_size(right, k);
    double before = std::numeric_limits<double>::infinity(), off_before = before;
    bool accurate = false;
    for (int round = 0; round < 8; ++round) {
        residual.assign(right, right + k);
        if (round > 0) add_product(matrix.data(), solution, T(-1), k, residual.data());
        const double off = largest_size(residual.data(), k);
        correction.assign(std::size_t(k), T(0));
        add_product(inverse, residual.data(), T(1), k, correction.data());
        for (Index i = 0; i < k; ++i) solution[i] += correction[std::size_t(i)];
        const double moved = largest_size(correction.data(), k), size = largest_size(solution, k);
        // Each round makes the error smaller by the same factor, so this correction tells what is left; so for the residual, in which
        // count directions that are too small in the solution to be seen there.
        const double left = round > 0 ? moved * std::min(1.0, moved / before) : moved;
        const double off_left = round > 0 ? off * std::min(1.0, off / off_before) : off;
        accurate = size > 0 && left <= 4 * epsilon * size && off_left <= 64 * epsilon * (top * size + right_size);
        if (accurate || !(moved <= before / 4)) break;
        before = moved;
        off_before = off;
    }
    if (!accurate) {
        const std::vector<T> exact = encoder.solve(atoms, k, right, interrupt);
        std::copy(exact.begin(), exact.end(), solution);
    }
    const T unit = T(1 / encoder.scale());
    for (Index i = 0; i < k; ++i) solution[i] = solution[i] * unit * unit;
}

// solve_one for the signals from `first` on, `count` of them at most.
template <class T>
void solve_block(const Encoder<T>& encoder, const Supports& supports, const std::vector<std::int64_t>& starts, const T* factors, const T* g, T* beta,
                 Index first, Index count, Scratch<T>& scratch, Interrupt& interrupt) {
    for (Index r = first; r < std::min(supports.rows, first + count); ++r) {
        interrupt.poll();
        const std::int64_t at = supports.indptr[r];
        solve_one(encoder, supports.indices + at, Index(supports.indptr[r + 1] - at), factors + starts[std::size_t(r)], g + at, beta + at, scratch,
                  interrupt);
    }
}

}  // namespace

template <class T>
void solve_adjoint(const Encoder<T>& encoder, const Supports& supports, const T* factors, const T* g, T* beta, int n_threads, Interrupt& interrupt) {
    const std::vector<std::int64_t> starts = starts_of(supports);
    n_threads = worthwhile_threads(n_threads, 2e-3 * double(starts.back()));
    in_threads((supports.rows + signal_block - 1) / signal_block, n_threads, &interrupt, [&](Index b) {
        Scratch<T> scratch;
        solve_block(encoder, supports, starts, factors, g, beta, b * signal_block, signal_block, scratch, interrupt);
    });
    interrupt.poll();
}

template <class T>
void code_gradient(const Encoder<T>& encoder, const Supports& supports, const CodeGradient<T>& task, int n_threads, Interrupt& interrupt) {
    const std::vector<std::int64_t> starts = starts_of(supports);
    const Index n = supports.rows, m = encoder.features(), p = supports.atoms, nonzeros = Index(supports.indptr[n]);
    std::vector<T> minus(static_cast<std::size_t>(nonzeros)), beta(minus.size());
    for (Index i = 0; i < nonzeros; ++i) minus[std::size_t(i)] = -task.alpha[i];
    const auto& kernels = instruction_set().kernels<T>();
    const Index width = kernels.slice_width;
    const double work = 2e-3 * double(starts.back()) + 1e-4 * double(m) * double(4 * nonzeros + 4 * n + p);
    std::mutex mutex;
    std::exception_ptr error;
    with_team(worthwhile_threads(n_threads, work), &interrupt, [&](Team& team) {
        team.loop((n + signal_block - 1) / signal_block, [&](Index b) {
            const Index first = b * signal_block, end = std::min(n, first + signal_block);
            try {
                Scratch<T> scratch;
                solve_block(encoder, supports, starts, task.factors, task.g, beta.data(), first, signal_block, scratch, interrupt);
            } catch (...) {  // no memory, or an interrupt; tasks of a team must not throw
                const std::lock_guard lock(mutex);
                error = std::current_exception();
            }
            for (Index at = 0; at < m; at += width)  // a slice of all atoms stays in the second-level cache
                for (Index r = first; r < end; ++r) {
                    const std::int64_t start = supports.indptr[r];
                    const Index count = Index(supports.indptr[r + 1] - start), length = std::min(width, m - at);
                    T *const residual = task.both + r * m + at, *const in_x = task.both + (n + r) * m + at;
                    kernels.add_slices(task.atoms + at, m, supports.indices + start, minus.data() + start, count, length, T(1), task.x + r * m + at,
                                       residual);
                    kernels.add_slices(task.atoms + at, m, supports.indices + start, beta.data() + start, count, length, task.reconstruction,
                                       residual, in_x);
                }
        });
        if (error) std::rethrow_exception(error);
        if (interrupt.stopped()) throw Interrupted{};
        // Each nonzero adds its share of a residual and of an ∇x: two rows of `both`.
        const ByAtom by_atom(supports);
        std::vector<std::int32_t> rows(2 * minus.size());
        std::vector<T> weights(2 * minus.size());
        for (Index i = 0; i < nonzeros; ++i) {
            const auto at = std::size_t(i), place = std::size_t(by_atom.places[at]);
            rows[2 * at] = by_atom.rows[at];
            weights[2 * at] = beta[place];
            rows[2 * at + 1] = std::int32_t(n) + by_atom.rows[at];
            weights[2 * at + 1] = minus[place];
        }
        const Index slices = (m + width - 1) / width, blocks = (p + atom_block - 1) / atom_block;
        team.loop(slices * blocks, [&](Index i) {
            const Index at = i / blocks * width, first = i % blocks * atom_block;
            for (Index j = first; j < std::min(p, first + atom_block); ++j) {
                const Index start = 2 * by_atom.starts[std::size_t(j)], count = 2 * by_atom.starts[std::size_t(j) + 1] - start;
                T* const out = task.in_atoms + j * m + at;
                kernels.add_slices(task.both + at, m, rows.data() + start, weights.data() + start, count, std::min(width, m - at), T(0), out, out);
            }
        });
    });
}

#define TASKDICT_INSTANTIATE(T)                                                                                  \
    template void solve_adjoint<T>(const Encoder<T>&, const Supports&, const T*, const T*, T*, int, Interrupt&); \
    template void code_gradient<T>(const Encoder<T>&, const Supports&, const CodeGradient<T>&, int, Interrupt&);

TASKDICT_INSTANTIATE(float)
TASKDICT_INSTANTIATE(double)

}  // namespace taskdict
