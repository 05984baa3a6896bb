#include "solve/certify.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "solve/wide.hpp"

namespace taskdict {

template <class T>
Certificate certify(const Problem<T>& problem, std::span<const std::int32_t> atoms, Numbers<T> alpha) {
    using W = Wide<T>;
    const std::vector<W> error = reconstruction_error<W>(problem, atoms, alpha);
    // Its rounding error is at most ε times these (see rounding.hpp); here entry by entry, since magnitudes may differ.
    std::vector<W> sizes(error.size());
    for (std::size_t f = 0; f < sizes.size(); ++f) sizes[f] = std::fabs(W(problem.x[f]));
    for (std::size_t i = 0; i < atoms.size(); ++i)
        for (std::size_t f = 0; f < sizes.size(); ++f) sizes[f] += std::fabs(W(alpha[i]) * W(problem.atoms[atoms[i] * problem.m + Index(f)]));
    const W unit = W(problem.m + Index(atoms.size()) + 16) * std::numeric_limits<W>::epsilon();
    W scale = W(problem.largest_penalty()), worst = 0, bound = 0;
    std::size_t next = 0;
    std::vector<std::pair<std::int32_t, T>> code;
    for (std::size_t i = 0; i < atoms.size(); ++i) code.emplace_back(atoms[i], alpha[i]);
    std::sort(code.begin(), code.end());
    for (Index j = 0; j < problem.p; ++j) {
        const T* atom = problem.atoms + j * problem.m;
        scale = std::max(scale, std::fabs(dot<W>(atom, problem.x, problem.m)));
        W rho = dot<W>(atom, error), violation, size = 0;
        for (std::size_t f = 0; f < sizes.size(); ++f) size += std::fabs(W(atom[f])) * sizes[f];
        if (next < code.size() && code[next].first == j) {
            const W value = code[next++].second;
            rho -= W(problem.lambda2) * value;
            size += std::fabs(W(problem.lambda2) * value);
            violation = std::fabs(rho - (value > 0 ? W(problem.penalty(j)) : -W(problem.penalty(j))));
            if (problem.positive && value < 0) violation = std::numeric_limits<W>::infinity();
        } else {
            violation = (problem.positive ? rho : std::fabs(rho)) - W(problem.penalty(j));
        }
        if (!(violation <= worst)) worst = violation;
        if (!(unit * size <= bound)) bound = unit * size;
    }
    const auto relative = [scale](W value) { return value <= 0 ? 0.0 : double(value / scale); };  // NaN stays NaN
    return {relative(worst), relative(bound)};
}

template Certificate certify(const Problem<float>&, std::span<const std::int32_t>, Numbers<float>);
template Certificate certify(const Problem<double>&, std::span<const std::int32_t>, Numbers<double>);

}  // namespace taskdict
