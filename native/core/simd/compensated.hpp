// Residuals of Lemma 1 to twice the precision of double, each with a bound on its error.
//
// The sums are compensated (Ogita, Rump, Oishi 2005): the rounding error of a product or a sum, its rest, is itself a double and is
// summed as well. Only the sums of these rests are rounded, so the error is at most some n ε times the sum of their magnitudes. Where
// all rests are zero, as for small whole numbers, the bound is zero and the result is exact.
#pragma once

#include "simd/kernels.hpp"
#include "simd/vectors.hpp"

namespace taskdict::TASKDICT_ISA {

inline constexpr double unit_roundoff = 0x1p-53;

// Hides a value from the compiler, which would else be free to fuse the operations around it.
inline void keep_rounded(Vector<double>& value) {
#if defined(__AVX512F__)
    asm("" : "+v"(value));
#elif defined(__x86_64__)
    asm("" : "+x"(value));
#elif defined(__aarch64__)
    asm("" : "+w"(value));
#else
    asm("" : "+m"(value));
#endif
}

// a + b = sum + rest, exactly.
inline Vector<double> two_sum(Vector<double> a, Vector<double> b, Vector<double>& rest) {
    Vector<double> sum = a + b;
    const Vector<double> from_b = sum - a;
    rest = (a - (sum - from_b)) + (b - from_b);
    return sum;
}

// a · b = product + rest, exactly unless it over- or underflows.
inline Vector<double> two_product(Vector<double> a, Vector<double> b, Vector<double>& rest) {
    Vector<double> product = a * b;
    keep_rounded(product);
#if defined(__AVX512F__)
    rest = (Vector<double>)_mm512_fmsub_pd((__m512d)a, (__m512d)b, (__m512d)product);
#elif defined(__AVX2__) && defined(__FMA__)
    rest = (Vector<double>)_mm256_fmsub_pd((__m256d)a, (__m256d)b, (__m256d)product);
#elif defined(__aarch64__)
    rest = (Vector<double>)vfmaq_f64((float64x2_t)(-product), (float64x2_t)a, (float64x2_t)b);
#else
    const auto upper_half = [](Vector<double> value) {
        Vector<double> shifted = value * 134217729.0;  // 2²⁷ + 1
        keep_rounded(shifted);
        Vector<double> rest = shifted - value;
        keep_rounded(rest);
        return shifted - rest;
    };
    const Vector<double> a1 = upper_half(a), a2 = a - a1, b1 = upper_half(b), b2 = b - b1;
    Vector<double> parts[4] = {a1 * b1, a1 * b2, a2 * b1, a2 * b2};
    for (Vector<double>& part : parts) keep_rounded(part);
    rest = ((parts[0] - product) + parts[1] + parts[2]) + parts[3];
#endif
    return product;
}

// The values at + 0, 1, … of a vector of m, zero beyond its end.
inline Vector<double> load_some(const double* from, Index at, Index m) {
    if (at + lanes<double> <= m) return load_unaligned(from + at);
    Vector<double> value = {};
    for (Index i = at; i < m; ++i) value[i - at] = from[i];
    return value;
}

// residual = x − Σ_i alpha[i] · atoms[list[i]], with the combination's table, rows and weights as atoms, list and alpha. Returns a bound
// on the norm of the error.
inline double compensated_residual(const double* x, const RowSum<double>& combination, Index m, const CompensatedVector& residual) {
    const auto [atoms, stride, list, alpha, k] = combination;
    double squares = 0;
    for (Index at = 0; at < m; at += lanes<double>) {
        Vector<double> sum = load_some(x, at, m), rests = {}, sizes = {};
        for (Index i = 0; i < k; ++i) {
            Vector<double> of_product, of_sum;
            const Vector<double> product = two_product(broadcast(-alpha[i]), load_some(atoms + list[i] * stride, at, m), of_product);
            sum = two_sum(sum, product, of_sum);
            const Vector<double> rest = of_product + of_sum;
            rests += rest;
            sizes += abs<double>(rest);
        }
        store(residual.high + at, sum);
        store(residual.low + at, rests);
        squares += total<double>(sizes * sizes);
    }
    return double(k + 4) * unit_roundoff * std::sqrt(squares);
}

// out[j] = ⟨atoms[j], residual⟩ for p atoms of m features; bounds[j] bounds the error of out[j] for the given residual.
inline void compensated_correlations(const double* atoms, Index p, Index m, const CompensatedVector& residual, double* out, double* bounds) {
    for (Index j = 0; j < p; ++j) {
        const double* atom = atoms + j * m;
        Vector<double> sum = {}, rests = {}, sizes = {};
        for (Index at = 0; at < m; at += lanes<double>) {
            const Vector<double> value = load_some(atom, at, m);
            Vector<double> of_product, of_sum;
            const Vector<double> product = two_product(value, load(residual.high + at), of_product);
            sum = two_sum(sum, product, of_sum);
            const Vector<double> small = value * load(residual.low + at);
            rests += (of_product + of_sum) + small;
            sizes += (abs<double>(of_product) + abs<double>(of_sum)) + abs<double>(small);
        }
        double result = sum[0], rest = total<double>(rests), size = total<double>(sizes);
        for (int l = 1; l < lanes<double>; ++l) {
            const double next = result + sum[l], from_next = next - result;
            const double left = (result - (next - from_next)) + (sum[l] - from_next);
            rest += left;
            size += std::fabs(left);
            result = next;
        }
        out[j] = result + rest;
        bounds[j] = double(m / lanes<double> + 16) * unit_roundoff * size + (rest != 0 ? unit_roundoff * std::fabs(out[j]) : 0.0);
    }
}

}  // namespace taskdict::TASKDICT_ISA
