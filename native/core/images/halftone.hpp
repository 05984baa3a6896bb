// Halftoning of images by error diffusion.
#pragma once

#include <span>

#include "views.hpp"

namespace taskdict {

// A tap passes `share` of the error of a pixel to the pixel `down` rows below (0 for the same row) and `right` columns to the right.
// Shares that fall outside the image are lost.
struct Tap {
    Index down, right;
    double share;
};

// Replaces each pixel of an image of values from 0 to 1 by 0 or 1, row by row from left to right: the nearer one to the pixel plus the
// errors passed to it (1 from one half on). The difference is the pixel's own error.
template <class T>
void diffuse_errors(MatrixView<T> image, std::span<const Tap> taps);

}  // namespace taskdict
