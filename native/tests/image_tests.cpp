#include "check.hpp"
#include "images/bend.hpp"
#include "images/halftone.hpp"

namespace taskdict::tests {
namespace {

template <class T>
void test_halftone() {
    const Tap taps[] = {{0, 1, 7.0 / 16}, {1, -1, 3.0 / 16}, {1, 0, 5.0 / 16}, {1, 1, 1.0 / 16}};
    for (const Index width : {1, 2, 33}) {
        std::vector<T> pixels(std::size_t(40 * width), T(0.25));
        diffuse_errors<T>({pixels.data(), 40, width}, taps);
        double total = 0;
        bool binary = true;
        for (const T pixel : pixels) total += double(pixel), binary = binary && (pixel == 0 || pixel == 1);
        check(binary, "halftone has two values", type_name<T>);
        if (width == 33) check(std::fabs(total / double(pixels.size()) - 0.25) < 0.01, "halftone keeps the average", type_name<T>);
    }
}

void test_bend() {
    const Index height = 5, width = 3, knots = 2;
    const std::vector<float> images = random_numbers<float>(2 * height * width, 1), weights(std::size_t(height * knots), 1.0f);
    std::vector<float> out(images.size()), still(2 * 2 * knots * knots, 0.0f), far(still.size(), 1e9f);
    const Bend bend = {2, height, width, knots, weights.data(), weights.data(), -7.0f};
    const std::int64_t offsets[] = {0, 0, 1, -1};
    taskdict::bend(bend, images.data(), offsets, still.data(), out.data());
    bool same = true, moved = true, background = true;
    for (Index i = 0; i < height; ++i)
        for (Index j = 0; j < width; ++j) {
            same = same && out[std::size_t(i * width + j)] == images[std::size_t(i * width + j)];
            const bool inside = i > 0 && j + 1 < width;
            const float expected = inside ? images[std::size_t((height + i - 1) * width + j + 1)] : -7.0f;
            moved = moved && out[std::size_t((height + i) * width + j)] == expected;
        }
    taskdict::bend(bend, images.data(), offsets, far.data(), out.data());
    for (const float value : out) background = background && value == -7.0f;
    check(same, "no bend", "float");
    check(moved, "moved", "float");
    check(background, "bent out of sight", "float");
}

}  // namespace

void test_images() {
    test_halftone<float>();
    test_halftone<double>();
    test_bend();
}

}  // namespace taskdict::tests
