#include "dictionary/first_line.hpp"

#include <algorithm>
#include <cmath>

namespace taskdict {
namespace {

constexpr double float_roundoff = 0x1p-24, double_roundoff = 0x1p-53;
constexpr double more_than_double_roundoff = 1.2e-16;
constexpr double refinement_tolerance = 1e-12;
constexpr Index whole_vectors = 8;  // doubles in the widest vector of any instruction set

// The correlations of a signal, summarised.
struct Summary {
    float top;     // largest correlation (largest magnitude unless codes are non-negative)
    double scale;  // max(λ1, ‖c‖∞) up to `error`
    double error;  // bound on the error of c
    bool is_zero;  // the code is zero for certain
};

template <class T>
Summary summarise(const FastSignal<T>& signal, Index stride, const RoundingBounds& bounds, bool positive) {
    const Extremes<float> extremes = instruction_set().single_precision.extremes(signal.c, stride);
    Summary summary;
    summary.top = positive ? extremes.top : extremes.magnitude;
    summary.scale = std::max(signal.lambda1, double(extremes.magnitude));
    summary.error = bounds.rounding(float_roundoff, signal.norm, 0, 0);
    summary.is_zero = signal.norm == 0 || double(summary.top) + summary.error < signal.lambda1;
    return summary;
}

Settings<float> polling_settings(Method method, Index p, bool predictor, Interrupt& interrupt) {
    Settings<float> settings = settings_for<float>(method, p, predictor);
    settings.poll = [](void* context) { static_cast<Interrupt*>(context)->poll(); };
    settings.context = &interrupt;
    return settings;
}

template <class T>
double l1_norm(const Code<T>& code) {
    double sum = 0;
    for (Index i = 0; i < code.size; ++i) sum += std::fabs(double(code.alpha[i]));
    return sum;
}

void reserve(Index capacity, Array<double>& memory, RefinementBuffers& buffers) {
    if (buffers.capacity >= capacity) return;
    memory = Array<double>(capacity * (capacity + 3));
    buffers.capacity = capacity;
    buffers.block = memory.data();
    buffers.alpha = buffers.block + capacity * capacity;
    buffers.c = buffers.alpha + capacity;
    buffers.residual = buffers.c + capacity;
}

}  // namespace

FirstLine<float>::FirstLine(const ScaledDictionary<float>& dictionary, const SecondLine<float>&, const Parameters& parameters, bool sparse,
                            int n_threads, Interrupt& interrupt)
    : dictionary_(dictionary),
      parameters_(parameters),
      fast_(dictionary.data(), dictionary.atoms(), dictionary.features(), dictionary.lambda2(), sparse, n_threads, interrupt) {}

FirstAttempt<float> FirstLine<float>::solve(const FastSignal<float>& signal, Scratch& scratch, Interrupt& interrupt) const {
    const auto [x, c, norm, lambda1] = signal;
    const RoundingBounds& bounds = dictionary_.bounds();
    const Gram<float>& gram = fast_.gram().view();
    const bool positive = parameters_.positive;
    const Summary summary = summarise(signal, gram.stride, bounds, positive);
    if (summary.is_zero) return {true, {}, {}};

    Settings<float> settings = polling_settings(parameters_.method, gram.atoms, false, interrupt);
    const GramProblem<float> problem = {gram, c, summary.top, float(summary.scale), float(lambda1), positive};
    scratch.workspace.clear();
    Solution<float> solution = run(parameters_.method, scratch.workspace, problem, settings);
    const bool slow = solution.outcome == Outcome::slow;
    if (slow) {
        const int steps = solution.steps;
        settings.max_steps = settings_for<float>(Method::homotopy, gram.atoms, false).max_steps;
        scratch.workspace.clear();
        solution = run(Method::homotopy, scratch.workspace, problem, settings);
        solution.steps += steps;
    }
    Workspace<float>& w = scratch.workspace.view;
    Code<float> code = {w.size, w.atoms, w.alpha, Status::converged, double(solution.kkt), solution.steps};
    if (solution.outcome == Outcome::solved) {
        // The scale of the report is ‖c‖∞ itself, from which that of the kernels differs by `error`.
        const double l1 = l1_norm(code), rounding = bounds.rounding(float_roundoff, norm, l1, code.size);
        const double promise = promised_kkt<float> * (summary.scale - summary.error);
        if (code.kkt * summary.scale + rounding <= promise) return {true, code, {}};
        const Index m = dictionary_.features();
        const double lambda2 = dictionary_.lambda2();
        if (scratch.residual.size() == 0) scratch.residual = Array<double>(round_up(m, whole_vectors));
        const double violation =
            instruction_set().check_doubtful(w, {gram, dictionary_.data(), m, x, lambda1, lambda2, positive, rounding}, scratch.residual.data());
        const double left = more_than_double_roundoff * double(m / 2 + code.size + 16) * (norm + l1 * bounds.atom) * bounds.atom +
                            more_than_double_roundoff * lambda2 * l1;
        code.kkt = violation / summary.scale;
        if (violation + left <= promise) return {true, code, {}};
    }
    return {false, code, slow ? Method::homotopy : parameters_.method};
}

FirstLine<double>::FirstLine(const ScaledDictionary<double>& dictionary, const SecondLine<double>& second, const Parameters& parameters, bool sparse,
                             int, Interrupt&)
    : dictionary_(dictionary),
      gram_(second.gram()),
      parameters_(parameters),
      fast_(dictionary.data(), second.gram(), dictionary.atoms(), dictionary.features(), sparse) {}

FirstAttempt<double> FirstLine<double>::solve(const FastSignal<double>& signal, Scratch& scratch, Interrupt& interrupt) const {
    const auto [x, c, norm, lambda1] = signal;
    const RoundingBounds& bounds = dictionary_.bounds();
    const Gram<float>& gram = fast_.gram().view();
    const bool positive = parameters_.positive;
    const Summary summary = summarise(signal, gram.stride, bounds, positive);
    if (summary.is_zero) return {true, {}, {}};
    if (parameters_.method == Method::homotopy) return {false, {}, Method::homotopy};  // the path itself is wanted in double

    const Settings<float> settings = polling_settings(Method::active_set, gram.atoms, true, interrupt);
    const GramProblem<float> problem = {gram, c, summary.top, float(summary.scale), float(lambda1), positive};
    scratch.workspace.clear();
    const Solution<float> solution = run(Method::active_set, scratch.workspace, problem, settings);
    Workspace<float>& w = scratch.workspace.view;
    reserve(w.capacity, scratch.memory, scratch.buffers);
    Code<double> code = {w.size, w.atoms, scratch.buffers.alpha, Status::converged, double(solution.kkt), solution.steps};
    const RefinementProblem refinement = {gram,    gram_.view(), dictionary_.data(),   dictionary_.features(), x,          summary.scale,
                                          lambda1, positive,     refinement_tolerance, summary.error,          bounds.gram};
    if (solution.outcome == Outcome::solved && instruction_set().refine(w, refinement, scratch.buffers, &code.kkt)) {
        const double rounding = bounds.rounding(double_roundoff, norm, l1_norm(code), code.size);
        if (code.kkt * summary.scale + rounding <= promised_kkt<double> * (summary.scale - summary.error)) return {true, code, {}};
    }
    return {false, code, solution.outcome == Outcome::slow ? Method::homotopy : Method::active_set};
}

}  // namespace taskdict
