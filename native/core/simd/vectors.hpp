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
#endif

namespace taskdict::TASKDICT_ISA {

#if defined(__AVX2__)
inline constexpr int vector_bytes = 32;
#else
inline constexpr int vector_bytes = 16;
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

template <class T>
inline T largest(Vector<T> value) {
    T result = value[0];
    for (int i = 1; i < lanes<T>; ++i) result = value[i] > result ? value[i] : result;
    return result;
}

template <class T>
inline T total(Vector<T> value) {
    T result = value[0];
    for (int i = 1; i < lanes<T>; ++i) result += value[i];
    return result;
}

// One bit per lane in which a > b.
template <class T>
inline unsigned greater_mask(Vector<T> a, Vector<T> b) {
#if defined(__AVX2__)
    if constexpr (sizeof(T) == 4)
        return _mm256_movemask_ps((__m256)(a > b));
    else
        return _mm256_movemask_pd((__m256d)(a > b));
#elif defined(__x86_64__)
    if constexpr (sizeof(T) == 4)
        return _mm_movemask_ps((__m128)(a > b));
    else
        return _mm_movemask_pd((__m128d)(a > b));
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
