// The kernels as tables of functions, one table per instruction set, chosen once at run time.
#pragma once

#include "solve/pursuit_workspace.hpp"
#include "solve/solver.hpp"

namespace taskdict {

// Features that the products sum in one go.
inline constexpr Index slice_length = 256;

// out[r, j] = Σ_i x[r, i] · atoms[j, i] for the atoms j < p, from the first of `first_panel` on. Rows of `out` are aligned and hold
// whole vectors.
template <class T>
struct PanelProduct {
    const T* x;
    Index x_stride;
    Index rows;
    const T* packed;  // the atoms, as pack_panels wrote them
    Index m;
    Index p;
    Index first_panel;
    T* out;
    Index out_stride;
};

// Σ_i weights[i] · table[rows[i]] for rows of `stride` numbers.
template <class T>
struct RowSum {
    const T* table;
    Index stride;
    const std::int32_t* rows;
    const T* weights;
    Index count;
};

template <class T>
struct Extremes {
    T top = 0;        // largest entry, at least 0
    T magnitude = 0;  // largest magnitude
};

// Loading a signal also measures it.
struct Magnitude {
    double top = 0;      // largest magnitude; NaN if an entry is not finite
    double squares = 0;  // ‖x‖²
};

// A vector high + low to twice the precision of double, in whole vectors of the processor.
struct CompensatedVector {
    double* high;
    double* low;
};

// A single-precision solution to refine to double precision.
struct RefinementProblem {
    const Gram<float>& gram_fast;
    const Gram<double>& gram;
    const double* atoms;
    Index m;
    const double* x;
    double scale;  // max(λ1, ‖c‖∞)
    double lambda1;
    bool positive;
    double tolerance;          // accepted violation, relative to the scale
    double correlation_error;  // bound on the error of the single-precision c
    double largest_gram;       // bound on the entries of M
};

// A single-precision solution to check in double precision.
struct DoubtfulProblem {
    const Gram<float>& gram;
    const float* atoms;
    Index m;
    const float* x;
    double lambda1;
    double lambda2;
    bool positive;
    double slack;  // bound on the error of the single-precision ρ
};

// A pursuit (solve/pursuit.hpp) of one signal. M and c are those of atoms with norm one, zero for zero atoms.
template <class T>
struct PursuitProblem {
    const Gram<T>& gram;
    const T* c;        // Dᵀx, a row of M long
    const T* atoms;    // p × m, of any norms
    const T* weights;  // 1 / ‖d_j‖
    Index m;
    const T* x;
    double norm;  // ‖x‖, or a little more
    Index max_nonzero;
    double max_error;     // of ‖x − Dα‖²; negative if there is no such rule
    void (*poll)(void*);  // called with `context` now and then; may throw
    void* context;
};

enum class Pursued : int {
    done,      // the support is as large as it may be, or the error as small as it has to be
    doubtful,  // what comes next is beyond this arithmetic
    full,      // the workspace is too small; grow it and call again
};

template <class T>
struct Strongest {
    T score;
    std::int32_t atom;  // −1 if all scores are zero
};

// A code to measure in double precision.
template <class T>
struct CodeMeasurement {
    const T* atoms;  // p × m
    Index m;
    const T* x;
    const std::int32_t* list;
    const T* alpha;
    Index k;
};

template <class T>
using Solver = Solution<T> (*)(Workspace<T>&, const GramProblem<T>&, const Settings<T>&);

template <class T>
using PathFollower = PathEnd<T> (*)(Workspace<T>&, const GramProblem<T>&, const PathStop&, const Settings<T>&);

template <class T>
struct Kernels {
    Index vector_width;  // rows of products hold a multiple of this
    Index panel_width;   // packed atoms are a multiple of this
    void (*pack_panels)(const T* atoms, Index p, Index m, T* packed);
    void (*multiply)(const PanelProduct<T>&);
    void (*correlate_some)(const T* atoms, Index m, const T* x, const std::int32_t* list, Index count, T* out);
    void (*add_rows)(const RowSum<T>&, T* out);
    Index slice_width;  // numbers that add_slices sums at once in registers
    void (*add_slices)(const RowSum<T>&, Index length, T fade, const T* before, T* after);
    Extremes<T> (*extremes)(const T* c, Index stride);
    Magnitude (*load_signal)(const T* x, Index step, Index m, T factor, T* out, float* narrow);  // out = factor · x
    void (*double_residual)(const T* atoms, Index m, const T* x, const std::int32_t* list, const double* weights, Index count, double* out);
    void (*double_correlations)(const T* atoms, Index m, const double* r, const std::int32_t* list, Index count, double* out);
    Solver<T> active_set;
    Solver<T> homotopy;
    PathFollower<T> follow_path;
    PathFollower<T> bounded;  // only for max_error and max_l1; ends at λ1 > 0, or is stuck
    Pursued (*pursue)(PursuitWorkspace<T>&, const PursuitProblem<T>&, double* residual);
    void (*correct)(PursuitWorkspace<T>&, const T* weights, const double* correlations);
    Strongest<T> (*strongest)(const T* c, const T* weights, Index count);
    double (*residual_of_code)(const CodeMeasurement<T>&, double* residual);
};

struct InstructionSet {
    const char* name;
    Kernels<float> single_precision;
    Kernels<double> double_precision;
    Index (*list_above)(const float* row, Index count, float bound, bool positive, std::int32_t* list);
    bool (*refine)(Workspace<float>&, const RefinementProblem&, const RefinementBuffers&, double* kkt);
    double (*check_doubtful)(Workspace<float>&, const DoubtfulProblem&, double* residual);
    double (*squared_error)(const Workspace<float>&, const float* atoms, Index m, const float* x, double* residual);
    double (*compensated_residual)(const double* x, const RowSum<double>& combination, Index m, const CompensatedVector& residual);
    void (*compensated_correlations)(const double* atoms, Index p, Index m, const CompensatedVector& residual, double* out, double* bounds);

    template <class T>
    const Kernels<T>& kernels() const {
        if constexpr (sizeof(T) == sizeof(float))
            return single_precision;
        else
            return double_precision;
    }
};

// The fastest instruction set of this processor; the environment variable TASKDICT_ISA selects another by name, for tests. One that
// the processor does not have is an error, in the first call.
const InstructionSet& instruction_set();

}  // namespace taskdict
