// A workspace with its memory.
#pragma once

#include <algorithm>

#include "solve/solver.hpp"
#include "system/memory.hpp"

namespace taskdict {

template <class T>
class OwnedWorkspace {
  public:
    explicit OwnedWorkspace(const Gram<T>& gram) : found_(gram.atoms + list_margin), position_(gram.atoms), rho_(gram.stride), slope_(gram.stride) {
        std::fill_n(position_.data(), gram.atoms, -1);
        view.found = found_.data();
        view.position = position_.data();
        view.rho = rho_.data();
        view.slope = slope_.data();
        grow(std::min(gram.atoms, first_capacity));
        clear();
    }

    // Allocates memory for a larger support, and keeps the present one.
    void grow(Index capacity) {
        capacity = round_up(capacity, capacity_step);
        Array<T> inverse(capacity * capacity), vectors(n_vectors * capacity);
        Array<std::int32_t> atoms(capacity);
        const Index kept = round_up(view.size, capacity_step);
        T** const parts[n_vectors] = {&view.alpha, &view.sign, &view.residual, &view.step, &view.column, &view.product};
        for (Index i = 0; i < n_vectors; ++i) {
            T* const part = vectors.data() + i * capacity;
            if (kept > 0) std::copy_n(*parts[i], kept, part);
            *parts[i] = part;
        }
        for (Index i = 0; i < view.size; ++i) std::copy_n(view.inverse + i * view.capacity, kept, inverse.data() + i * capacity);
        if (kept > 0) std::copy_n(view.atoms, view.size, atoms.data());
        inverse_ = std::move(inverse);
        vectors_ = std::move(vectors);
        atoms_ = std::move(atoms);
        view.capacity = capacity;
        view.inverse = inverse_.data();
        view.atoms = atoms_.data();
    }

    void clear() {
        for (Index i = 0; i < view.size; ++i) view.position[view.atoms[i]] = -1;
        view.size = 0;
        view.digits = 1;
        view.work = 0;
        restart();
        poison(rho_);
        poison(slope_);
        poison(inverse_);
        poison(vectors_);
        poison(found_);
    }

    // Forgets the passes of earlier solves, but keeps the support.
    void restart() {
        view.previous = view.before = -1;
        view.passes = 0;
    }

    Workspace<T> view;

  private:
    static constexpr Index n_vectors = 6;
    static constexpr Index first_capacity = 64;
    static constexpr Index list_margin = 64;  // a row of M has padding
    Array<std::int32_t> found_, position_, atoms_;
    Array<T> rho_, slope_, inverse_, vectors_;
};

}  // namespace taskdict
