#include "learn/atoms.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "learn/move_atom.hpp"
#include "norms.hpp"
#include "simd/kernels.hpp"
#include "system/cost_model.hpp"
#include "system/memory.hpp"
#include "system/threads.hpp"

namespace taskdict {
namespace {

constexpr Index block = 12;      // atoms that share a product: whole tiles of the kernels
constexpr Index max_tasks = 16;  // per product

}  // namespace

// Atoms are updated in blocks. For a block J the gradient B_J − A_J D is one product, which the threads share by features. Within
// the block it is corrected for the atoms that have moved before.
template <class T>
void update_atoms(MatrixView<T> atoms, ConstMatrix<T> A, ConstMatrix<T> B, bool positive, int n_threads, Interrupt& interrupt) {
    const Index p = atoms.rows, m = atoms.columns;
    const Kernels<T>& kernels = instruction_set().kernels<T>();
    const Index width = kernels.panel_width, stride = round_up(m, width), panels = stride / width;
    Array<T> features(stride * p);  // D by panels of features, as the product reads it
    Array<T> product(block * stride), changes(block * stride), gradient(stride);
    const auto refresh = [&](Index j) {
        for (Index i = 0; i < m; i += width) std::copy_n(atoms.row(j) + i, std::min(width, m - i), features.data() + i * p + j * width);
    };
    for (Index j = 0; j < p; ++j) refresh(j);

    std::vector<std::int32_t> moved;
    std::vector<T> weights;
    with_team(worthwhile_threads(n_threads, cost::per_update_product * double(p) * double(p) * double(m)), &interrupt, [&](Team& team) {
        for (Index first = 0; first < p; first += block) {
            interrupt.poll();
            const Index count = std::min(block, p - first);
            const Index share = (panels + max_tasks - 1) / max_tasks;  // panels in a task
            team.loop((panels + share - 1) / share, [&](Index task) {
                const Index from = task * share, end = std::min(m, (from + share) * width);
                kernels.multiply({A.row(first), p, count, features.data(), p, end, from, product.data(), stride});
            });
            moved.clear();
            for (Index j = first; j < first + count; ++j) {
                const T curvature = A.row(j)[j];
                if (!(curvature > std::numeric_limits<T>::min())) continue;
                weights.clear();
                for (const std::int32_t i : moved) weights.push_back(A.row(j)[first + i]);
                kernels.add_rows({changes.data(), stride, moved.data(), weights.data(), Index(moved.size())}, gradient.data());
                const T* row = product.data() + (j - first) * stride;
                for (Index i = 0; i < m; ++i) gradient[i] = B.row(j)[i] - row[i] - gradient[i];
                move_atom(atoms.row(j), gradient.data(), curvature, m, positive, changes.data() + (j - first) * stride);
                moved.push_back(std::int32_t(j - first));
                refresh(j);
            }
        }
    });
}

// The non-negative part of the ball is the intersection of a cone and a ball around its apex: first the one, then the other.
template <class T>
void shorten_rows(MatrixView<T> rows, bool positive) {
    const Index m = rows.columns;
    for (Index j = 0; j < rows.rows; ++j) {
        T* const row = rows.row(j);
        if (positive)
            for (Index i = 0; i < m; ++i) row[i] = row[i] < 0 ? T(0) : row[i];  // NaN stays, to be noticed
        double square = squared_norm(row, m);
        if (std::isinf(square)) {  // the squares overflow: the largest entry is divided out
            T top = 0;
            for (Index i = 0; i < m; ++i) top = std::max(top, std::fabs(row[i]));
            for (Index i = 0; i < m; ++i) row[i] /= top;
            square = squared_norm(row, m);
        }
        if (!(square > 1)) continue;
        const double factor = 1 / std::sqrt(square);
        for (Index i = 0; i < m; ++i) row[i] = T(double(row[i]) * factor);
    }
}

template void shorten_rows<float>(MatrixView<float>, bool);
template void shorten_rows<double>(MatrixView<double>, bool);
template void update_atoms<float>(MatrixView<float>, ConstMatrix<float>, ConstMatrix<float>, bool, int, Interrupt&);
template void update_atoms<double>(MatrixView<double>, ConstMatrix<double>, ConstMatrix<double>, bool, int, Interrupt&);

}  // namespace taskdict
