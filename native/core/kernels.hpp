// The kernels as tables of functions, one table per instruction set, chosen once at run time.
#pragma once

#include "types.hpp"

namespace taskdict {

template <class T>
struct Extremes {
    T top = 0;        // largest entry, at least 0
    T magnitude = 0;  // largest magnitude
};

template <class T>
using Solver = Solution<T> (*)(Workspace<T>&, const Gram<T>&, const T* c, T top, T scale, T lambda1, bool positive, const Settings<T>&);

template <class T>
struct Kernels {
    Index panel_width;  // rows of products hold a multiple of this
    void (*pack_panels)(const T* atoms, Index p, Index m, T* packed);
    void (*multiply)(const T* x, Index x_stride, Index rows, const T* packed, Index m, Index p, Index first_panel, T* out, Index out_stride);
    void (*correlate_some)(const T* atoms, Index m, const T* x, const std::int32_t* list, Index count, T* out);
    void (*add_rows)(const T* table, Index stride, const std::int32_t* rows, const T* weights, Index count, T* out);
    Index slice_width;  // numbers that add_slices sums at once in registers
    void (*add_slices)(const T* table, Index stride, const std::int32_t* rows, const T* weights, Index count, Index length, T fade, const T* before,
                       T* after);
    Extremes<T> (*extremes)(const T* c, Index stride);
    Magnitude (*load_signal)(const T* x, Index step, Index m, T factor, T* out, float* narrow);  // out = factor · x
    Solver<T> active_set;
    Solver<T> homotopy;
};

struct InstructionSet {
    const char* name;
    Kernels<float> single_precision;
    Kernels<double> double_precision;
    bool (*refine)(Workspace<float>&, const Gram<float>&, const Gram<double>&, const double* atoms, Index m, const double* x, const Refinement&,
                   double scale, double lambda1, bool positive, double tolerance, double error, double gram_top, double* kkt);
    double (*check_doubtful)(Workspace<float>&, const Gram<float>&, const float* atoms, Index m, const float* x, double lambda1, double lambda2,
                             bool positive, double slack, double* residual);
    double (*accurate_residual)(const double* atoms, Index m, const double* x, const std::int32_t* list, const double* alpha, Index k, double* high,
                                double* low);
    void (*accurate_correlations)(const double* atoms, Index m, const double* high, const double* low, const std::int32_t* list, Index count,
                                  double* out, double* bounds);

    template <class T>
    const Kernels<T>& kernels() const {
        if constexpr (sizeof(T) == sizeof(float))
            return single_precision;
        else
            return double_precision;
    }
};

// The best set that this processor has; the environment variable TASKDICT_ISA names a lesser one, for tests.
const InstructionSet& instruction_set();

}  // namespace taskdict
