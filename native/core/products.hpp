// The two large products, X·Dᵀ and D·Dᵀ, on a dictionary packed once per call.
//
// Each entry of a product is one sum over the features in a fixed order, whatever the block it is computed in, so
// results do not depend on the number of threads or on how signals are grouped. Threads belong to the caller.
#pragma once

#include "simd.hpp"

namespace taskdict::TASKDICT_ISA {

// A tile of tile_rows × (2 vectors) sums fills the vector registers.
#if defined(__AVX512F__)
inline constexpr int tile_rows = 12;
#else
inline constexpr int tile_rows = 6;
#endif

template <class T>
inline constexpr int panel_width = 2 * lanes<T>;

// Features summed in one go: a slice of a panel stays in the first-level cache.
inline constexpr Index slice_length = 256;

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

template <class T, int Rows, bool Accumulate>
inline void multiply_tile(const T* x, Index x_stride, const T* panel, Index length, T* out, Index out_stride) {
    Vector<T> left[Rows], right[Rows];
    for (int r = 0; r < Rows; ++r) {
        left[r] = Accumulate ? load(out + r * out_stride) : Vector<T>{};
        right[r] = Accumulate ? load(out + r * out_stride + lanes<T>) : Vector<T>{};
    }
    for (Index i = 0; i < length; ++i) {
        const Vector<T> d_left = load(panel + i * panel_width<T>);
        const Vector<T> d_right = load(panel + i * panel_width<T> + lanes<T>);
        for (int r = 0; r < Rows; ++r) {
            const Vector<T> value = broadcast(x[r * x_stride + i]);
            left[r] += value * d_left;
            right[r] += value * d_right;
        }
    }
    for (int r = 0; r < Rows; ++r) {
        store(out + r * out_stride, left[r]);
        store(out + r * out_stride + lanes<T>, right[r]);
    }
}

// The last rows of a block, fewer than a tile: counts Rows down to the number left.
template <class T, bool Accumulate, int Rows = tile_rows>
inline void multiply_rows(Index rows, const T* x, Index x_stride, const T* panel, Index length, T* out, Index out_stride) {
    if (rows == Rows)
        multiply_tile<T, Rows, Accumulate>(x, x_stride, panel, length, out, out_stride);
    else if constexpr (Rows > 1)
        multiply_rows<T, Accumulate, Rows - 1>(rows, x, x_stride, panel, length, out, out_stride);
}

// out[r, j] = Σ_i x[r, i] · atoms[j, i] for the atoms of the panels from `first_panel` on; rows of `out` are
// aligned and hold whole panels.
template <class T>
void multiply(const T* x, Index x_stride, Index rows, const T* packed, Index m, Index panels, Index first_panel, T* out, Index out_stride) {
    const Index slices = m > 0 ? (m + slice_length - 1) / slice_length : 1;
    const Index length = (m + slices - 1) / slices;
    for (Index start = 0; start == 0 || start < m; start += length > 0 ? length : 1) {
        const Index count = start + length < m ? length : m - start;
        for (Index panel = first_panel; panel < panels; ++panel) {
            const T* slice = packed + panel * panel_width<T> * m + start * panel_width<T>;
            for (Index r = 0; r < rows; r += tile_rows) {
                const Index tile = rows - r < tile_rows ? rows - r : tile_rows;
                T* to = out + r * out_stride + panel * panel_width<T>;
                if (start == 0)
                    multiply_rows<T, false>(tile, x + r * x_stride + start, x_stride, slice, count, to, out_stride);
                else
                    multiply_rows<T, true>(tile, x + r * x_stride + start, x_stride, slice, count, to, out_stride);
            }
        }
    }
}

}  // namespace taskdict::TASKDICT_ISA
