#include "learn/window.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "batch/by_atom.hpp"
#include "learn/move_atom.hpp"
#include "simd/kernels.hpp"
#include "system/cost_model.hpp"
#include "system/memory.hpp"
#include "system/threads.hpp"

namespace taskdict {
namespace {

constexpr Index atom_block = 16;    // atoms between two meetings of the threads; one where values are missing
constexpr Index signal_block = 64;  // signals in a task
constexpr Index max_tasks = 16;     // per block of atoms

constexpr Index blocks_of(Index count, Index block) {
    return (count + block - 1) / block;
}

// An atom that has moved, with the nonzeros that use it (see ByAtom).
struct Moved {
    std::int32_t place;  // in its block
    Index start, end;
};

// The pass. Rows of residuals, gradients and changes are padded with zeros to whole vectors of any instruction set.
template <class T>
class Sweep {
  public:
    Sweep(MatrixView<T> atoms, const Window<T>& window, bool positive)
        : atoms_(atoms),
          window_(window),
          positive_(positive),
          stride_(round_up(atoms.columns, Index(64 / sizeof(T)))),
          uses_(window.pattern),
          observed_(masked() ? window.signals.rows * stride_ : 0),
          feature_curvatures_(masked() ? stride_ : 0),
          residuals_(window.signals.rows * stride_),
          gradients_(atom_block * stride_),
          changes_(atom_block * stride_),
          correction_(stride_),
          marks_(window.signals.rows) {
        negated_.reserve(window.values.size());
        for (const T value : window.values) negated_.push_back(-value);
        alpha_.reserve(uses_.places.size());
        weighted_.reserve(uses_.places.size());
        for (std::size_t at = 0; at < uses_.places.size(); ++at) {
            const T value = window.values[std::size_t(uses_.places[at])];
            alpha_.push_back(value);
            weighted_.push_back(window.weights[std::size_t(uses_.rows[at])] * value);
            if (masked()) squares_.push_back(weighted_.back() * value);
        }
    }

    void run(Team& team, Interrupt& interrupt) {
        const Index n = window_.signals.rows, width = kernels_.slice_width;
        team.loop(blocks_of(n, signal_block), [&](Index task) {
            interrupt.ask();
            if (!interrupt.stopped()) subtract_codes(task * signal_block, std::min(n, (task + 1) * signal_block));
        });
        // Threads share the features, so that the order of the atoms, and of each sum, is always the same. What an atom changes for others
        // of its block is a number only if all features are observed.
        const Index share = round_up(blocks_of(stride_, max_tasks), width), block = masked() ? 1 : atom_block;
        for (Index first = 0; first < atoms_.rows; first += block) {
            interrupt.poll();
            const Index count = std::min(block, atoms_.rows - first);
            team.loop(blocks_of(stride_, share), [&](Index task) {
                const Index end = std::min(stride_, (task + 1) * share);
                for (Index at = task * share; at < end; at += width) {
                    apply_changes(at, std::min(width, end - at));
                    compute_gradients(first, count, at, std::min(width, end - at));
                }
            });
            moved_.clear();
            for (Index j = first; j < first + count; ++j) {
                if (masked())
                    move_by_features(j);
                else
                    move(j, std::int32_t(j - first));
            }
        }
        interrupt.poll();
    }

  private:
    Index start(Index j) const { return uses_.starts[std::size_t(j)]; }

    bool masked() const { return window_.observed.data != nullptr; }

    // r_i = x_i − Dα_i, zero where nothing was observed.
    void subtract_codes(Index from, Index end) {
        const Index m = atoms_.columns, width = kernels_.slice_width;
        for (Index r = from; r < end; ++r) {
            const T* const weights = negated_.data() + window_.pattern.start(r);
            for (Index at = 0; at < m; at += width) {
                const RowSum<T> sum = {atoms_.data + at, m, window_.pattern.support(r), weights, window_.pattern.count(r)};
                kernels_.add_slices(sum, std::min(width, m - at), T(1), window_.signals.row(r) + at, residuals_.data() + r * stride_ + at);
            }
            if (!masked()) continue;
            T *const residual = residuals_.data() + r * stride_, *const observed = observed_.data() + r * stride_;
            for (Index i = 0; i < m; ++i) {
                observed[i] = T(window_.observed.row(r)[i]);
                residual[i] *= observed[i];
            }
        }
    }

    // Takes the changes of the block before out of the residuals. In place: slices are whole vectors.
    void apply_changes(Index at, Index length) {
        for (const Moved& atom : moved_)
            for (Index use = atom.start; use < atom.end; ++use) {
                const T weight = -alpha_[std::size_t(use)];
                const Index row = uses_.rows[std::size_t(use)] * stride_ + at;
                T* const residual = residuals_.data() + row;
                if (masked()) {
                    const T *const change = changes_.data() + atom.place * stride_ + at, *const observed = observed_.data() + row;
                    for (Index i = 0; i < length; ++i) residual[i] += weight * change[i] * observed[i];
                    continue;
                }
                kernels_.add_slices({changes_.data() + at, stride_, &atom.place, &weight, 1}, length, T(1), residual, residual);
            }
    }

