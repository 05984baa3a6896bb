#include "images/bend.hpp"

#include <algorithm>
#include <vector>

namespace taskdict {

void bend(const Bend& bend, const float* images, const std::int64_t* offsets, const float* values, float* out) {
    const auto [count, height, width, knots, down, right, background] = bend;
    const Index stride = width + 3, size = height * width;
    std::vector<float> framed(std::size_t((height + 3) * stride), background);  // with a margin of one pixel before and two after
    std::vector<float> along(std::size_t(2 * knots * width));                   // the displacements at rows of knots
    std::vector<float> place(std::size_t(2 * width));                           // row and column that each pixel is read from
    for (Index n = 0; n < count; ++n) {
        for (Index i = 0; i < height; ++i) std::copy_n(images + n * size + i * width, width, framed.data() + (i + 1) * stride + 1);
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

}  // namespace taskdict
