#include "dictionary/double_solver.hpp"

#include <cmath>
#include <limits>

namespace taskdict {
namespace {

constexpr double unit_roundoff = 0x1p-53;
constexpr Index whole_vectors = 8;  // doubles in the widest vector of any instruction set

// Of the descent on accurate residuals. It starts near the solution and reaches it in few passes or not at all.
constexpr int careful_passes = 60;
// Residuals are measured, so that this needs no margin for their error.
constexpr double careful_violation = 5e-11;
// An inverse with an error of a tenth still leads to the solution.
constexpr double careful_dependence = 1e-13;

}  // namespace

DoubleSolver::Scratch::Scratch(const DoubleSolver& solver)
    : workspace(solver.gram_.view()),
      c(solver.gram_.view().stride),
      rho(c.size()),
      bounds(c.size()),
      high(round_up(solver.m_, whole_vectors)),
      low(high.size()),
      zeros(high.size()) {
    for (Index j = 0; j < solver.p_; ++j) all.push_back(std::int32_t(j));
}

DoubleSolver::DoubleSolver(const double* atoms, Index p, Index m, double lambda2, const RoundingBounds& bounds, int n_threads, Interrupt& interrupt)
    : isa_(instruction_set()),
      atoms_(atoms),
      p_(p),
      m_(m),
      lambda2_(lambda2),
      bounds_(bounds),
      gram_(atoms, pack(atoms, p, m), p, m, lambda2, n_threads, interrupt) {}

// Sets the scratch's rho for all atoms; returns a bound on the error of each.
double DoubleSolver::measure(const double* x, std::span<const std::int32_t> atoms, const double* alpha, Scratch& scratch) const {
    const CompensatedVector residual = {scratch.high.data(), scratch.low.data()};
    const double off = isa_.compensated_residual(x, {atoms_, m_, atoms.data(), alpha, Index(atoms.size())}, m_, residual);
    isa_.compensated_correlations(atoms_, p_, m_, residual, scratch.rho.data(), scratch.bounds.data());
    double bound = 0;
    for (Index j = 0; j < p_; ++j) bound = std::max(bound, scratch.bounds[j]);
    for (std::size_t i = 0; i < atoms.size() && lambda2_ != 0; ++i) {
        const double ridge = lambda2_ * alpha[i];
        double& rho = scratch.rho[atoms[i]];
        bound = std::max(bound, scratch.bounds[atoms[i]] + unit_roundoff * (std::fabs(ridge) + std::fabs(rho - ridge)));
        rho -= ridge;
    }
    return bound + bounds_.atom * off;
}

Certificate DoubleSolver::certify(const Target& target, std::span<const std::int32_t> atoms, std::span<const double> alpha, Scratch& scratch) const {
    const double lambda1 = target.lambda1;
    double bound = measure(target.x, {}, nullptr, scratch), scale = lambda1, worst = 0;
    for (Index j = 0; j < p_; ++j) scale = std::max(scale, std::fabs(scratch.rho[j]));
    if (!atoms.empty()) bound = measure(target.x, atoms, alpha.data(), scratch);
    for (std::size_t i = 0; i < atoms.size(); ++i) {
        double& rho = scratch.rho[atoms[i]];
        const double off = std::fabs(rho - std::copysign(lambda1, alpha[i]));
        if (!(off <= worst)) worst = off;
        if (target.positive && alpha[i] < 0) worst = std::numeric_limits<double>::infinity();
        rho = 0;  // seen
    }
    for (Index j = 0; j < p_; ++j) {
        const double rho = scratch.rho[j];
        worst = std::max(worst, (target.positive ? rho : std::fabs(rho)) - lambda1);
    }
    return Certificate::relative(worst, bound, scale);
}

// Whether a product of two entries may be too small for a double.
bool DoubleSolver::may_underflow(const double* x) const {
    const auto least = [](const double* values, Index count) {
        double result = std::numeric_limits<double>::infinity();
        for (Index i = 0; i < count; ++i)
            if (values[i] != 0) result = std::min(result, std::fabs(values[i]));
        return result;
    };
    return least(x, m_) * least(atoms_, p_ * m_) < underflow_limit;
}

DoubleSolver::Result DoubleSolver::solve(const Target& target, Method first, double promise, Scratch& scratch, Interrupt& interrupt) const {
    const Kernels<double>& kernels = isa_.double_precision;
    OwnedWorkspace<double>& workspace = scratch.workspace;
    Workspace<double>& w = workspace.view;
    double* const c = scratch.c.data();
    const Index stride = gram_.view().stride;
    kernels.correlate_some(atoms_, m_, target.x, scratch.all.data(), p_, c);
    const Extremes<double> extremes = kernels.extremes(c, stride);
    const double scale = std::max(target.lambda1, extremes.magnitude), top = target.positive ? extremes.top : extremes.magnitude;
    const auto problem = [&](double size) { return GramProblem<double>{gram_.view(), c, top, size, target.lambda1, target.positive}; };

    struct Context {
        const DoubleSolver& solver;
        const Target& target;
        Scratch& scratch;
        Interrupt& interrupt;
        double bound;
    } context = {*this, target, scratch, interrupt, 0};
    const auto settings = [&](Method method, bool careful) {
        Settings<double> result = settings_for<double>(method, p_, false);
        result.poll = [](void* pointer) { static_cast<Context*>(pointer)->interrupt.poll(); };
        result.context = &context;
        if (!careful) return result;
        result.careful = true;
        if (method == Method::active_set) result.max_steps = careful_passes;
        result.violation = careful_violation;
        result.dependence = careful_dependence;
        result.measure = [](void* pointer, const Workspace<double>& support, const double* weights, bool of_signal, double* out) {
            auto& [solver, target, scratch, interrupt, bound] = *static_cast<Context*>(pointer);
            interrupt.poll();
            const double* const x = of_signal ? target.x : scratch.zeros.data();
            const double off = solver.measure(x, {support.atoms, std::size_t(support.size)}, weights, scratch);
            if (of_signal) bound = off;
            std::copy_n(scratch.rho.data(), scratch.rho.size(), out);
        };
        return result;
    };
    double exact_scale = -1;  // max(λ1, ‖c‖∞) to the last digit

    Result result;
    const Method other = first == Method::homotopy ? Method::active_set : Method::homotopy;
    struct Attempt {
        Method method;
        bool careful;
    };
    for (const auto [method, careful] : {Attempt{first, false}, Attempt{other, false}, Attempt{Method::homotopy, true}}) {
        workspace.clear();
        Solution<double> solution = run(method, workspace, problem(scale), settings(method, careful));
        result.steps += solution.steps;
        const auto certified = [&](double bound, double size) {
            result.certificate = {solution.kkt, Certificate::relative(0, bound, size).bound};
            return result.solved = result.certificate.worst() <= promise;
        };
        double l1 = 0;
        for (Index i = 0; i < w.size; ++i) l1 += std::fabs(w.alpha[i]);
        if (certified(bounds_.rounding(unit_roundoff, target.norm, l1, w.size), scale)) return result;
        if (solution.outcome != Outcome::solved && !careful) continue;
        if (exact_scale < 0) {
            const double bound = measure(target.x, {}, nullptr, scratch);
            exact_scale = std::max(target.lambda1, kernels.extremes(scratch.rho.data(), stride).magnitude);
            if (exact_scale < underflow_limit && may_underflow(target.x)) return result;
            result.orthogonal = exact_scale <= bound;
            result.certificate = {0, bound};
            if (result.orthogonal) return result;
        }
        workspace.restart();
        solution = run(Method::active_set, workspace, problem(exact_scale), settings(Method::active_set, true));
        result.steps += solution.steps;
        result.accurate = true;
        if (certified(context.bound, exact_scale)) return result;
    }
    return result;
}

PathEnd<double> DoubleSolver::follow(const Target& target, const PathStop& stop, Scratch& scratch, Interrupt& interrupt) const {
    const Kernels<double>& kernels = isa_.double_precision;
    kernels.correlate_some(atoms_, m_, target.x, scratch.all.data(), p_, scratch.c.data());
    const Extremes<double> extremes = kernels.extremes(scratch.c.data(), gram_.view().stride);
    const double top = target.positive ? extremes.top : extremes.magnitude;
    Settings<double> settings = settings_for<double>(Method::homotopy, p_, false);
    settings.poll = [](void* pointer) { static_cast<Interrupt*>(pointer)->poll(); };
    settings.context = &interrupt;
    const GramProblem<double> problem = {gram_.view(), scratch.c.data(), top, extremes.magnitude, 0, target.positive};
    int steps = 0;
    if (stop.goal.rule != Rule::n_nonzero) {
        Settings<double> descent = settings_for<double>(Method::active_set, p_, false);
        descent.poll = settings.poll;
        descent.context = settings.context;
        const PathEnd<double> end = run_path(kernels.bounded, scratch.workspace, problem, stop, descent);
        if (end.outcome == Outcome::solved) return end;
        steps = end.steps;
    }
    PathEnd<double> end = run_path(kernels.follow_path, scratch.workspace, problem, stop, settings);
    end.steps += steps;
    return end;
}

}  // namespace taskdict
