// Single passes over a vector: its extremes, and loading a signal.
#pragma once

#include "simd/kernels.hpp"
#include "simd/vectors.hpp"

namespace taskdict::TASKDICT_ISA {

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

// Lists the places whose entry (magnitude unless `positive`) is above `bound`, in whole aligned vectors; returns their number.
inline Index list_above(const float* row, Index count, float bound, bool positive, std::int32_t* list) {
    const Vector<float> limit = broadcast(bound);
    Index found = 0;
    for (Index at = 0; at < count; at += lanes<float>) {
        const Vector<float> value = load(row + at);
        unsigned mask = greater_mask<float>(positive ? value : abs<float>(value), limit);
        for (; mask; mask &= mask - 1) list[found++] = std::int32_t(at + __builtin_ctz(mask));
    }
    return found;
}

// out = factor · x, from any layout into a contiguous row, and in single precision into `narrow` unless that is null.
template <class T>
Magnitude load_signal(const T* x, Index step, Index m, T factor, T* out, float* narrow) {
    typedef float Narrow __attribute__((vector_size(lanes<T> * sizeof(float)), may_alias, aligned(alignof(float))));
    Vector<T> top = {}, zero = {};
    double squares = 0;
    Index i = 0;
    while (step == 1 && i + lanes<T> <= m) {
        const Index end = m - i < 4 * slice_length ? m : i + 4 * slice_length;
        Vector<T> slice = {};
        for (; i + lanes<T> <= end; i += lanes<T>) {
            const Vector<T> value = load_unaligned(x + i) * factor;
            *reinterpret_cast<typename Simd<T>::Unaligned*>(out + i) = value;
            if (narrow) *reinterpret_cast<Narrow*>(narrow + i) = __builtin_convertvector(value, Narrow);
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

}  // namespace taskdict::TASKDICT_ISA
