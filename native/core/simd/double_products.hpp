// Residuals and correlations in double precision, of atoms in either precision.
#pragma once

#include "simd/vectors.hpp"
#include "solve/doubtful.hpp"

namespace taskdict::TASKDICT_ISA {

inline Vector<double> load_double(const float* from) {
    return load_wide(from);
}

inline Vector<double> load_double(const double* from) {
    return load_unaligned(from);
}

// out = x − Σ_i weights[i] · atoms[list[i]]; rows of `atoms` are m long.
template <class T>
void double_residual(const T* atoms, Index m, const T* x, const std::int32_t* list, const double* weights, Index count, double* out) {
    const auto sum = [&](auto n, Index at) {
        Vector<double> sums[n.value], others[n.value] = {};  // two chains of additions: less rounding, and less waiting
        for (int v = 0; v < n.value; ++v) sums[v] = load_double(x + at + v * lanes<double>);
        Index i = 0;
        for (; i + 2 <= count; i += 2) {
            const Vector<double> w0 = broadcast(weights[i]), w1 = broadcast(weights[i + 1]);
            const T *r0 = atoms + list[i] * m + at, *r1 = atoms + list[i + 1] * m + at;
            for (int v = 0; v < n.value; ++v) {
                sums[v] -= w0 * load_double(r0 + v * lanes<double>);
                others[v] -= w1 * load_double(r1 + v * lanes<double>);
            }
        }
        if (i < count) {
            const Vector<double> w0 = broadcast(weights[i]);
            const T* r0 = atoms + list[i] * m + at;
            for (int v = 0; v < n.value; ++v) sums[v] -= w0 * load_double(r0 + v * lanes<double>);
        }
        for (int v = 0; v < n.value; ++v)
            *reinterpret_cast<typename Simd<double>::Unaligned*>(out + at + v * lanes<double>) = sums[v] + others[v];
    };
    in_groups(m / lanes<double>, [&](auto n, Index first) { sum(n, first * lanes<double>); });
    for (Index at = m / lanes<double> * lanes<double>; at < m; ++at) {
        double sums[2] = {double(x[at]), 0};
        for (Index i = 0; i < count; ++i) sums[i % 2] -= weights[i] * double(atoms[list[i] * m + at]);
        out[at] = sums[0] + sums[1];
    }
}

// out[i] = ⟨atoms[list[i]], r⟩
template <class T>
void double_correlations(const T* atoms, Index m, const double* r, const std::int32_t* list, Index count, double* out) {
    const Index whole = m / lanes<double> * lanes<double>;
    for (Index i = 0; i < count; ++i) {
        const T* row = atoms + list[i] * m;
        Vector<double> even = {}, odd = {};
        Index at = 0;
        for (; at + 2 * lanes<double> <= whole; at += 2 * lanes<double>) {
            even += load_double(row + at) * load_unaligned(r + at);
            odd += load_double(row + at + lanes<double>) * load_unaligned(r + at + lanes<double>);
        }
        if (at < whole) even += load_double(row + at) * load_unaligned(r + at);
        double sum = total<double>(even + odd);
        for (at = whole; at < m; ++at) sum += double(row[at]) * r[at];
        out[i] = sum;
    }
}

}  // namespace taskdict::TASKDICT_ISA
