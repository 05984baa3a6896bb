#include "dictionary/fast_dictionary.hpp"

#include <algorithm>

namespace taskdict {

FastDictionary::FastDictionary(const float* atoms, Index p, Index m, double lambda2, bool sparse, int n_threads, Interrupt& interrupt)
    : p_(p), m_(m), packed_(pack(atoms, p, m)), gram_(atoms, packed_, p, m, lambda2, n_threads, interrupt) {
    if (!sparse) return;
    packed_ = Array<float>();
    transpose(atoms);
}

FastDictionary::FastDictionary(const double* atoms, const GramMatrix<double>& gram, Index p, Index m, bool sparse) : p_(p), m_(m), gram_(gram) {
    Array<float> rounded(p * m);
    std::copy_n(atoms, p * m, rounded.data());
    if (sparse)
        transpose(rounded.data());
    else
        packed_ = pack<float>(rounded.data(), p, m);
}

void FastDictionary::transpose(const float* atoms) {
    const Index stride = gram_.view().stride;
    transposed_ = Array<float>(m_ * stride);
    for (Index j = 0; j < p_; ++j)
        for (Index i = 0; i < m_; ++i) transposed_[i * stride + j] = atoms[j * m_ + i];
}

void FastDictionary::correlate(const float* x, Index rows, float* c) const {
    instruction_set().single_precision.multiply({x, m_, rows, packed_.data(), m_, p_, 0, c, gram_.view().stride});
}

void FastDictionary::correlate_sparse(const std::int32_t* indices, const float* values, Index count, float* c) const {
    instruction_set().single_precision.add_rows({transposed_.data(), gram_.view().stride, indices, values, count}, c);
}

}  // namespace taskdict
