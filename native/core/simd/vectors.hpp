// Vectors of the instruction set that this translation unit is compiled for, and the primitive that most kernels are built
// from: `sum_of_rows`, a weighted sum of rows.
//
// Everything below `namespace taskdict::TASKDICT_ISA` is compiled once per instruction set (see kernels.cpp). Such
// code must not instantiate standard-library templates out of line: the linker would be free to keep the copy that
// was built for a newer processor. Hence plain pointers here; owners of memory live in the portable files.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "types.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace taskdict::TASKDICT_ISA {

#if defined(__AVX512F__)
inline constexpr int vector_bytes = 64;
#elif defined(__AVX2__)
inline constexpr int vector_bytes = 32;
#else
inline constexpr int vector_bytes = 16;
#endif

#if defined(__AVX512F__) || defined(__aarch64__)
inline constexpr int vector_registers = 32;
#else
inline constexpr int vector_registers = 16;
#endif

template <class T>
struct Simd {
    static constexpr int lanes = vector_bytes / sizeof(T);
    typedef T Vector __attribute__((vector_size(vector_bytes), may_alias));
    typedef T Unaligned __attribute__((vector_size(vector_bytes), may_alias, aligned(alignof(T))));
};

template <class T>
using Vector = typename Simd<T>::Vector;

template <class T>
inline constexpr int lanes = Simd<T>::lanes;

template <class T>
inline Vector<T> load(const T* from) {
    return *reinterpret_cast<const Vector<T>*>(from);
}

template <class T>
inline Vector<T> load_unaligned(const T* from) {
    return *reinterpret_cast<const typename Simd<T>::Unaligned*>(from);
}

template <class T>
inline void store(T* to, Vector<T> value) {
    *reinterpret_cast<Vector<T>*>(to) = value;
}

template <class T>
inline Vector<T> broadcast(T value) {
    return value - Vector<T>{};
}

template <class T>
inline Vector<T> abs(Vector<T> value) {
    const Vector<T> negative = -value;
    return value > negative ? value : negative;
}

template <class T>
inline Vector<T> maximum(Vector<T> a, Vector<T> b) {
    return a > b ? a : b;
}

// Joins all lanes by `join`, one half of the vector with the other: a chain of log2(lanes) steps, not of lanes.
template <class T, class Part, class Join>
inline T fold(Part value, Join join) {
    constexpr int bytes = sizeof(Part);
    if constexpr (bytes == 2 * sizeof(T)) {
        return join(value[0], value[1]);
    } else if constexpr (bytes == 4 * sizeof(T)) {
        return join(join(value[0], value[2]), join(value[1], value[3]));
    } else {
        typedef T Half __attribute__((vector_size(bytes / 2)));
        Half halves[2];
        __builtin_memcpy(halves, &value, bytes);
        return fold<T>(Half(join(halves[0], halves[1])), join);
    }
}

template <class T>
inline T largest(Vector<T> value) {
    return fold<T>(value, [](auto a, auto b) { return a > b ? a : b; });
}

template <class T>
inline T total(Vector<T> value) {
    return fold<T>(value, [](auto a, auto b) { return a + b; });
}

// One bit per lane in which a > b.
template <class T>
inline unsigned greater_mask(Vector<T> a, Vector<T> b) {
#if defined(__AVX512F__)
    if constexpr (sizeof(T) == 4)
        return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ);
    else
        return _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_GT_OQ);
#elif defined(__AVX2__)
    if constexpr (sizeof(T) == 4)
        return _mm256_movemask_ps((__m256)(a > b));
    else
        return _mm256_movemask_pd((__m256d)(a > b));
#elif defined(__x86_64__)
    if constexpr (sizeof(T) == 4)
        return _mm_movemask_ps((__m128)(a > b));
    else
        return _mm_movemask_pd((__m128d)(a > b));
#elif defined(__aarch64__)  // no instruction collects the signs: each lane keeps its own bit, and the bits are added
    if constexpr (sizeof(T) == 4)
        return vaddvq_u32(vandq_u32(vcgtq_f32((float32x4_t)a, (float32x4_t)b), uint32x4_t{1, 2, 4, 8}));
    else
        return unsigned(vaddvq_u64(vandq_u64(vcgtq_f64((float64x2_t)a, (float64x2_t)b), uint64x2_t{1, 2})));
#else
    unsigned mask = 0;
    for (int i = 0; i < lanes<T>; ++i) mask |= unsigned(a[i] > b[i]) << i;
    return mask;
#endif
}

// Applies `body(Count<n>{}, first)` to consecutive groups of n ≤ 4 vectors.
template <int n>
struct Count {
    static constexpr int value = n;
};

template <class Body>
inline void in_groups(Index vectors, Body body) {
    Index first = 0;
    for (; first + 4 <= vectors; first += 4) body(Count<4>{}, first);
    switch (vectors - first) {
        case 3: body(Count<3>{}, first); break;
        case 2: body(Count<2>{}, first); break;
        case 1: body(Count<1>{}, first); break;
    }
}

// Σ_i weights[i] · row(i)[0 .. n vectors), for k rows. Two sets of sums hide the latency of the additions.
template <class T, int n, class Row>
inline void sum_of_rows(Index k, const T* weights, Row row, Vector<T> (&sums)[n]) {
    Vector<T> other[n] = {};
    Index i = 0;
    for (; i + 2 <= k; i += 2) {
        const Vector<T> w0 = broadcast(weights[i]), w1 = broadcast(weights[i + 1]);
        const T *r0 = row(i), *r1 = row(i + 1);
        for (int v = 0; v < n; ++v) {
            sums[v] += w0 * load(r0 + v * lanes<T>);
            other[v] += w1 * load(r1 + v * lanes<T>);
        }
    }
    if (i < k) {
        const Vector<T> w0 = broadcast(weights[i]);
        const T* r0 = row(i);
        for (int v = 0; v < n; ++v) sums[v] += w0 * load(r0 + v * lanes<T>);
    }
    for (int v = 0; v < n; ++v) sums[v] += other[v];
}

}  // namespace taskdict::TASKDICT_ISA
