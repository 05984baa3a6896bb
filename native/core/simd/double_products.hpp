// Residuals and correlations in double precision, of atoms in either precision.
#pragma once

#include "simd/vectors.hpp"
#include "solve/doubtful.hpp"

namespace taskdict::TASKDICT_ISA {

// out = x − Σ_i weights[i] · atoms[list[i]]; rows of `atoms` are m long.
template <class T>
void double_residual(const T* atoms, Index m, const T* x, const std::int32_t* list, const double* weights, Index count, double* out) {
    const auto sum = [&](auto n, Index at) {
        Vector<double> sums[n.value], others[n.value] = {};  // two chains of additions: less rounding, and less waiting
        for (int v = 0; v < n.value; ++v) sums[v] = load_wide(x + at + v * lanes<double>);
        Index i = 0;
        for (; i + 2 <= count; i += 2) {
            const Vector<double> w0 = broadcast(weights[i]), w1 = broadcast(weights[i + 1]);
            const T *r0 = atoms + list[i] * m + at, *r1 = atoms + list[i + 1] * m + at;
            for (int v = 0; v < n.value; ++v) {
                sums[v] -= w0 * load_wide(r0 + v * lanes<double>);
                others[v] -= w1 * load_wide(r1 + v * lanes<double>);
            }
        }
        if (i < count) {
            const Vector<double> w0 = broadcast(weights[i]);
            const T* r0 = atoms + list[i] * m + at;
            for (int v = 0; v < n.value; ++v) sums[v] -= w0 * load_wide(r0 + v * lanes<double>);
        }
        for (int v = 0; v < n.value; ++v) *reinterpret_cast<typename Simd<double>::Unaligned*>(out + at + v * lanes<double>) = sums[v] + others[v];
    };
    in_groups(m / lanes<double>, [&](auto n, Index first) { sum(n, first * lanes<double>); });
    for (Index at = m / lanes<double> * lanes<double>; at < m; ++at) {
        double sums[2] = {double(x[at]), 0};
        for (Index i = 0; i < count; ++i) sums[i % 2] -= weights[i] * double(atoms[list[i] * m + at]);
        out[at] = sums[0] + sums[1];
    }
}

// out[i] = ⟨atoms[list[i]], r⟩. Four atoms share the loads of r.
template <class T>
void double_correlations(const T* atoms, Index m, const double* r, const std::int32_t* list, Index count, double* out) {
    for (Index i = 0; i < count; i += 4) {
        const T* rows[4];
        for (int l = 0; l < 4; ++l) rows[l] = atoms + list[i + l < count ? i + l : i] * m;
        Vector<double> sums[4] = {};
        Index at = 0;
        for (; at + lanes<double> <= m; at += lanes<double>) {
            const Vector<double> value = load_unaligned(r + at);
            for (int l = 0; l < 4; ++l) sums[l] += value * load_wide(rows[l] + at);
        }
        for (int l = 0; l < 4 && i + l < count; ++l) {
            double sum = total<double>(sums[l]);
            for (Index rest = at; rest < m; ++rest) sum += r[rest] * double(rows[l][rest]);
            out[i + l] = sum;
        }
    }
}

}  // namespace taskdict::TASKDICT_ISA
