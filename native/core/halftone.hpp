// Halftoning by error diffusion: one bit per pixel whose local average is that of the picture.
#pragma once

#include "types.hpp"

namespace taskdict {

// Where the error of a pixel goes: `share` of it to the pixel `down` rows below (0 for the same row) and `right` columns to the
// right; what falls outside the picture is lost.
struct Tap {
    Index down, right;
    double share;
};

// Replaces each pixel of a picture of values from 0 to 1, row by row from left to right, by 0 or 1, whichever is nearer to the
// pixel plus the errors it was given (1 from one half on), and hands on what is missing.
template <class T>
void diffuse_errors(T* pixels, Index height, Index width, const Tap* taps, Index n_taps);

}  // namespace taskdict
