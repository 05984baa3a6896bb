#include "sums.hpp"

#include "by_atom.hpp"
#include "norms.hpp"

namespace taskdict {
namespace {

constexpr Index atom_block = 32;  // atoms in a task

}  // namespace

template <class T>
void sum_outer(const Supports& supports, const T* values, const T* x, Index m, T fade, const T* before, T* after, int n_threads) {
    const ByAtom by_atom(supports);
    std::vector<T> weights;
    weights.reserve(by_atom.places.size());
    for (const std::int64_t place : by_atom.places) weights.push_back(values[place]);
    // A slice of all signals stays in the second-level cache while the atoms go by.
    const auto& kernels = instruction_set().kernels<T>();
    const Index width = kernels.slice_width, slices = (m + width - 1) / width;
    const Index blocks = (supports.atoms + atom_block - 1) / atom_block;
    n_threads = worthwhile_threads(n_threads, 1e-4 * double(m) * double(weights.size() + 2 * std::size_t(supports.atoms)));
    in_threads(slices * blocks, n_threads, nullptr, [&](Index task) {
        const Index at = task / blocks * width, first = task % blocks * atom_block;
        for (Index j = first; j < std::min(supports.atoms, first + atom_block); ++j) {
            const Index start = by_atom.starts[std::size_t(j)], count = by_atom.starts[std::size_t(j) + 1] - start;
            kernels.add_slices(x + at, m, by_atom.rows.data() + start, weights.data() + start, count, std::min(width, m - at), fade,
                               before + j * m + at, after + j * m + at);
        }
    });
}

template <class T>
void sum_outer_sparse(const Supports& supports, const T* left, const T* right, T fade, const T* before, T* after, int n_threads) {
    const ByAtom by_atom(supports);
    const Index p = supports.atoms;
    const double per_signal = supports.rows > 0 ? double(by_atom.rows.size()) / double(supports.rows) : 0;
    n_threads = worthwhile_threads(n_threads, 1e-3 * double(by_atom.rows.size()) * per_signal + 3e-4 * double(p) * double(p));
    in_threads((p + atom_block - 1) / atom_block, n_threads, nullptr, [&](Index block) {
        for (Index j = block * atom_block; j < std::min(p, (block + 1) * atom_block); ++j) {
            T* const out = after + j * p;
            if (fade == 0)
                std::fill_n(out, p, T(0));
            else
                for (Index i = 0; i < p; ++i) out[i] = fade * before[j * p + i];
            for (Index at = by_atom.starts[std::size_t(j)]; at < by_atom.starts[std::size_t(j) + 1]; ++at) {
                const Index r = by_atom.rows[std::size_t(at)];
                const T weight = left[by_atom.places[std::size_t(at)]];
                for (std::int64_t i = supports.indptr[r]; i < supports.indptr[r + 1]; ++i) out[supports.indices[i]] += weight * right[i];
            }
        }
    });
}

template <class T>
void decode(const Supports& supports, const T* values, const T* atoms, Index m, T fade, const T* before, T* after, int n_threads) {
    const auto& kernels = instruction_set().kernels<T>();
    const Index width = kernels.slice_width, block = 32;
    n_threads = worthwhile_threads(n_threads, 1e-4 * double(m) * double(supports.indptr[supports.rows] + 2 * supports.rows));
    in_threads((supports.rows + block - 1) / block, n_threads, nullptr, [&](Index b) {
        for (Index at = 0; at < m; at += width)
            for (Index r = b * block; r < std::min(supports.rows, (b + 1) * block); ++r) {
                const std::int64_t start = supports.indptr[r], count = supports.indptr[r + 1] - start;
                kernels.add_slices(atoms + at, m, supports.indices + start, values + start, Index(count), std::min(width, m - at), fade,
                                   before + r * m + at, after + r * m + at);
            }
    });
}

template <class T>
void correlate_supports(const Supports& supports, const T* atoms, const T* x, Index m, T* out, int n_threads) {
    const auto& kernels = instruction_set().kernels<T>();
    const Index block = 32;
    n_threads = worthwhile_threads(n_threads, 1e-4 * double(m) * double(supports.indptr[supports.rows]));
    in_threads((supports.rows + block - 1) / block, n_threads, nullptr, [&](Index b) {
        for (Index r = b * block; r < std::min(supports.rows, (b + 1) * block); ++r) {
            const std::int64_t start = supports.indptr[r], count = supports.indptr[r + 1] - start;
            kernels.correlate_some(atoms, m, x + r * m, supports.indices + start, Index(count), out + start);
        }
    });
}

template <class T>
void objectives(const Encoder<T>& encoder, const Supports& supports, const T* values, const T* x, double* out, int n_threads) {
    const Index m = encoder.features(), block = 64;
    const double unit = encoder.scale() * encoder.scale();
    const double each = double(supports.indptr[supports.rows]) / double(std::max<Index>(1, supports.rows));
    n_threads = worthwhile_threads(n_threads, double(supports.rows) * (2e-4 * double(m) + 1e-3 * each * each));
    in_threads((supports.rows + block - 1) / block, n_threads, nullptr, [&](Index b) {
        for (Index r = b * block; r < std::min(supports.rows, (b + 1) * block); ++r) {
            double explained = 0;
            for (std::int64_t i = supports.indptr[r]; i < supports.indptr[r + 1]; ++i) {
                const T* gram = encoder.gram_row(supports.indices[i]);
                double row = 0;
                for (std::int64_t k = supports.indptr[r]; k < i; ++k) row += double(gram[supports.indices[k]]) * double(values[k]);
                explained += double(values[i]) * (2 * row + double(gram[supports.indices[i]]) * double(values[i]));
            }
            out[r] = 0.5 * (squared_norm(x + r * m, m) - unit * explained);
        }
    });
}

template void sum_outer<float>(const Supports&, const float*, const float*, Index, float, const float*, float*, int);
template void sum_outer<double>(const Supports&, const double*, const double*, Index, double, const double*, double*, int);
template void sum_outer_sparse<float>(const Supports&, const float*, const float*, float, const float*, float*, int);
template void sum_outer_sparse<double>(const Supports&, const double*, const double*, double, const double*, double*, int);
template void decode<float>(const Supports&, const float*, const float*, Index, float, const float*, float*, int);
template void decode<double>(const Supports&, const double*, const double*, Index, double, const double*, double*, int);
template void correlate_supports<float>(const Supports&, const float*, const float*, Index, float*, int);
template void correlate_supports<double>(const Supports&, const double*, const double*, Index, double*, int);
template void objectives<float>(const Encoder<float>&, const Supports&, const float*, const float*, double*, int);
template void objectives<double>(const Encoder<double>&, const Supports&, const double*, const double*, double*, int);

}  // namespace taskdict
