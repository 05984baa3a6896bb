#include "dictionary/gram.hpp"

#include <algorithm>

#include "system/cost_model.hpp"
#include "system/threads.hpp"

namespace taskdict {
namespace {

constexpr Index atom_block = 48;         // atoms in a task, as far as panels fit into it: whole tiles of the product
constexpr Index cache_way_bytes = 2048;  // addresses that differ by a multiple of this compete for the same lines of a cache

// Rows of M must not all start at the same place of a cache.
Index padded_stride(Index p, Index vector, std::size_t bytes) {
    const Index stride = round_up(p, vector);
    return stride * Index(bytes) % cache_way_bytes == 0 ? stride + vector : stride;
}

}  // namespace

template <class S>
Array<S> pack(const S* atoms, Index p, Index m) {
    const Kernels<S>& kernels = instruction_set().kernels<S>();
    Array<S> packed(round_up(p, kernels.panel_width) * m);
    kernels.pack_panels(atoms, p, m, packed.data());
    return packed;
}

template <class S>
GramMatrix<S>::GramMatrix(Index p, Index rank)
    : view_{nullptr, p, padded_stride(p, instruction_set().kernels<S>().vector_width, sizeof(S)), rank}, memory_(p * view_.stride) {
    view_.rows = memory_.data();
}

// Only the panels from the diagonal on are computed, then mirrored.
template <class S>
GramMatrix<S>::GramMatrix(const S* atoms, const Array<S>& packed, Index p, Index m, double lambda2, int n_threads, Interrupt& interrupt)
    : GramMatrix(p, lambda2 == 0 ? std::min(m, p) : p) {
    const Kernels<S>& kernels = instruction_set().kernels<S>();
    S* const rows = memory_.data();
    const Index stride = view_.stride;
    n_threads = worthwhile_threads(n_threads, cost::per_gram_product * double(p) * double(p) * double(m));
    // A task begins with a whole panel: the product must not write where the mirrored entries of another task go.
    const Index block = atom_block % kernels.panel_width == 0 ? atom_block : 2 * atom_block;
    in_threads((p + block - 1) / block, n_threads, &interrupt, [&](Index b) {
        interrupt.poll();
        const Index first = b * block, count = std::min(block, p - first);
        const Index panel = first / kernels.panel_width;
        kernels.multiply({atoms + first * m, m, count, packed.data(), m, p, panel, rows + first * stride, stride});
        for (Index j = first + 1; j < p; ++j)  // in this order, reads and writes stay in the first-level cache
            for (Index i = first; i < std::min(first + count, j); ++i) rows[j * stride + i] = rows[i * stride + j];
        for (Index i = first; i < first + count; ++i) rows[i * stride + i] += S(lambda2);
    });
    interrupt.poll();
}

template Array<float> pack(const float*, Index, Index);
template Array<double> pack(const double*, Index, Index);
template class GramMatrix<float>;
template class GramMatrix<double>;

}  // namespace taskdict
