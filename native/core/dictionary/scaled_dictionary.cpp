#include "dictionary/scaled_dictionary.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "dictionary/scaling.hpp"
#include "norms.hpp"
#include "solve/problem.hpp"

namespace taskdict {
namespace {

constexpr double largest_lambda2 = 1e30;  // single precision overflows soon after

// Whether all numbers but zeros stay normal when they are multiplied by a power of two.
template <class T>
bool stay_normal(const T* numbers, Index count, T factor) {
    bool normal = true;
    for (Index i = 0; i < count; ++i) normal = normal && (numbers[i] == 0 || std::fabs(numbers[i] * factor) >= std::numeric_limits<T>::min());
    return normal;
}

}  // namespace

template <class T>
ScaleChoice choose_scale(const T* numbers, Index count, const Parameters& parameters) {
    T top = 0;
    for (Index i = 0; i < count; ++i) top = std::max(top, std::fabs(numbers[i]));
    const double scale = scale_for<T>(double(top)), lambda2 = parameters.lambda2 / scale / scale;
    const auto vanishes = [](double penalty, double scaled) { return penalty != 0 && scaled < underflow_limit; };
    const bool wide = scale != 1 && !stay_normal(numbers, count, T(1 / scale));
    if (wide || lambda2 > largest_lambda2 || vanishes(parameters.lambda2, lambda2) || vanishes(parameters.lambda1, parameters.lambda1 / scale))
        return {1, parameters.lambda2, true};
    return {scale, lambda2, false};
}

template <class T>
RoundingBounds bounds_of(const T* atoms, Index p, Index m, double lambda2) {
    RoundingBounds bounds;
    for (Index j = 0; j < p; ++j) bounds.atom = std::max(bounds.atom, std::sqrt(squared_norm(atoms + j * m, m)));
    bounds.gram = bounds.atom * bounds.atom + lambda2;
    bounds.summands = std::min(m, slice_length) + m / slice_length;
    return bounds;
}

template <class T>
ScaledDictionary<T>::ScaledDictionary(const T* atoms, Index p, Index m, const Parameters& parameters) : p_(p), m_(m), atoms_(p * m) {
    const ScaleChoice choice = choose_scale(atoms, p * m, parameters);
    scale_ = choice.scale;
    lambda2_ = choice.lambda2;
    only_exact_ = choice.only_exact;
    const T factor = T(1 / scale_);
    for (Index i = 0; i < p * m; ++i) atoms_[i] = atoms[i] * factor;
    bounds_ = bounds_of(atoms_.data(), p, m, lambda2_);
}

template ScaleChoice choose_scale(const float*, Index, const Parameters&);
template ScaleChoice choose_scale(const double*, Index, const Parameters&);
template RoundingBounds bounds_of(const float*, Index, Index, double);
template RoundingBounds bounds_of(const double*, Index, Index, double);
template class ScaledDictionary<float>;
template class ScaledDictionary<double>;

}  // namespace taskdict
