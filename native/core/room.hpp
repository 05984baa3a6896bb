// The memory of a Workspace.
#pragma once

#include <algorithm>

#include "memory.hpp"

namespace taskdict {

template <class T>
class Room {
  public:
    Room(Index p, Index stride, Index capacity) : found_(p + 64), position_(p), rho_(stride), slope_(stride) {
        std::fill_n(position_.data(), p, -1);
        view.found = found_.data();
        view.position = position_.data();
        view.rho = rho_.data();
        view.slope = slope_.data();
        grow(capacity);
        clear();
    }

    // Makes room for a larger support, and keeps the one that there is.
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
        view.previous = view.before = -1;
        view.digits = 1;
        view.work = 0;
        view.passes = 0;
        poison(rho_);
        poison(slope_);
        poison(inverse_);
        poison(vectors_);
        poison(found_);
    }

    Workspace<T> view;

  private:
    static constexpr Index n_vectors = 6;
    Array<std::int32_t> found_, position_, atoms_;
    Array<T> rho_, slope_, inverse_, vectors_;
};

}  // namespace taskdict
