// Compiled once per instruction set, with TASKDICT_ISA naming it (see CMakeLists.txt).
#include "simd/kernels.hpp"

#include "simd/compensated.hpp"
#include "simd/products.hpp"
#include "simd/row_sums.hpp"
#include "simd/scans.hpp"
#include "solve/active_set.hpp"
#include "solve/homotopy.hpp"
#include "solve/refine.hpp"

namespace taskdict::TASKDICT_ISA {
namespace {

static_assert(vector_bytes <= 64 && capacity_step % lanes<float> == 0, "arrays and workspaces hold whole vectors");

template <class T>
constexpr Kernels<T> table() {
    return {lanes<T>,      panel_width<T>, pack_panels<T>, multiply<T>,         correlate_some<T>, add_rows<T>, slice_vectors<T> * lanes<T>,
            add_slices<T>, extremes<T>,    load_signal<T>, solve_active_set<T>, solve_homotopy<T>};
}

}  // namespace

#define TASKDICT_TEXT(name) #name
#define TASKDICT_NAME(name) TASKDICT_TEXT(name)

extern const InstructionSet instructions;
const InstructionSet instructions = {
    TASKDICT_NAME(TASKDICT_ISA), table<float>(), table<double>(), refine, check_doubtful, compensated_residual, compensated_correlations,
};

}  // namespace taskdict::TASKDICT_ISA
