#include "atoms.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels.hpp"
#include "memory.hpp"
#include "norms.hpp"
#include "threads.hpp"

namespace taskdict {
namespace {

// atom ← the projection of atom + gradient / curvature; `change` gets the difference.
template <class T>
void move_atom(T* atom, const T* gradient, T curvature, Index m, bool positive, T* change) {
    const T step = 1 / curvature;
    for (Index i = 0; i < m; ++i) {
        const T value = atom[i] + gradient[i] * step;
        change[i] = positive && value < 0 ? T(0) : value;  // NaN stays, to be noticed
    }
    const double square = squared_norm(change, m);
    const T factor = square > 1 ? T(1 / std::sqrt(square)) : T(1);
    for (Index i = 0; i < m; ++i) {
        const T value = change[i] * factor;
        change[i] = value - atom[i];
        atom[i] = value;
    }
}

}  // namespace

// Atoms go in blocks. For a block J the gradient B_J − A_J D is one product, shared by the threads feature by feature; within
// the block it is corrected for the atoms that have moved before.
template <class T>
void update_atoms(T* atoms, const T* A, const T* B, Index p, Index m, bool positive, int n_threads, Interrupt& interrupt) {
    const Kernels<T>& kernels = instruction_set().kernels<T>();
    const Index width = kernels.panel_width, stride = round_up(m, width), panels = stride / width;
    const Index block = 12;
    Array<T> features(stride * p);  // D by panels of features: what the product reads
    Array<T> product(block * stride), changes(block * stride), gradient(stride);
    const auto refresh = [&](Index j) {
        for (Index i = 0; i < m; i += width) std::copy_n(atoms + j * m + i, std::min(width, m - i), features.data() + i * p + j * width);
    };
    for (Index j = 0; j < p; ++j) refresh(j);

    std::vector<std::int32_t> moved;
    std::vector<T> weights;
    with_team(worthwhile_threads(n_threads, 4e-5 * double(p) * double(p) * double(m)), &interrupt, [&](Team& team) {
        for (Index first = 0; first < p; first += block) {
            interrupt.poll();
            const Index count = std::min(block, p - first);
            const Index share = (panels + 15) / 16;  // panels in a task
            team.loop((panels + share - 1) / share, [&](Index task) {
                const Index from = task * share, end = std::min(m, (from + share) * width);
                kernels.multiply(A + first * p, p, count, features.data(), p, end, from, product.data(), stride);
            });
            moved.clear();
            for (Index j = first; j < first + count; ++j) {
                const T curvature = A[j * p + j];
                if (!(curvature > std::numeric_limits<T>::min())) continue;
                weights.clear();
                for (const std::int32_t i : moved) weights.push_back(A[j * p + first + i]);
                kernels.add_rows(changes.data(), stride, moved.data(), weights.data(), Index(moved.size()), gradient.data());
                const T* row = product.data() + (j - first) * stride;
                for (Index i = 0; i < m; ++i) gradient[i] = B[j * m + i] - row[i] - gradient[i];
                move_atom(atoms + j * m, gradient.data(), curvature, m, positive, changes.data() + (j - first) * stride);
                moved.push_back(std::int32_t(j - first));
                refresh(j);
            }
        }
    });
}

// The non-negative part of the ball is the intersection of a cone and a ball around its apex: first the one, then the other.
template <class T>
void shorten_rows(T* rows, Index count, Index m, bool positive) {
    for (T* row = rows; row < rows + count * m; row += m) {
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

template void shorten_rows<float>(float*, Index, Index, bool);
template void shorten_rows<double>(double*, Index, Index, bool);
template void update_atoms<float>(float*, const float*, const float*, Index, Index, bool, int, Interrupt&);
template void update_atoms<double>(double*, const double*, const double*, Index, Index, bool, int, Interrupt&);

}  // namespace taskdict
