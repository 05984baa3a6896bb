// Smooth random displacements of small images: the elastic distortion of data augmentation (Simard et al. 2003).
#pragma once

#include "types.hpp"

namespace taskdict {

// Displacements of `count` images of the same size. A displacement field is given by its values at knots × knots points, down and to
// the right. Between them it is a weighted sum: down[i * knots + a] is the weight of knot a at row i, and `right` likewise for columns.
struct Bend {
    Index count, height, width, knots;
    const float *down, *right;
    float background;  // the value around an image
};

// Shifts each image by a whole offset (down, right) and displaces it: the value of out at a pixel is that of the image at the pixel's
// position minus the offset plus the displacement, by bilinear interpolation. `values` has two tables of knots × knots numbers per
// image, down and to the right.
void bend(const Bend& bend, const float* images, const std::int64_t* offsets, const float* values, float* out);

}  // namespace taskdict
