// Bounds on the rounding of the kernels, from the norms of a dictionary.
#pragma once

#include "types.hpp"

namespace taskdict {

// The largest norms in a dictionary, for bounds on rounding.
struct RoundingBounds {
    double atom = 0;     // ‖d_j‖
    double gram = 0;     // ‖d_j‖² + λ2
    Index summands = 0;  // the longest chain of additions in a product of the kernels

    // How far ρ = c − Mα, as the kernels compute it with unit roundoff u, can be from the truth.
    double rounding(double u, double norm, double l1, Index k) const {
        const double products = double(summands + 4) * atom * (norm + l1 * atom), sum = double(k / 2 + 6) * l1 * gram;
        return 1.01 * u * (products + sum);
    }
};

}  // namespace taskdict
