// The memory that the kernels work in, as plain pointers: owned_workspace.hpp and the first line own it.
#pragma once

#include "types.hpp"

namespace taskdict {

// A workspace holds a multiple of this many atoms, whatever the width of a vector.
inline constexpr Index capacity_step = 16;

// The support Λ of one signal and its solution, owned and reused by the caller; every array is aligned to 64 bytes.
template <class T>
struct Workspace {
    Index capacity = 0;                // largest support it can hold
    Index size = 0;                    // k = |Λ|
    T* inverse = nullptr;              // (M_ΛΛ)⁻¹, rows of `capacity`; zero right of column k up to a whole vector
    T* alpha = nullptr;                // coefficients
    T* sign = nullptr;                 // their signs, ±1
    T* residual = nullptr;             // c_Λ − M_ΛΛ α − λ1 s
    T* step = nullptr;                 // inverse · residual
    T* column = nullptr;               // scratch: a column of M_Λ
    T* product = nullptr;              // scratch: inverse · column
    std::int32_t* atoms = nullptr;     // Λ, in no order
    std::int32_t* found = nullptr;     // scratch: atoms or places in Λ (p entries)
    std::int32_t* position = nullptr;  // the place of an atom in Λ, or −1 (p entries)
    T* rho = nullptr;                  // c − M α for all atoms (a row of M long)
    T* slope = nullptr;                // scratch of the homotopy (a row of M long)
    T previous = -1;                   // residual on Λ before the last pass if that pass only corrected it, else −1
    T digits = 1;                      // share of the digits of the inverse that removals have not cost (double precision)
    T before = -1;                     // worst violation before the last pass
    double work = 0;                   // multiply-adds so far
    int passes = 0;                    // so far
};

// Memory of the refinement to double precision (refine.hpp) of one signal.
struct RefinementBuffers {
    Index capacity = 0;
    double* alpha = nullptr;     // the result, in the order of Workspace::atoms
    double* c = nullptr;         // c_Λ − λ1 s
    double* residual = nullptr;  // c_Λ − λ1 s − M_ΛΛ α
    double* block = nullptr;     // M_ΛΛ, rows of `capacity`
};

}  // namespace taskdict
