#include "pictures.hpp"

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

void bend(const Bend& bend, const float* pictures, const std::int64_t* offsets, const float* values, float* out) {
    const auto [count, height, width, knots, down, right, background] = bend;
    const Index stride = width + 3, size = height * width;
    std::vector<float> framed(std::size_t((height + 3) * stride), background);  // one pixel more before, two after
    std::vector<float> along(std::size_t(2 * knots * width));                   // the displacements at rows of knots
    std::vector<float> place(std::size_t(2 * width));                           // rows and columns that pixels come from
    for (Index n = 0; n < count; ++n) {
        for (Index i = 0; i < height; ++i) std::copy_n(pictures + n * size + i * width, width, framed.data() + (i + 1) * stride + 1);
        const float* table = values + n * 2 * knots * knots;
        for (Index a = 0; a < 2 * knots; ++a)
            for (Index j = 0; j < width; ++j) {
                float sum = 0;
                for (Index b = 0; b < knots; ++b) sum += table[a * knots + b] * right[j * knots + b];
                along[std::size_t(a * width + j)] = sum;
            }
        for (Index i = 0; i < height; ++i) {
            float *const rows = place.data(), *const columns = rows + width, *const to = out + n * size + i * width;
            for (Index j = 0; j < width; ++j) {
                rows[j] = float(i - offsets[2 * n]);
                columns[j] = float(j - offsets[2 * n + 1]);
            }
            for (Index a = 0; a < knots; ++a) {
                const float weight = down[i * knots + a];
                const float *const vertical = along.data() + a * width, *const horizontal = vertical + knots * width;
                for (Index j = 0; j < width; ++j) rows[j] += weight * vertical[j];
                for (Index j = 0; j < width; ++j) columns[j] += weight * horizontal[j];
            }
            for (Index j = 0; j < width; ++j) {
                const float row = std::min(std::max(rows[j], -1.0f), float(height)) + 1,
                            column = std::min(std::max(columns[j], -1.0f), float(width)) + 1;
                const int top = int(row), left = int(column);
                const float below = row - float(top), beside = column - float(left);
                const float* const corner = framed.data() + top * stride + left;
                const float upper = corner[0] + beside * (corner[1] - corner[0]);
                const float lower = corner[stride] + beside * (corner[stride + 1] - corner[stride]);
                to[j] = upper + below * (lower - upper);
            }
        }
    }
}

template void diffuse_errors<float>(float*, Index, Index, const Tap*, Index);
template void diffuse_errors<double>(double*, Index, Index, const Tap*, Index);

}  // namespace taskdict
