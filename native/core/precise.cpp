#include "precise.hpp"

#include <cmath>
#include <limits>

#include "threads.hpp"

namespace taskdict {

// Only the panels from the diagonal on are computed, then mirrored.
template <class S>
void fill_gram(const Kernels<S>& kernels, const S* atoms, const S* packed, Index p, Index m, S lambda2, S* rows, Index stride, int n_threads,
               Interrupt& interrupt) {
    const Index block = 48;
    n_threads = worthwhile_threads(n_threads, double(p) * double(p) * double(m) * 1e-5);
    in_threads((p + block - 1) / block, n_threads, &interrupt, [&](Index b) {
        interrupt.poll();
        const Index first = b * block, count = std::min(block, p - first);
        const Index panel = first / kernels.panel_width;
        kernels.multiply(atoms + first * m, m, count, packed, m, p, panel, rows + first * stride, stride);
        for (Index j = first + 1; j < p; ++j)  // in this order, what is read and what is written stays in the first-level cache
            for (Index i = first; i < std::min(first + count, j); ++i) rows[j * stride + i] = rows[i * stride + j];
        for (Index i = first; i < first + count; ++i) rows[i * stride + i] += lambda2;
    });
    interrupt.poll();
}

Precise::Scratch::Scratch(const Precise& precise)
    : room(precise.gram_.atoms, precise.gram_.stride, std::min<Index>(precise.gram_.atoms, 64)),
      c(precise.gram_.stride),
      rho(precise.gram_.stride),
      bounds(precise.gram_.stride),
      high(round_up(precise.m_, 8)),
      low(round_up(precise.m_, 8)),
      zeros(round_up(precise.m_, 8)) {
    std::fill_n(zeros.data(), zeros.size(), 0.0);
    for (Index j = 0; j < precise.gram_.atoms; ++j) all.push_back(std::int32_t(j));
}

Precise::Precise(const double* atoms, Index p, Index m, double lambda2, const Bounds& bounds, int n_threads, Interrupt& interrupt)
    : isa_(instruction_set()), atoms_(atoms), m_(m), lambda2_(lambda2), bounds_(bounds) {
    const Kernels<double>& kernels = isa_.double_precision;
    gram_ = {nullptr, p, padded_stride(p, kernels.panel_width, sizeof(double)), lambda2 == 0 ? std::min(m, p) : p};
    memory_ = Array<double>(p * gram_.stride);
    gram_.rows = memory_.data();
    fill_gram(kernels, atoms, pack(kernels, atoms, p, m).data(), p, m, lambda2, memory_.data(), gram_.stride, n_threads, interrupt);
}

// Sets the scratch's rho for all atoms; returns a bound on the error of each.
double Precise::measure(const double* x, const std::int32_t* list, const double* alpha, Index k, Scratch& scratch) const {
    const Index p = gram_.atoms;
    const double off = isa_.accurate_residual(atoms_, m_, x, list, alpha, k, scratch.high.data(), scratch.low.data());
    isa_.accurate_correlations(atoms_, m_, scratch.high.data(), scratch.low.data(), scratch.all.data(), p, scratch.rho.data(), scratch.bounds.data());
    double bound = 0;
    for (Index j = 0; j < p; ++j) bound = std::max(bound, scratch.bounds[j]);
    for (Index i = 0; i < k && lambda2_ != 0; ++i) {
        const double ridge = lambda2_ * alpha[i];
        double& rho = scratch.rho[list[i]];
        bound = std::max(bound, scratch.bounds[list[i]] + 0x1p-53 * (std::fabs(ridge) + std::fabs(rho - ridge)));
        rho -= ridge;
    }
    return bound + bounds_.atom * off;
}

Certificate Precise::certify(const Target& target, const std::int32_t* list, const double* alpha, Index k, Scratch& scratch) const {
    const double lambda1 = target.lambda1;
    double bound = measure(target.x, nullptr, nullptr, 0, scratch), scale = lambda1, worst = 0;
    for (Index j = 0; j < gram_.atoms; ++j) scale = std::max(scale, std::fabs(scratch.rho[j]));
    if (k > 0) bound = measure(target.x, list, alpha, k, scratch);
    for (Index i = 0; i < k; ++i) {
        double& rho = scratch.rho[list[i]];
        const double off = std::fabs(rho - std::copysign(lambda1, alpha[i]));
        if (!(off <= worst)) worst = off;
        if (target.positive && alpha[i] < 0) worst = std::numeric_limits<double>::infinity();
        rho = 0;  // seen
    }
    for (Index j = 0; j < gram_.atoms; ++j) {
        const double rho = scratch.rho[j];
        worst = std::max(worst, (target.positive ? rho : std::fabs(rho)) - lambda1);
    }
    return Certificate::relative(worst, bound, scale);
}

// Whether a product of two entries may be too small for a double.
bool Precise::may_underflow(const double* x) const {
    const auto least = [](const double* values, Index count) {
        double result = std::numeric_limits<double>::infinity();
        for (Index i = 0; i < count; ++i)
            if (values[i] != 0) result = std::min(result, std::fabs(values[i]));
        return result;
    };
    return least(x, m_) * least(atoms_, gram_.atoms * m_) < smallest;
}

Precise::Result Precise::solve(const Target& target, Method first, double promise, Scratch& scratch, Interrupt& interrupt) const {
    const Kernels<double>& kernels = isa_.double_precision;
    Room<double>& room = scratch.room;
    double* const c = scratch.c.data();
    kernels.correlate_some(atoms_, m_, target.x, scratch.all.data(), gram_.atoms, c);
    const Extremes<double> extremes = kernels.extremes(c, gram_.stride);
    const double scale = std::max(target.lambda1, extremes.magnitude);

    struct Context {
        const Precise& precise;
        const Target& target;
        Scratch& scratch;
        Interrupt& interrupt;
        double bound;
    } context = {*this, target, scratch, interrupt, 0};
    const auto settings = [&](Method method, bool careful) {
        Settings<double> result = settings_for<double>(method, gram_.atoms, false);
        result.poll = [](void* pointer) { static_cast<Context*>(pointer)->interrupt.poll(); };
        result.context = &context;
        if (!careful) return result;
        result.careful = true;
        if (method == Method::active_set) result.max_steps = 60;  // from near the solution; it gets there soon or not at all
        result.violation = 5e-11;                                 // measured, so that no margin is needed for its error
        result.dependence = 1e-13;                                // an inverse that is off by a tenth still leads to the solution
        result.measure = [](void* pointer, const Workspace<double>& w, const double* weights, bool of_signal, double* out) {
            auto& [precise, target, scratch, interrupt, bound] = *static_cast<Context*>(pointer);
            interrupt.poll();
            const double off = precise.measure(of_signal ? target.x : scratch.zeros.data(), w.atoms, weights, w.size, scratch);
            if (of_signal) bound = off;
            std::copy_n(scratch.rho.data(), precise.gram_.stride, out);
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
        room.clear();
        Solution<double> solution = run(method, room, gram_, c, extremes, scale, target.lambda1, target.positive, settings(method, careful));
        result.steps += solution.steps;
        const auto certified = [&](double bound, double size) {
            result.certificate = {solution.kkt, Certificate::relative(0, bound, size).bound};
            return result.solved = result.certificate.worst() <= promise;
        };
        double l1 = 0;
        for (Index i = 0; i < room.view.size; ++i) l1 += std::fabs(room.view.alpha[i]);
        if (certified(bounds_.rounding(0x1p-53, target.norm, l1, room.view.size), scale)) return result;
        if (solution.outcome != Outcome::solved && !careful) continue;
        if (exact_scale < 0) {
            const double bound = measure(target.x, nullptr, nullptr, 0, scratch);
            exact_scale = std::max(target.lambda1, kernels.extremes(scratch.rho.data(), gram_.stride).magnitude);
            if (exact_scale < smallest && may_underflow(target.x)) return result;
            result.orthogonal = exact_scale <= bound;
            result.certificate = {0, bound};
            if (result.orthogonal) return result;
        }
        room.view.passes = 0;
        room.view.previous = room.view.before = -1;
        solution =
            run(Method::active_set, room, gram_, c, extremes, exact_scale, target.lambda1, target.positive, settings(Method::active_set, true));
        result.steps += solution.steps;
        result.accurate = true;
        if (certified(context.bound, exact_scale)) return result;
    }
    return result;
}

template void fill_gram(const Kernels<float>&, const float*, const float*, Index, Index, float, float*, Index, int, Interrupt&);
template void fill_gram(const Kernels<double>&, const double*, const double*, Index, Index, double, double*, Index, int, Interrupt&);

}  // namespace taskdict
