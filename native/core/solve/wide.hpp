// Sums in the next wider arithmetic: double for float, long double for double.
#pragma once

#include <span>
#include <vector>

#include "solve/problem.hpp"

namespace taskdict {

template <class T>
struct Wider;
template <>
struct Wider<float> {
    using type = double;
};
template <>
struct Wider<double> {
    using type = long double;
};

template <class T>
using Wide = typename Wider<T>::type;

// Four sums at once, since each addition has to wait for the one before it in its sum.
template <class W, class A, class B>
W dot(const A* a, const B* b, Index m) {
    W sums[4] = {};
    Index i = 0;
    for (; i + 4 <= m; i += 4)
        for (Index l = 0; l < 4; ++l) sums[l] += W(a[i + l]) * W(b[i + l]);
    for (; i < m; ++i) sums[0] += W(a[i]) * W(b[i]);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

template <class W, class T>
W dot(const T* a, const std::vector<W>& b) {
    return dot<W>(a, b.data(), Index(b.size()));
}

// x − Σ_i alpha[i] · atom[i]
template <class W, class T, class A>
std::vector<W> reconstruction_error(const Problem<T>& problem, std::span<const std::int32_t> atoms, const A& alpha) {
    std::vector<W> error(problem.x, problem.x + problem.m);
    for (std::size_t i = 0; i < atoms.size(); ++i) {
        const T* atom = problem.atoms + atoms[i] * problem.m;
        for (Index j = 0; j < problem.m; ++j) error[std::size_t(j)] -= W(alpha[i]) * W(atom[j]);
    }
    return error;
}

}  // namespace taskdict
