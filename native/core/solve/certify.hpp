// The certificate of a given code, measured in wider arithmetic on the signal and the atoms themselves.
#pragma once

#include "solve/problem.hpp"
#include "views.hpp"

namespace taskdict {

template <class T>
Certificate certify(const Problem<T>& problem, std::span<const std::int32_t> atoms, Numbers<T> alpha);

}  // namespace taskdict
