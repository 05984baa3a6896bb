// Compiled once per instruction set, with TASKDICT_ISA naming it (see CMakeLists.txt).
#include "kernels.hpp"

#include "accurate.hpp"
#include "active_set.hpp"
#include "homotopy.hpp"
#include "products.hpp"
#include "refine.hpp"

namespace taskdict::TASKDICT_ISA {
namespace {

// out = Σ_i weights[i] · table[rows[i]]: the correlations of a sparse signal with all atoms. Summed in slices, as in products.hpp.
template <class T>
void add_rows(const T* table, Index stride, const std::int32_t* rows, const T* weights, Index count, T* out) {
    in_groups(stride / lanes<T>, [&](auto n, Index first) {
        Vector<T> sums[n.value] = {};
        for (Index start = 0; start < count; start += slice_length) {
            Vector<T> slice[n.value] = {};
            const Index length = count - start < slice_length ? count - start : slice_length;
            const auto row = [&](Index i) { return table + rows[start + i] * stride + first * lanes<T>; };
            sum_of_rows<T, n.value>(length, weights + start, row, slice);
            for (int v = 0; v < n.value; ++v) sums[v] += slice[v];
        }
        for (int v = 0; v < n.value; ++v) store(out + (first + v) * lanes<T>, sums[v]);
    });
}

template <class T>
inline constexpr int slice_vectors = 8;

// after = fade · before + Σ_i weights[i] · table[rows[i]] for the first `length` numbers of each row, at most slice_vectors
// vectors; nothing needs to be aligned. With fade = 0, `before` is not read.
template <class T>
void add_slices(const T* table, Index stride, const std::int32_t* rows, const T* weights, Index count, Index length, T fade, const T* before,
                T* after) {
    const auto sum = [&](auto n, Index start) {
        Vector<T> sums[n.value] = {};
        for (Index i = 0; i < count; ++i) {
            const Vector<T> weight = broadcast(weights[i]);
            const T* row = table + rows[i] * stride + start;
            for (int v = 0; v < n.value; ++v) sums[v] += weight * load_unaligned(row + v * lanes<T>);
        }
        for (int v = 0; v < n.value; ++v) {
            const Index at = start + v * lanes<T>;
            if (fade != 0) sums[v] += fade * load_unaligned(before + at);
            *reinterpret_cast<typename Simd<T>::Unaligned*>(after + at) = sums[v];
        }
    };
    const Index vectors = length / lanes<T>;
    if (vectors == slice_vectors<T>)
        sum(Count<slice_vectors<T>>{}, 0);
    else
        in_groups(vectors, [&](auto n, Index first) { sum(n, first * lanes<T>); });
    if (length % lanes<T> == 0) return;
    if (vectors > 0) {
        sum(Count<1>{}, length - lanes<T>);  // computes some numbers again, to the same bits
    } else {
        for (Index at = 0; at < length; ++at) {
            T total = fade != 0 ? fade * before[at] : T(0);
            for (Index i = 0; i < count; ++i) total += weights[i] * table[rows[i] * stride + at];
            after[at] = total;
        }
    }
}

template <class T>
Extremes<T> extremes(const T* c, Index stride) {
    Vector<T> top = {}, magnitude = {};
    for (Index at = 0; at < stride; at += lanes<T>) {
        const Vector<T> value = load(c + at);
        top = maximum<T>(top, value);
        magnitude = maximum<T>(magnitude, abs<T>(value));
    }
    return {largest<T>(top), largest<T>(magnitude)};
}

// out = factor · x, from any layout into a contiguous row, and in single precision into `narrow` unless that is null.
template <class T>
Magnitude load_signal(const T* x, Index step, Index m, T factor, T* out, float* narrow) {
    Vector<T> top = {}, zero = {};
    double squares = 0;
    Index i = 0;
    while (step == 1 && i + lanes<T> <= m) {
        const Index end = m - i < 4 * slice_length ? m : i + 4 * slice_length;
        Vector<T> slice = {};
        for (; i + lanes<T> <= end; i += lanes<T>) {
            const Vector<T> value = load_unaligned(x + i) * factor;
            *reinterpret_cast<typename Simd<T>::Unaligned*>(out + i) = value;
            if (narrow)
                for (int v = 0; v < lanes<T>; ++v) narrow[i + v] = float(value[v]);
            top = maximum<T>(top, abs<T>(value));
            zero += value * T(0);  // NaN as soon as one entry is not finite
            slice += value * value;
        }
        squares += double(total<T>(slice));
    }
    T rest_top = largest<T>(top), rest_zero = total<T>(zero);
    for (; i < m; ++i) {
        const T value = x[i * step] * factor, size = std::fabs(value);
        out[i] = value;
        if (narrow) narrow[i] = float(value);
        rest_top = size > rest_top ? size : rest_top;
        rest_zero += value * T(0);
        squares += double(value) * double(value);
    }
    return {double(rest_top + rest_zero), squares};
}

template <class T>
constexpr Kernels<T> table() {
    return {panel_width<T>, pack_panels<T>, multiply<T>,    correlate_some<T>,   add_rows<T>,      slice_vectors<T> * lanes<T>,
            add_slices<T>,  extremes<T>,    load_signal<T>, solve_active_set<T>, solve_homotopy<T>};
}

}  // namespace

#define TASKDICT_TEXT(name) #name
#define TASKDICT_NAME(name) TASKDICT_TEXT(name)

extern const InstructionSet instructions;
const InstructionSet instructions = {
    TASKDICT_NAME(TASKDICT_ISA), table<float>(), table<double>(), refine, check_doubtful, accurate_residual, accurate_correlations,
};

}  // namespace taskdict::TASKDICT_ISA
