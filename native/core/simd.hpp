// Vectors of the instruction set this translation unit is compiled for, and the one primitive that all kernels
// are made of: a sum of rows with weights.
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

}  // namespace taskdict::TASKDICT_ISA
