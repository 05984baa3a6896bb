#include "halftone.hpp"

#include <algorithm>
#include <vector>

namespace taskdict {

template <class T>
void diffuse_errors(T* pixels, Index height, Index width, const Tap* taps, Index n_taps) {
    Index reach = 0, depth = 0;
    for (Index k = 0; k < n_taps; ++k) {
        reach = std::max(reach, taps[k].right < 0 ? -taps[k].right : taps[k].right);
        depth = std::max(depth, taps[k].down);
    }
    // Errors for this row and those below it, with a margin that takes what is lost.
    const Index stride = width + 2 * reach, rows = depth + 1;
    std::vector<double> errors(std::size_t(rows * stride), 0.0);
    std::vector<double*> to(static_cast<std::size_t>(n_taps));
    for (Index i = 0; i < height; ++i) {
        double* const here = errors.data() + i % rows * stride + reach;
        for (Index k = 0; k < n_taps; ++k) to[std::size_t(k)] = errors.data() + (i + taps[k].down) % rows * stride + reach + taps[k].right;
        T* const row = pixels + i * width;
        for (Index j = 0; j < width; ++j) {
            const double wanted = double(row[j]) + here[j];
            const double given = wanted >= 0.5 ? 1.0 : 0.0;
            row[j] = T(given);
            for (Index k = 0; k < n_taps; ++k) to[std::size_t(k)][j] += taps[k].share * (wanted - given);
        }
        std::fill_n(here - reach, stride, 0.0);  // the row that is `rows` below
    }
}

template void diffuse_errors<float>(float*, Index, Index, const Tap*, Index);
template void diffuse_errors<double>(double*, Index, Index, const Tap*, Index);

}  // namespace taskdict
