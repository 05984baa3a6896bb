#include "images/halftone.hpp"

#include <algorithm>
#include <vector>

namespace taskdict {

template <class T>
void diffuse_errors(MatrixView<T> image, std::span<const Tap> taps) {
    Index reach = 0, depth = 0;
    for (const Tap& tap : taps) {
        reach = std::max(reach, tap.right < 0 ? -tap.right : tap.right);
        depth = std::max(depth, tap.down);
    }
    // Errors for this row and those below it, with a margin for the shares that are lost.
    const Index stride = image.columns + 2 * reach, rows = depth + 1;
    std::vector<double> errors(std::size_t(rows * stride), 0.0);
    std::vector<double*> to(taps.size());
    for (Index i = 0; i < image.rows; ++i) {
        double* const here = errors.data() + i % rows * stride + reach;
        for (std::size_t k = 0; k < taps.size(); ++k) to[k] = errors.data() + (i + taps[k].down) % rows * stride + reach + taps[k].right;
        T* const row = image.row(i);
        for (Index j = 0; j < image.columns; ++j) {
            const double wanted = double(row[j]) + here[j];
            const double given = wanted >= 0.5 ? 1.0 : 0.0;
            row[j] = T(given);
            for (std::size_t k = 0; k < taps.size(); ++k) to[k][j] += taps[k].share * (wanted - given);
        }
        std::fill_n(here - reach, stride, 0.0);  // reused for the row that is `rows` below
    }
}

template void diffuse_errors<float>(MatrixView<float>, std::span<const Tap>);
template void diffuse_errors<double>(MatrixView<double>, std::span<const Tap>);

}  // namespace taskdict
