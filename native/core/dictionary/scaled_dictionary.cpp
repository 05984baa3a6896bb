#include "dictionary/scaled_dictionary.hpp"

#include "dictionary/scaling.hpp"
#include "norms.hpp"
#include "solve/problem.hpp"

namespace taskdict {
namespace {

constexpr double largest_lambda2 = 1e30;  // single precision overflows soon after

}  // namespace

template <class T>
ScaledDictionary<T>::ScaledDictionary(const T* atoms, Index p, Index m, const Parameters& parameters) : p_(p), m_(m), atoms_(p * m) {
    const Loaded loaded = load_scaled(atoms, 1, p * m, atoms_.data(), nullptr);
    scale_ = loaded.scale;
    lambda2_ = parameters.lambda2 / scale_ / scale_;
    const auto vanishes = [](double penalty, double scaled) { return penalty != 0 && scaled < underflow_limit; };
    if (loaded.wide || lambda2_ > largest_lambda2 || vanishes(parameters.lambda2, lambda2_) ||
        vanishes(parameters.lambda1, parameters.lambda1 / scale_)) {
        only_exact_ = true;
        scale_ = 1;
        lambda2_ = parameters.lambda2;
        std::copy_n(atoms, p * m, atoms_.data());
    }
    for (Index j = 0; j < p; ++j) bounds_.atom = std::max(bounds_.atom, std::sqrt(squared_norm(atoms_.data() + j * m, m)));
    bounds_.gram = bounds_.atom * bounds_.atom + lambda2_;
    bounds_.summands = std::min(m, slice_length) + m / slice_length;
}

template class ScaledDictionary<float>;
template class ScaledDictionary<double>;

}  // namespace taskdict
