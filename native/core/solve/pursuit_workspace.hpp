// The memory of a pursuit of one signal (pursuit.hpp), as plain pointers: the owner is in dictionary/matching_pursuit.
#pragma once

#include "types.hpp"

namespace taskdict {

// Owned and reused by the caller; the rows and c are aligned to 64 bytes.
template <class T>
struct PursuitWorkspace {
    Index capacity = 0;             // largest support it can hold
    Index size = 0;                 // k
    std::int32_t* atoms = nullptr;  // Λ, as they were chosen
    T* rows = nullptr;              // V = DᵀQ, times the pivots of R: products of all atoms with the basis, in rows as long as those of M
    T* c = nullptr;                 // the correlations of the residual with all atoms
    T* triangle = nullptr;          // R without its diagonal, in columns of `capacity`
    T* inverse_pivots = nullptr;    // the reciprocals of its diagonal
    T* along = nullptr;             // Qᵀx
    T* alpha = nullptr;             // the code
    T* scratch = nullptr;           // k numbers
    T largest_inverse = 0;          // of the pivots
    double squares = 0;             // ‖x‖², if the error matters
    double explained = 0;           // ‖Qᵀx‖²

    void clear() {
        size = 0;
        largest_inverse = 0;
        squares = explained = 0;
    }
};

}  // namespace taskdict
