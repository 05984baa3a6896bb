#include "direct/direct_dictionary.hpp"

#include <algorithm>

#include "dictionary/scaled_dictionary.hpp"
#include "simd/kernels.hpp"

namespace taskdict {

template <class T>
DirectDictionary<T>::DirectDictionary(const T* atoms, Index p, Index m, const Parameters& parameters, bool packs) : p_(p), m_(m), data_(atoms) {
    const ScaleChoice choice = choose_scale(atoms, p * m, parameters);
    scale_ = choice.scale;
    lambda2_ = choice.lambda2;
    only_exact_ = choice.only_exact;
    if (scale_ != 1) {
        scaled_ = Array<T>(p * m);
        const T factor = T(1 / scale_);
        for (Index i = 0; i < p * m; ++i) scaled_[i] = atoms[i] * factor;
        data_ = scaled_.data();
    }
    bounds_ = bounds_of(data_, p, m, lambda2_);
    if (only_exact_) return;
    if constexpr (sizeof(T) == 8) {
        rounded_ = Array<float>(p * m);
        std::copy_n(data_, p * m, rounded_.data());
    }
    if (!packs) {
        for (Index j = 0; j < p; ++j) all_.push_back(std::int32_t(j));
        return;
    }
    const Kernels<float>& kernels = instruction_set().single_precision;
    packed_ = Array<float>(round_up(p, kernels.panel_width) * m);
    kernels.pack_panels(fast(), p, m, packed_.data());
}

template <class T>
void DirectDictionary<T>::correlate(const float* x, Index rows, Index first, Index end, float* out, Index stride) const {
    const Kernels<float>& kernels = instruction_set().single_precision;
    for (Index r = 0; !all_.empty() && r < rows; ++r)
        kernels.correlate_some(fast(), m_, x + r * m_, all_.data() + first, end - first, out + r * stride);
    if (all_.empty()) kernels.multiply({x, m_, rows, packed_.data() + first * m_, m_, end - first, 0, out, stride});
}

template class DirectDictionary<float>;
template class DirectDictionary<double>;

}  // namespace taskdict
