// Scaling by powers of two, which is exact, so that nothing over- or underflows.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "simd/kernels.hpp"

namespace taskdict {

// The power of two that numbers of this largest magnitude are divided by: one unless they are far from one.
template <class T>
double scale_for(double top) {
    if (!(top > 0) || (top > 0x1p-16 && top < 0x1p16)) return 1;
    int exponent;
    std::frexp(top, &exponent);
    return std::ldexp(1.0, std::clamp(exponent, std::numeric_limits<T>::min_exponent + 2, std::numeric_limits<T>::max_exponent - 3));
}

// Loads one vector into a contiguous row, scaled by a power of two if its entries are far from 1. The vector is then
// `scale` · out. If it spans so many magnitudes that scaling would lose small entries, it is `wide` and stays as it is.
struct Loaded {
    double scale = 1;
    double norm = 0;  // of `out`, or a little more
    bool finite = true;
    bool wide = false;
};

template <class T>
Loaded load_scaled(const T* x, Index step, Index m, T* out, float* narrow, bool scales = true) {
    const auto load = instruction_set().kernels<T>().load_signal;
    Loaded loaded;
    Magnitude magnitude = load(x, step, m, T(1), out, narrow);
    loaded.finite = !std::isnan(magnitude.top);
    if (scales && loaded.finite) loaded.scale = scale_for<T>(magnitude.top);
    if (loaded.scale != 1) {
        magnitude = load(x, step, m, T(1 / loaded.scale), out, narrow);
        for (Index i = 0; i < m; ++i) loaded.wide = loaded.wide || (x[i * step] != 0 && std::fabs(out[i]) < std::numeric_limits<T>::min());
        if (loaded.wide) {
            loaded.scale = 1;
            magnitude = load(x, step, m, T(1), out, narrow);
        }
    }
    loaded.norm = std::sqrt(magnitude.squares) * 1.0001;
    return loaded;
}

}  // namespace taskdict