    // Σ_i w_i α_ij r_i for the atoms of a block, with the residuals before any of them moves.
    void compute_gradients(Index first, Index count, Index at, Index length) {
        for (Index j = first; j < first + count; ++j) {
            const RowSum<T> sum = {residuals_.data() + at, stride_, uses_.rows.data() + start(j), weighted_.data() + start(j),
                                   start(j + 1) - start(j)};
            kernels_.add_slices(sum, length, T(0), nullptr, gradients_.data() + (j - first) * stride_ + at);
            if (!masked()) continue;
            const RowSum<T> curvatures = {observed_.data() + at, stride_, uses_.rows.data() + start(j), squares_.data() + start(j),
                                          start(j + 1) - start(j)};
            kernels_.add_slices(curvatures, length, T(0), nullptr, feature_curvatures_.data() + at);
        }
    }

    // Moves the one atom of a block, where values are missing.
    void move_by_features(Index j) {
        const Index m = atoms_.columns;
        T *const atom = atoms_.row(j), *const gradient = gradients_.data();
        const T *const target = window_.targets.row(j), *const old = window_.curvatures.data() + j * m;
        for (Index i = 0; i < m; ++i) {
            gradient[i] += target[i] - old[i] * atom[i];
            feature_curvatures_[i] += old[i];
        }
        move_atom_by_features(atom, gradient, feature_curvatures_.data(), m, positive_, changes_.data());
        moved_.push_back({0, start(j), start(j + 1)});
    }

    // Moves an atom, after correcting its gradient for the atoms of the block that have moved before.
    void move(Index j, std::int32_t place) {
        const Index from = start(j), end = start(j + 1);
        const double old = double(window_.curvatures[std::size_t(j)]);
        double curvature = old;
        for (Index use = from; use < end; ++use) curvature += double(weighted_[std::size_t(use)]) * double(alpha_[std::size_t(use)]);
        if (!(curvature > double(std::numeric_limits<T>::min()))) return;
        others_.clear();
        overlaps_.clear();
        for (Index use = from; use < end; ++use) marks_[uses_.rows[std::size_t(use)]] = weighted_[std::size_t(use)];
        for (const Moved& other : moved_) {
            double overlap = 0;
            for (Index use = other.start; use < other.end; ++use)
                overlap += double(marks_[uses_.rows[std::size_t(use)]]) * double(alpha_[std::size_t(use)]);
            if (overlap == 0) continue;
            others_.push_back(other.place);
            overlaps_.push_back(T(overlap));
        }
        for (Index use = from; use < end; ++use) marks_[uses_.rows[std::size_t(use)]] = 0;
        kernels_.add_rows({changes_.data(), stride_, others_.data(), overlaps_.data(), Index(others_.size())}, correction_.data());
        T *const atom = atoms_.row(j), *const gradient = gradients_.data() + place * stride_;
        const T* const target = window_.targets.row(j);
        for (Index i = 0; i < atoms_.columns; ++i) gradient[i] += target[i] - T(old) * atom[i] - correction_[i];
        move_atom(atom, gradient, T(curvature), atoms_.columns, positive_, changes_.data() + place * stride_);
        moved_.push_back({place, from, end});
    }

    const Kernels<T>& kernels_ = instruction_set().kernels<T>();
    const MatrixView<T> atoms_;
    const Window<T>& window_;
    const bool positive_;
    const Index stride_;
    const ByAtom uses_;
    std::vector<T> negated_;           // −α_ij, signal by signal
    std::vector<T> alpha_, weighted_;  // α_ij and w_i α_ij, atom by atom
    std::vector<T> squares_;           // w_i α_ij², if values are missing
    Array<T> observed_;                // 1 or 0, if values are missing
    Array<T> feature_curvatures_;      // of the atom that moves, if values are missing
    Array<T> residuals_, gradients_, changes_, correction_;
    Array<T> marks_;            // w_i α_ij of the atom that moves, for each signal
    std::vector<Moved> moved_;  // atoms of the last block
    std::vector<std::int32_t> others_;
    std::vector<T> overlaps_;
};

}  // namespace

template <class T>
void update_atoms_on_window(MatrixView<T> atoms, const Window<T>& window, bool positive, int n_threads, Interrupt& interrupt) {
    Sweep<T> sweep(atoms, window, positive);
    const double rows = 3 * double(window.pattern.nonzeros()) + 2 * double(window.signals.rows);
    with_team(worthwhile_threads(n_threads, cost::per_row_feature * rows * double(atoms.columns)), &interrupt,
              [&](Team& team) { sweep.run(team, interrupt); });
}

template void update_atoms_on_window<float>(MatrixView<float>, const Window<float>&, bool, int, Interrupt&);
template void update_atoms_on_window<double>(MatrixView<double>, const Window<double>&, bool, int, Interrupt&);

}  // namespace taskdict
