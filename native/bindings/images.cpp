#include <vector>

#include "bindings/bindings.hpp"
#include "images/bend.hpp"
#include "images/halftone.hpp"

namespace taskdict {
namespace {

template <class T>
void bind_halftone(nb::module_& module) {
    module.def(
        "diffuse_errors",
        [](Writable<T> pixels, List<std::int64_t> down, List<std::int64_t> right, List<double> share) {
            require_shape("right", right, {down.shape(0)}, "one entry per tap, as in down");
            require_shape("share", share, {down.shape(0)}, "one entry per tap, as in down");
            std::vector<Tap> taps(down.shape(0));
            for (std::size_t k = 0; k < taps.size(); ++k) {
                taps[k] = {Index(down.data()[k]), Index(right.data()[k]), share.data()[k]};
                if (taps[k].down < 0 || (taps[k].down == 0 && taps[k].right <= 0)) {
                    const std::string message = "tap " + std::to_string(k) + " has down = " + std::to_string(taps[k].down) +
                                                " and right = " + std::to_string(taps[k].right) +
                                                ", but must lead to a pixel that is still to come: down > 0, or down = 0 and right > 0.";
                    throw nb::value_error(message.c_str());
                }
            }
            const nb::gil_scoped_release unlocked;
            diffuse_errors(view(pixels), std::span<const Tap>(taps));
        },
        nb::arg("pixels").noconvert(), nb::arg("down"), nb::arg("right"), nb::arg("share"),
        "Replace pixels (height, width), values from 0 to 1, by 0 or 1, and diffuse the error of each to the pixels after it.\n\n"
        "Tap k passes share[k] of an error to the pixel down[k] rows below and right[k] columns to the right; all three are (n_taps,).");
}

}  // namespace

void bind_images(nb::module_& module) {
    bind_halftone<float>(module);
    bind_halftone<double>(module);
    module.def(
        "bend",
        [](Aligned<const float, nb::ndim<3>, nb::c_contig> images, Matrix<std::int64_t> offsets,
           Aligned<const float, nb::ndim<4>, nb::c_contig> values, Matrix<float> down, Matrix<float> right, float background,
           Aligned<float, nb::ndim<3>, nb::c_contig> out) {
            const std::size_t n = images.shape(0), height = images.shape(1), width = images.shape(2), knots = down.shape(1);
            require_shape("offsets", offsets, {n, 2}, "one pair per image");
            require_shape("values", values, {n, 2, knots, knots}, "two tables per image, of the knots that down has weights for");
            require_shape("down", down, {height, knots}, "one row per row of an image");
            require_shape("right", right, {width, knots}, "one row per column of an image, the columns of down");
            require_shape("out", out, {n, height, width}, "the shape of images");
            const Bend bend = {Index(n), Index(height), Index(width), Index(knots), down.data(), right.data(), background};
            const nb::gil_scoped_release unlocked;
            taskdict::bend(bend, images.data(), offsets.data(), values.data(), out.data());
        },
        nb::arg("images").noconvert(), nb::arg("offsets").noconvert(), nb::arg("values").noconvert(), nb::arg("down").noconvert(),
        nb::arg("right").noconvert(), nb::arg("background"), nb::arg("out").noconvert(),
        "Set out (n, height, width) to images of the same shape after shifts and smooth displacements (elastic distortions).\n\n"
        "offsets (n, 2) are whole pixels down and to the right. values (n, 2, k, k) are the displacements at k × k knots, down and to the right;\n"
        "down (height, k) and right (width, k) are the weights of the knots at the rows and columns. background is the value around an image.");
}

}  // namespace taskdict
