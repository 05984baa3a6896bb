#include "dictionary/first_line.hpp"

#include <algorithm>
#include <cmath>

#include "norms.hpp"

namespace taskdict {
namespace {

constexpr double float_roundoff = 0x1p-24, double_roundoff = 0x1p-53;
constexpr double more_than_double_roundoff = 1.2e-16;
constexpr double refinement_tolerance = 1e-12;
constexpr Index whole_vectors = 8;      // doubles in the widest vector of any instruction set
constexpr int max_rounds = 4;           // corrections of λ1
constexpr double near_end = 1e-3;       // a λ1 that may as well be zero, relative to the scale
constexpr double well_met = 0.1;        // share of the promise for a rule that a code may use without a correction
constexpr double settled_move = 1e-14;  // no further corrections below
constexpr double before_bend = 3e-6;    // relative to the scale
constexpr double small_move = 2e-5;     // a change of α or λ1 that leaves the single-precision code optimal, relative to the scale

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

// A bound on the error of ‖x − Dα‖², summed in double precision.
double error_of_squares(const RoundingBounds& bounds, Index m, double norm, double l1, Index k) {
    const double size = norm + l1 * bounds.atom;
    return more_than_double_roundoff * double(m + 2 * k + 16) * size * size;
}

// The point of a rule in single precision.
PathEnd<float> predict(const Gram<float>& gram, const float* c, const Summary& summary, bool positive, const PathStop& stop,
                       OwnedWorkspace<float>& workspace, Interrupt& interrupt) {
    const GramProblem<float> problem = {gram, c, summary.top, float(summary.scale), 0, positive};
    const Kernels<float>& kernels = instruction_set().single_precision;
    if (stop.goal.rule == Rule::n_nonzero)
        return run_path(kernels.follow_path, workspace, problem, stop, polling_settings(Method::homotopy, gram.atoms, true, interrupt));
    return run_path(kernels.bounded, workspace, problem, stop, polling_settings(Method::active_set, gram.atoms, true, interrupt));
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

FirstAttempt<float> FirstLine<float>::follow(const FastSignal<float>& signal, const PathStop& stop, Scratch& scratch, Interrupt& interrupt) const {
    const auto [x, c, norm, unused] = signal;
    const RoundingBounds& bounds = dictionary_.bounds();
    const Gram<float>& gram = fast_.gram().view();
    const Index m = dictionary_.features();
    const bool positive = parameters_.positive;
    Summary summary = summarise(FastSignal<float>{x, c, norm, 0}, gram.stride, bounds, positive);
    FirstAttempt<float> attempt;
    const PathEnd<float> end = predict(gram, c, summary, positive, stop, scratch.workspace, interrupt);
    attempt.code.steps = end.steps;
    attempt.near_end = end.outcome != Outcome::solved && end.lambda1 <= float(near_end) * float(summary.scale);
    if (end.outcome != Outcome::solved) return attempt;
    const Settings<float> settings = polling_settings(Method::active_set, gram.atoms, false, interrupt);
    Workspace<float>& w = scratch.workspace.view;
    if (scratch.residual.size() == 0) scratch.residual = Array<double>(round_up(m, whole_vectors));
    double lambda1 = double(end.lambda1);
    for (int round = 0; round < max_rounds; ++round) {
        const GramProblem<float> problem = {gram, c, summary.top, float(summary.scale), float(lambda1), positive};
        lambda1 = double(problem.lambda1);
        scratch.workspace.restart();
        Solution<float> solution = {Outcome::solved, 0, end.kkt};
        if (round > 0 || end.kkt < 0) solution = run(Method::active_set, scratch.workspace, problem, settings);
        attempt.code.steps += solution.steps;
        if (solution.outcome != Outcome::solved) return attempt;
        Code<float> code = {w.size, w.atoms, w.alpha, Status::converged, double(solution.kkt), attempt.code.steps, lambda1};
        double l1 = l1_norm(code), rounding = bounds.rounding(float_roundoff, norm, l1, w.size);
        double value = double(w.size), uncertain = 0, moved = 0;
        if (stop.goal.rule == Rule::max_error) {
            value = instruction_set().squared_error(w, dictionary_.data(), m, x, scratch.residual.data());
            uncertain = error_of_squares(bounds, m, norm, l1, w.size);
        } else if (stop.goal.rule == Rule::max_l1) {
            value = l1;
        }
        if (stop.goal.rule != Rule::n_nonzero && lambda1 > 0) {
            scratch.step.resize(std::size_t(w.size));
            const double change = correction(stop, lambda1, value, find_segment(w, w.alpha, scratch.step.data()));
            double lost = 0;
            bool keeps_signs = true;
            for (Index i = 0; i < w.size; ++i) {
                const double target = double(w.alpha[i]) - change * scratch.step[std::size_t(i)], delta = double(float(target)) - double(w.alpha[i]);
                keeps_signs = keeps_signs && float(target) * w.sign[i] > 0;
                moved += std::fabs(delta);
                lost -= 2 * delta * (lambda1 * double(w.sign[i]) + stop.lambda2 * double(w.alpha[i]));
            }
            const double shift = bounds.gram * moved + std::fabs(change);
            const bool small = keeps_signs && shift <= small_move * summary.scale;
            const bool needed = judge(stop, lambda1, value, uncertain, well_met * promised_kkt<float>) == Fulfilment::missed;
            if (!small && needed) {
                lambda1 += change;
                continue;
            }
            if (!small) moved = lost = 0;
            for (Index i = 0; i < w.size && small; ++i) w.alpha[i] = float(double(w.alpha[i]) - change * scratch.step[std::size_t(i)]);
            l1 = l1_norm(code);
            if (stop.goal.rule == Rule::max_error) {  // ρ on Λ is λ1 s up to the violation of Lemma 1 and rounding
                value += lost;
                uncertain += 2 * moved * (code.kkt * summary.scale + rounding) + bounds.gram * moved * moved;
            } else {
                value = l1;
            }
            if (small) {
                lambda1 = code.lambda1 += change;
                rounding += shift;
            }
        }
        const Fulfilment fulfilment = judge(stop, lambda1, value, uncertain, promised_kkt<float>);
        if (fulfilment == Fulfilment::missed) return attempt;
        if (fulfilment == Fulfilment::unmet) code.status = Status::unmet;
        attempt.code = code;
        const double promise = promised_kkt<float> * (summary.scale - summary.error);
        attempt.certified = code.kkt * summary.scale + rounding <= promise;
        if (attempt.certified) return attempt;
        const double violation = instruction_set().check_doubtful(
            w, {gram, dictionary_.data(), m, x, lambda1, dictionary_.lambda2(), positive, rounding}, scratch.residual.data());
        const double left =
            more_than_double_roundoff * (double(m / 2 + code.size + 16) * (norm + l1 * bounds.atom) * bounds.atom + stop.lambda2 * l1);
        attempt.code.kkt = violation / summary.scale;
        attempt.certified = violation + left <= promise;
        return attempt;
    }
    return attempt;
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

FirstAttempt<double> FirstLine<double>::follow(const FastSignal<double>& signal, const PathStop& stop, Scratch& scratch, Interrupt& interrupt) const {
    const auto [x, c, norm, unused] = signal;
    const RoundingBounds& bounds = dictionary_.bounds();
    const Gram<float>& gram = fast_.gram().view();
    const Index m = dictionary_.features();
    const bool positive = parameters_.positive;
    const Summary summary = summarise(FastSignal<double>{x, c, norm, 0}, gram.stride, bounds, positive);
    FirstAttempt<double> attempt;
    const PathEnd<float> end = predict(gram, c, summary, positive, stop, scratch.workspace, interrupt);
    attempt.code.steps = end.steps;
    attempt.near_end = end.outcome != Outcome::solved && end.lambda1 <= float(near_end) * float(summary.scale);
    if (end.outcome != Outcome::solved) return attempt;
    const Settings<float> settings = polling_settings(Method::active_set, gram.atoms, true, interrupt);
    double lambda1 = double(end.lambda1);
    if (end.next >= 0) lambda1 += before_bend * summary.scale;  // at the bend itself, the next atom may violate Lemma 1 by rounding
    const GramProblem<float> problem = {gram, c, summary.top, float(summary.scale), float(lambda1), positive};
    scratch.workspace.restart();
    if (end.kkt < 0) {
        const Solution<float> solution = run(Method::active_set, scratch.workspace, problem, settings);
        attempt.code.steps += solution.steps;
        if (solution.outcome != Outcome::solved) return attempt;
    }
    Workspace<float>& w = scratch.workspace.view;
    reserve(w.capacity, scratch.memory, scratch.buffers);
    const double* const alpha = scratch.buffers.alpha;
    for (int round = 0; round < max_rounds; ++round) {
        Code<double> code = {w.size, w.atoms, alpha, Status::converged, 0, attempt.code.steps, lambda1};
        const RefinementProblem refinement = {gram,     gram_.view(),         dictionary_.data(), m,          x, summary.scale, lambda1,
                                              positive, refinement_tolerance, summary.error,      bounds.gram};
        if (!instruction_set().refine(w, refinement, scratch.buffers, &code.kkt)) return attempt;
        const double l1 = l1_norm(code), rounding = bounds.rounding(double_roundoff, norm, l1, code.size);
        scratch.step.resize(std::size_t(w.size));
        const Segment segment = find_segment(w, alpha, scratch.step.data());
        double value = double(w.size), uncertain = 0, change = 0;
        if (stop.goal.rule == Rule::max_error) {
            scratch.residual.assign(x, x + m);
            for (Index i = 0; i < w.size; ++i) {
                const double* atom = dictionary_.data() + w.atoms[i] * m;
                for (Index f = 0; f < m; ++f) scratch.residual[std::size_t(f)] -= alpha[i] * atom[f];
            }
            value = squared_norm(scratch.residual.data(), m);
            uncertain = error_of_squares(bounds, m, norm, l1, w.size);
        } else if (stop.goal.rule == Rule::max_l1) {
            value = l1;
        } else if (end.next >= 0 && lambda1 > 0) {  // λ1 where ρ of the next atom reaches it
            double rho, slope = 0;
            instruction_set().double_precision.correlate_some(dictionary_.data(), m, x, &end.next, 1, &rho);
            const double* row = gram_.row(end.next);
            for (Index i = 0; i < w.size; ++i) {
                rho -= row[w.atoms[i]] * alpha[i];
                slope += row[w.atoms[i]] * scratch.step[std::size_t(i)];
            }
            const double sign = rho > 0 ? 1 : -1;
            change = sign * slope < 1 ? (sign * rho - lambda1) / (1 - sign * slope) : 0;
        }
        if (stop.goal.rule != Rule::n_nonzero && lambda1 > 0) change = correction(stop, lambda1, value, segment);
        if (!(std::fabs(change) <= small_move * summary.scale) || !(lambda1 + change >= 0)) return attempt;
        const Fulfilment fulfilment = judge(stop, lambda1, value, uncertain, promised_kkt<double>);
        const bool settled = std::fabs(change) <= settled_move * summary.scale || round == max_rounds - 1;
        if (!settled) {
            lambda1 += change;
            continue;
        }
        if (fulfilment == Fulfilment::missed) return attempt;
        if (fulfilment == Fulfilment::unmet) code.status = Status::unmet;
        attempt.code = code;
        attempt.certified = code.kkt * summary.scale + rounding <= promised_kkt<double> * (summary.scale - summary.error);
        return attempt;
    }
    return attempt;
}

}  // namespace taskdict
