// Arrays at the boundary with Python: types that the core can read, errors that name sizes, memory that NumPy takes over.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <initializer_list>
#include <string>

#include "system/memory.hpp"
#include "views.hpp"

namespace taskdict {

namespace nb = nanobind;

// An array whose address is a multiple of alignof(T). Others are refused as arguments: to read them is undefined behaviour.
template <class T, class... Options>
struct Aligned : nb::ndarray<nb::numpy, T, nb::device::cpu, Options...> {};

template <class T>
using Strided = Aligned<const T, nb::ndim<2>>;
template <class T>
using Matrix = Aligned<const T, nb::ndim<2>, nb::c_contig>;
template <class T>
using Cube = Aligned<const T, nb::ndim<3>, nb::c_contig>;
template <class T>
using Writable = Aligned<T, nb::ndim<2>, nb::c_contig>;
template <class T>
using List = Aligned<const T, nb::ndim<1>, nb::c_contig>;
template <class T>
using WritableList = Aligned<T, nb::ndim<1>, nb::c_contig>;

// A new array of one dimension.
template <class T>
using NewArray = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

template <class T>
MatrixView<const T> view(const Matrix<T>& matrix) {
    return {matrix.data(), Index(matrix.shape(0)), Index(matrix.shape(1))};
}

template <class T>
MatrixView<T> view(const Writable<T>& matrix) {
    return {matrix.data(), Index(matrix.shape(0)), Index(matrix.shape(1))};
}

template <class T>
std::span<const T> view(const List<T>& list) {
    return {list.data(), list.shape(0)};
}

// Gives the memory to NumPy.
template <class T>
NewArray<T> release(Growing<T>& numbers) {
    const std::size_t size = std::size_t(numbers.size());
    T* memory = numbers.release();
    const nb::capsule owner(memory, [](void* m) noexcept { std::free(m); });
    return NewArray<T>(memory, {size}, owner);
}

inline std::string shape_text(const std::size_t* sizes, std::size_t ndim) {
    std::string text = "(";
    for (std::size_t i = 0; i < ndim; ++i) text += (i > 0 ? ", " : "") + std::to_string(sizes[i]);
    return text + (ndim == 1 ? ",)" : ")");
}

// Refuses an array of another shape than `expected`. `why` says where the expected sizes come from.
template <class Array>
void require_shape(const char* name, const Array& array, std::initializer_list<std::size_t> expected, const char* why) {
    std::size_t sizes[4] = {};
    bool fits = true;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        sizes[i] = array.shape(i);
        fits = fits && sizes[i] == expected.begin()[i];
    }
    if (fits) return;
    const std::string message = std::string(name) + " has shape " + shape_text(sizes, expected.size()) + ", but must have shape " +
                                shape_text(expected.begin(), expected.size()) + ": " + why + ".";
    throw nb::value_error(message.c_str());
}

}  // namespace taskdict

template <class T, class... Options>
struct nanobind::detail::type_caster<taskdict::Aligned<T, Options...>> {
    using Array = ndarray<numpy, T, device::cpu, Options...>;
    using Wanted = taskdict::Aligned<T, Options...>;
    NB_TYPE_CASTER(Wanted, make_caster<Array>::Name)

    bool from_python(handle source, std::uint32_t flags, cleanup_list* cleanup) noexcept {
        make_caster<Array> caster;
        if (!caster.from_python(source, flags, cleanup)) return false;
        value = {std::move(caster.value)};
        return value.size() == 0 || reinterpret_cast<std::uintptr_t>(value.data()) % alignof(T) == 0;
    }
};
