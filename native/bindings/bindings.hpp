// The parts of the module. Bindings check shapes, release the GIL and make the call; they decide nothing else.
#pragma once

#include "batch/sparsity_pattern.hpp"
#include "bindings/arrays.hpp"

namespace taskdict {

void bind_encoder(nb::module_& module);
void bind_pursuit(nb::module_& module);
void bind_learn(nb::module_& module);
void bind_images(nb::module_& module);

// The number of nonzeros of compressed rows.
inline std::size_t end_of(const List<std::int64_t>& indptr) {
    if (indptr.shape(0) == 0) throw nb::value_error("indptr has shape (0,), but must have one entry more than there are signals.");
    return std::size_t(indptr.data()[indptr.shape(0) - 1]);
}

// The pattern of codes in compressed rows.
inline SparsityPattern pattern_of(const List<std::int64_t>& indptr, const List<std::int32_t>& indices, Index atoms) {
    require_shape("indices", indices, {end_of(indptr)}, "the last entry of indptr");
    return {view(indptr), view(indices), atoms};
}

}  // namespace taskdict
