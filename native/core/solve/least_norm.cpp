#include "solve/least_norm.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "solve/cholesky.hpp"
#include "solve/wide.hpp"

namespace taskdict {

// M ≈ L Lᵀ with L of k × r, by a Cholesky factorisation that takes the largest pivot first and ends when only rounding is left. If that
// is before the last, M⁺ = L (LᵀL)⁻¹ (LᵀL)⁻¹ Lᵀ.
template <class T>
std::vector<T> solve_least_norm(const Problem<T>& problem, std::span<const std::int32_t> atoms, Numbers<T> g, Interrupt& interrupt) {
    using W = Wide<T>;
    using Vector = std::vector<W>;
    const std::size_t size = atoms.size();
    // Products are exact up to the wider rounding, but atoms that should be dependent are so only up to that of T.
    const W epsilon = std::numeric_limits<T>::epsilon();
    const W negligible = W(100 * (Index(size) + problem.m)) * std::max(epsilon * epsilon, std::numeric_limits<W>::epsilon());
    std::vector<Vector> matrix(size), rows(size);  // of M and of L
    Vector left(size);                             // remaining diagonal, −1 for pivots already taken
    for (std::size_t i = 0; i < size; ++i) {
        interrupt.poll();
        matrix[i].resize(size);
        for (std::size_t j = 0; j <= i; ++j)
            matrix[i][j] = matrix[j][i] = dot<W>(problem.atoms + atoms[i] * problem.m, problem.atoms + atoms[j] * problem.m, problem.m);
        left[i] = matrix[i][i] + W(problem.lambda2);
    }
    const W largest = *std::max_element(left.begin(), left.end());
    std::vector<std::size_t> order;  // of the pivots
    while (order.size() < size) {
        interrupt.poll();
        const auto pivot = static_cast<std::size_t>(std::max_element(left.begin(), left.end()) - left.begin());
        if (!(left[pivot] > negligible * largest)) break;
        const Vector row = rows[pivot];
        const W length = std::sqrt(left[pivot]);
        left[pivot] = -1;
        for (std::size_t i = 0; i < size; ++i) {
            W value = i == pivot ? length : W(0);
            if (left[i] >= 0) {
                value = (matrix[i][pivot] - dot<W>(rows[i].data(), row)) / length;
                left[i] = std::max(W(0), left[i] - value * value);
            }
            rows[i].push_back(value);
        }
        order.push_back(pivot);
    }
    const std::size_t rank = order.size();
    std::vector<T> beta(size, T(0));
    Vector along(rank);
    if (rank == size) {
        for (std::size_t r = 0; r < rank; ++r)
            along[r] = (W(g[order[r]]) - dot<W>(rows[order[r]].data(), along.data(), Index(r))) / rows[order[r]][r];
        for (std::size_t r = rank; r-- > 0;) {
            const Vector& row = rows[order[r]];
            along[r] /= row[r];
            for (std::size_t q = 0; q < r; ++q) along[q] -= row[q] * along[r];
            beta[order[r]] = T(along[r]);
        }
        return beta;
    }
    std::vector<Vector> columns(rank, Vector(size));
    Cholesky<W> factor;
    Vector products;
    for (std::size_t r = 0; r < rank; ++r) {
        interrupt.poll();
        for (std::size_t i = 0; i < size; ++i) columns[r][i] = rows[i][r];
        products.clear();
        for (std::size_t q = 0; q <= r; ++q) products.push_back(dot<W>(columns[r].data(), columns[q]));
        if (!factor.append(products.data(), products.back())) break;  // only by rounding: `negligible` forbids it
        along[r] = dot<W>(columns[r].data(), g.data(), Index(size));
    }
    along.resize(std::size_t(factor.size()));
    factor.solve(along.data());
    factor.solve(along.data());
    for (std::size_t i = 0; i < size; ++i) beta[i] = T(dot<W>(rows[i].data(), along));
    return beta;
}

template std::vector<float> solve_least_norm(const Problem<float>&, std::span<const std::int32_t>, Numbers<float>, Interrupt&);
template std::vector<double> solve_least_norm(const Problem<double>&, std::span<const std::int32_t>, Numbers<double>, Interrupt&);

}  // namespace taskdict
