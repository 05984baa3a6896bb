// Arrays that someone else owns, with their sizes. For the portable files: kernels take plain pointers (see simd/vectors.hpp).
#pragma once

#include <span>
#include <type_traits>

#include "types.hpp"

namespace taskdict {

// A matrix in contiguous rows.
template <class T>
struct MatrixView {
    T* data = nullptr;
    Index rows = 0;
    Index columns = 0;

    T* row(Index i) const { return data + i * columns; }
};

// Numbers of the type that the other arguments of a function have.
template <class T>
using Numbers = std::span<const std::type_identity_t<T>>;

template <class T>
using ConstMatrix = MatrixView<const std::type_identity_t<T>>;

}  // namespace taskdict
