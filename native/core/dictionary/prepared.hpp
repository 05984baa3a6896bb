// What learners and bindings know of a dictionary that is prepared for encoding, with or without its Gram matrix.
#pragma once

#include <span>
#include <vector>

#include "dictionary/code.hpp"
#include "system/interrupt.hpp"
#include "views.hpp"

namespace taskdict {

template <class T>
class Prepared {
  public:
    virtual ~Prepared() = default;

    virtual Index atoms() const = 0;
    virtual Index features() const = 0;
    virtual double scale() const = 0;  // σ, see scaled_dictionary.hpp

    // The lower triangle of M_ΛΛ of the scaled problem, row by row.
    virtual void gram_triangle(std::span<const std::int32_t> active, T* out) const = 0;

    // αᵀMα of the scaled problem, for α on Λ in the units of the scaled dictionary.
    virtual double energy(std::span<const std::int32_t> active, std::span<const T> alpha) const = 0;

    // β_Λ of the scaled problem in wider arithmetic, for active sets whose inverse is too inaccurate.
    virtual std::vector<T> solve(std::span<const std::int32_t> active, std::span<const T> g, Interrupt& interrupt) const = 0;

    // Atoms whose angle with an earlier one has at least this cosine, in magnitude unless codes are non-negative.
    virtual std::vector<std::int32_t> duplicates(double cosine) const = 0;
};

}  // namespace taskdict
