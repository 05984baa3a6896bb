#include "learn/sums.hpp"

#include <algorithm>

#include "batch/by_atom.hpp"
#include "norms.hpp"
#include "simd/kernels.hpp"
#include "system/cost_model.hpp"
#include "system/threads.hpp"

namespace taskdict {
namespace {

constexpr Index atom_block = 32;       // atoms in a task
constexpr Index signal_block = 32;     // signals in a task
constexpr Index objective_block = 64;  // signals in a task of `objectives`

constexpr Index blocks_of(Index count, Index block) {
    return (count + block - 1) / block;
}

}  // namespace

template <class T>
void sum_outer(const SparsityPattern& pattern, Numbers<T> values, ConstMatrix<T> x, std::type_identity_t<T> fade, ConstMatrix<T> before,
               MatrixView<T> after, int n_threads) {
    const ByAtom by_atom(pattern);
    std::vector<T> weights;
    weights.reserve(by_atom.places.size());
    for (const std::int64_t place : by_atom.places) weights.push_back(values[std::size_t(place)]);
    // A slice of all signals stays in the second-level cache while the loop runs over the atoms.
    const auto& kernels = instruction_set().kernels<T>();
    const Index m = x.columns, p = pattern.atoms;
    const Index width = kernels.slice_width, slices = blocks_of(m, width), blocks = blocks_of(p, atom_block);
    n_threads = worthwhile_threads(n_threads, cost::per_row_feature * double(m) * double(pattern.nonzeros() + 2 * p));
    in_threads(slices * blocks, n_threads, nullptr, [&](Index task) {
        const Index at = task / blocks * width, first = task % blocks * atom_block;
        for (Index j = first; j < std::min(p, first + atom_block); ++j) {
            const Index start = by_atom.starts[std::size_t(j)], count = by_atom.starts[std::size_t(j) + 1] - start;
            const RowSum<T> sum = {x.data + at, m, by_atom.rows.data() + start, weights.data() + start, count};
            kernels.add_slices(sum, std::min(width, m - at), fade, before.row(j) + at, after.row(j) + at);
        }
    });
}

template <class T>
void sum_outer_sparse(const SparsityPattern& pattern, Numbers<T> left, Numbers<T> right, std::type_identity_t<T> fade, ConstMatrix<T> before,
                      MatrixView<T> after, int n_threads) {
    const ByAtom by_atom(pattern);
    const Index p = pattern.atoms, nonzeros = pattern.nonzeros();
    const double per_signal = pattern.rows() > 0 ? double(nonzeros) / double(pattern.rows()) : 0;
    n_threads = worthwhile_threads(n_threads, cost::per_pair * double(nonzeros) * per_signal + cost::per_written_entry * double(p) * double(p));
    in_threads(blocks_of(p, atom_block), n_threads, nullptr, [&](Index block) {
        for (Index j = block * atom_block; j < std::min(p, (block + 1) * atom_block); ++j) {
            T* const out = after.row(j);
            if (fade == 0)
                std::fill_n(out, p, T(0));
            else
                for (Index i = 0; i < p; ++i) out[i] = fade * before.row(j)[i];
            for (Index at = by_atom.starts[std::size_t(j)]; at < by_atom.starts[std::size_t(j) + 1]; ++at) {
                const Index r = by_atom.rows[std::size_t(at)], start = pattern.start(r), count = pattern.count(r);
                const T weight = left[std::size_t(by_atom.places[std::size_t(at)])];
                const std::int32_t* const atoms = pattern.support(r);
                const T* const values = right.data() + start;
                for (Index i = 0; i < count; ++i) out[atoms[i]] += weight * values[i];
            }
        }
    });
}

template <class T>
void decode(const SparsityPattern& pattern, Numbers<T> values, ConstMatrix<T> atoms, std::type_identity_t<T> fade, ConstMatrix<T> before,
            MatrixView<T> after, int n_threads) {
    const auto& kernels = instruction_set().kernels<T>();
    const Index m = atoms.columns, n = pattern.rows(), width = kernels.slice_width;
    n_threads = worthwhile_threads(n_threads, cost::per_row_feature * double(m) * double(pattern.nonzeros() + 2 * n));
    in_threads(blocks_of(n, signal_block), n_threads, nullptr, [&](Index b) {
        for (Index at = 0; at < m; at += width)
            for (Index r = b * signal_block; r < std::min(n, (b + 1) * signal_block); ++r) {
                const RowSum<T> sum = {atoms.data + at, m, pattern.support(r), values.data() + pattern.start(r), pattern.count(r)};
                kernels.add_slices(sum, std::min(width, m - at), fade, before.row(r) + at, after.row(r) + at);
            }
    });
}

template <class T>
void correlate_supports(const SparsityPattern& pattern, ConstMatrix<T> atoms, ConstMatrix<T> x, std::span<T> out, int n_threads) {
    const auto& kernels = instruction_set().kernels<T>();
    const Index n = pattern.rows();
    n_threads = worthwhile_threads(n_threads, cost::per_row_feature * double(x.columns) * double(pattern.nonzeros()));
    in_threads(blocks_of(n, signal_block), n_threads, nullptr, [&](Index b) {
        for (Index r = b * signal_block; r < std::min(n, (b + 1) * signal_block); ++r)
            kernels.correlate_some(atoms.data, atoms.columns, x.row(r), pattern.support(r), pattern.count(r), out.data() + pattern.start(r));
    });
}

template <class T>
void objectives(const Prepared<T>& encoder, const SparsityPattern& pattern, Numbers<T> values, ConstMatrix<T> x, std::span<double> out,
                int n_threads) {
    const Index n = pattern.rows();
    const double unit = encoder.scale() * encoder.scale();
    const double nonzeros = double(pattern.nonzeros()) / double(std::max<Index>(1, n));  // per signal
    n_threads = worthwhile_threads(n_threads, double(n) * (2 * cost::per_row_feature * double(x.columns) + cost::per_pair * nonzeros * nonzeros));
    in_threads(blocks_of(n, objective_block), n_threads, nullptr, [&](Index b) {
        for (Index r = b * objective_block; r < std::min(n, (b + 1) * objective_block); ++r) {
            const auto start = std::size_t(pattern.start(r)), count = std::size_t(pattern.count(r));
            const double explained = encoder.energy(pattern.indices.subspan(start, count), values.subspan(start, count));  // αᵀMα
            out[std::size_t(r)] = 0.5 * (squared_norm(x.row(r), x.columns) - unit * explained);
        }
    });
}

#define TASKDICT_INSTANTIATE(T)                                                                                               \
    template void sum_outer<T>(const SparsityPattern&, Numbers<T>, ConstMatrix<T>, T, ConstMatrix<T>, MatrixView<T>, int);    \
    template void sum_outer_sparse<T>(const SparsityPattern&, Numbers<T>, Numbers<T>, T, ConstMatrix<T>, MatrixView<T>, int); \
    template void decode<T>(const SparsityPattern&, Numbers<T>, ConstMatrix<T>, T, ConstMatrix<T>, MatrixView<T>, int);       \
    template void correlate_supports<T>(const SparsityPattern&, ConstMatrix<T>, ConstMatrix<T>, std::span<T>, int);           \
    template void objectives<T>(const Prepared<T>&, const SparsityPattern&, Numbers<T>, ConstMatrix<T>, std::span<double>, int);

TASKDICT_INSTANTIATE(float)
TASKDICT_INSTANTIATE(double)

}  // namespace taskdict
