// Rules: each chooses a point of the path α(λ1) of a signal, the codes at fixed λ2 from λmax = max |Dᵀx|, where α = 0, to λ1 = 0.
#pragma once

#include "types.hpp"

namespace taskdict {

enum class Rule : int {
    penalty = 0,    // the code at a given λ1
    n_nonzero = 1,  // the last point from which the path has never had more than so many nonzeros
    max_error = 2,  // ‖x − Dα‖² = ε
    max_l1 = 3,     // ‖α‖₁ = τ
};

// A rule with its amount for one signal: λ1, k, ε or τ.
struct Goal {
    Rule rule = Rule::penalty;
    double amount = 0;
};

// A rule with its amounts for a batch: one for all signals, or one per signal.
struct Goals {
    Rule rule = Rule::penalty;
    const double* amounts = nullptr;
    Index count = 0;

    Goal of(Index row) const { return {rule, amounts[count == 1 ? 0 : row]}; }
};

}  // namespace taskdict
