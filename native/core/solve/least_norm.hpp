// The adjoint on one active set in wider arithmetic, singular or not.
#pragma once

#include <vector>

#include "solve/problem.hpp"
#include "system/interrupt.hpp"
#include "views.hpp"

namespace taskdict {

// β with M_ΛΛ β = g; the least-squares solution of least norm if M_ΛΛ is singular up to the rounding of T.
template <class T>
std::vector<T> solve_least_norm(const Problem<T>& problem, std::span<const std::int32_t> atoms, Numbers<T> g, Interrupt& interrupt);

}  // namespace taskdict
