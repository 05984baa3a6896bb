// Products of signals with atoms: X·Dᵀ and D·Dᵀ on a dictionary packed once per call, and one signal with a few atoms.
//
// Each entry of a product is one sum over the features in a fixed order, whatever the block it is computed in. Results therefore
// do not depend on the number of threads or on the grouping of the signals. Threads belong to the caller.
#pragma once

#include "simd/kernels.hpp"
#include "simd/vectors.hpp"

namespace taskdict::TASKDICT_ISA {

// A tile of tile_rows × panel_vectors sums fills the vector registers: 12 of 16, or 24 of 32.
inline constexpr int panel_vectors = 2;
inline constexpr int tile_rows = vector_registers == 32 ? 12 : 6;
// Of a panel that is half empty, a tile has one vector. Twelve sums hide the latency of the additions.
inline constexpr int narrow_tile_rows = 12;

template <class T>
inline constexpr int panel_width = panel_vectors * lanes<T>;

// Features are summed in slices of at most `slice_length` (kernels.hpp), then the slices: a slice of a panel stays in the
// first-level cache, and rounding grows with the length of a slice, not with m.

// Row j of `atoms` (p × m, contiguous) becomes column j % panel_width of panel j / panel_width; the last panel is
// padded with zeros. `packed` holds round_up(p, panel_width) * m numbers.
template <class T>
void pack_panels(const T* atoms, Index p, Index m, T* packed) {
    for (Index first = 0; first < p; first += panel_width<T>) {
        T* panel = packed + first * m;
        for (Index column = 0; column < panel_width<T>; ++column) {
            const T* atom = first + column < p ? atoms + (first + column) * m : nullptr;
            for (Index i = 0; i < m; ++i) panel[i * panel_width<T> + column] = atom ? atom[i] : T(0);
        }
    }
}

template <class T, int Rows, int Vectors, bool Accumulate>
inline void multiply_tile(const T* x, Index x_stride, const T* panel, Index length, T* out, Index out_stride) {
    Vector<T> sums[Rows][Vectors];
    for (int r = 0; r < Rows; ++r)
        for (int v = 0; v < Vectors; ++v) sums[r][v] = Vector<T>{};
    for (Index i = 0; i < length; ++i) {
        Vector<T> d[Vectors];
        for (int v = 0; v < Vectors; ++v) d[v] = load(panel + i * panel_width<T> + v * lanes<T>);
        for (int r = 0; r < Rows; ++r) {
            const Vector<T> value = broadcast(x[r * x_stride + i]);
            for (int v = 0; v < Vectors; ++v) sums[r][v] += value * d[v];
        }
    }
    for (int r = 0; r < Rows; ++r)
        for (int v = 0; v < Vectors; ++v) {
            T* to = out + r * out_stride + v * lanes<T>;
            store(to, Accumulate ? load(to) + sums[r][v] : sums[r][v]);
        }
}

// One panel for any number of rows: whole tiles, then a smaller one.
template <class T, int Vectors, bool Accumulate, int Rows>
inline void multiply_panel(Index rows, const T* x, Index x_stride, const T* panel, Index length, T* out, Index out_stride) {
    for (; rows >= Rows; rows -= Rows, x += Rows * x_stride, out += Rows * out_stride)
        multiply_tile<T, Rows, Vectors, Accumulate>(x, x_stride, panel, length, out, out_stride);
    if constexpr (Rows > 1)
        if (rows > 0) multiply_panel<T, Vectors, Accumulate, Rows - 1>(rows, x, x_stride, panel, length, out, out_stride);
}

template <class T, bool Accumulate>
inline void multiply_slice(Index rows, const T* x, Index x_stride, const T* panel, bool narrow, Index length, T* out, Index out_stride) {
    if (narrow)
        multiply_panel<T, 1, Accumulate, narrow_tile_rows>(rows, x, x_stride, panel, length, out, out_stride);
    else
        multiply_panel<T, panel_vectors, Accumulate, tile_rows>(rows, x, x_stride, panel, length, out, out_stride);
}

// Of a last panel that is at most half full, only that half is computed.
template <class T>
void multiply(const PanelProduct<T>& product) {
    const auto [x, x_stride, rows, packed, m, p, first_panel, out, out_stride] = product;
    const Index slices = (m + slice_length - 1) / slice_length;
    const Index length = (m + slices - 1) / slices;
    for (Index start = 0; start < m; start += length) {
        const Index count = start + length < m ? length : m - start;
        for (Index first = first_panel * panel_width<T>; first < p; first += panel_width<T>) {
            const T* slice = packed + first * m + start * panel_width<T>;
            const bool narrow = p - first <= lanes<T>;
            if (start == 0)
                multiply_slice<T, false>(rows, x, x_stride, slice, narrow, count, out + first, out_stride);
            else
                multiply_slice<T, true>(rows, x + start, x_stride, slice, narrow, count, out + first, out_stride);
        }
    }
}

// out[i] = ⟨atoms[list[i]], x⟩; rows of `atoms` are m long. Four atoms share the loads of x.
template <class T>
void correlate_some(const T* atoms, Index m, const T* x, const std::int32_t* list, Index count, T* out) {
    for (Index i = 0; i < count; i += 4) {
        const T* rows[4];
        for (int r = 0; r < 4; ++r) rows[r] = atoms + list[i + r < count ? i + r : i] * m;
        Vector<T> sums[4] = {};
        Index at = 0;
        while (at + lanes<T> <= m) {  // in slices, as in products.hpp
            const Index end = m - at < slice_length ? m : at + slice_length;
            Vector<T> slice[4] = {};
            for (; at + lanes<T> <= end; at += lanes<T>) {
                const Vector<T> value = load_unaligned(x + at);
                for (int r = 0; r < 4; ++r) slice[r] += value * load_unaligned(rows[r] + at);
            }
            for (int r = 0; r < 4; ++r) sums[r] += slice[r];
        }
        for (int r = 0; r < 4 && i + r < count; ++r) {
            T sum = total<T>(sums[r]);
            for (Index rest = at; rest < m; ++rest) sum += x[rest] * rows[r][rest];
            out[i + r] = sum;
        }
    }
}

}  // namespace taskdict::TASKDICT_ISA
