// Compiled once per instruction set, with TASKDICT_ISA naming it (see CMakeLists.txt).
#include "simd/kernels.hpp"

#include "simd/compensated.hpp"
#include "simd/double_products.hpp"
#include "simd/products.hpp"
#include "simd/row_sums.hpp"
#include "simd/scans.hpp"
#include "solve/active_set.hpp"
#include "solve/bounded.hpp"
#include "solve/homotopy.hpp"
#include "solve/path.hpp"
#include "solve/pursuit.hpp"
#include "solve/refine.hpp"

namespace taskdict::TASKDICT_ISA {
namespace {

static_assert(vector_bytes <= 64 && capacity_step % lanes<float> == 0, "arrays and workspaces hold whole vectors");

template <class T>
constexpr Kernels<T> table() {
    return {lanes<T>,
            panel_width<T>,
            pack_panels<T>,
            multiply<T>,
            correlate_some<T>,
            add_rows<T>,
            slice_vectors<T> * lanes<T>,
            add_slices<T>,
            extremes<T>,
            load_signal<T>,
            double_residual<T>,
            double_correlations<T>,
            solve_active_set<T>,
            solve_homotopy<T>,
            follow_path<T>,
            solve_bounded<T>,
            pursue<T>,
            correct<T>,
            strongest<T>,
            residual_of_code<T>};
}

}  // namespace

#define TASKDICT_TEXT(name) #name
#define TASKDICT_NAME(name) TASKDICT_TEXT(name)

extern const InstructionSet instructions;
const InstructionSet instructions = {
    TASKDICT_NAME(TASKDICT_ISA), table<float>(),           table<double>(), list_above, refine, check_doubtful, squared_error,
    compensated_residual,        compensated_correlations,
};

}  // namespace taskdict::TASKDICT_ISA
