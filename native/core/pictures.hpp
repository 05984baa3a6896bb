// What is done to pictures: halftoning by error diffusion, and smooth displacements.
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

// Smooth displacements of pictures of the same size. A displacement is given by its values at knots × knots points, down and to the
// right; weights[i * knots + a] is that of knot a at pixel i of a side.
struct Bend {
    Index count, height, width, knots;
    const float *down, *right;  // weights along the sides
    float background;           // around a picture
};

// Moves each picture by its own whole offset (down, right), and displaces it: out has at a pixel what the picture has at the
// pixel's place less the offset plus the displacement, bilinear between pixels. `values` has two tables of knots × knots
// numbers for each picture.
void bend(const Bend& bend, const float* pictures, const std::int64_t* offsets, const float* values, float* out);

}  // namespace taskdict
