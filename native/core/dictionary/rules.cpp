// Codes at the point of the path that a rule chooses:
//
//     path or descent in single precision (first_line.hpp) ──► in double precision ──► search for λ1
//
// Each ends with a certified code at its λ1. The search serves ties, dependent atoms and extreme scales: it brackets λ1 and solves the
// penalised problem, by all three lines, at each point it visits.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "dictionary/encoder.hpp"
#include "norms.hpp"
#include "solve/wide.hpp"

namespace taskdict {
namespace {

constexpr int max_visits = 200;
constexpr double negligible_lambda1 = 1e-14;  // relative to λmax: as good as zero
constexpr double well_met = 0.01;             // share of the promise at which the search ends

// The amount of a rule in the units of the scaled problem: x = τ x', D = σ D', α = (τ/σ) α'.
Goal scaled(const Goal& goal, double signal_scale, double dictionary_scale) {
    switch (goal.rule) {
        case Rule::max_error: return {goal.rule, goal.amount / signal_scale / signal_scale};
        case Rule::max_l1: return {goal.rule, goal.amount / signal_scale * dictionary_scale};
        default: return goal;
    }
}

}  // namespace

// Finds the point of a rule by codes at many λ1.
template <class T>
class Encoder<T>::RuleSearch {
    using W = Wide<T>;

  public:
    RuleSearch(const Encoder& encoder, const FastSignal<T>& signal, bool wide, const PathStop& stop, Scratch& scratch, Interrupt& interrupt)
        : encoder_(encoder), signal_(signal), wide_(wide), stop_(stop), scratch_(scratch), interrupt_(interrupt) {}

    // True if the rule is met at λ1 = 0, or cannot be.
    bool ends_at_zero() { return at_zero_ || (at_zero_ = visit(0)); }

    // `guess` is where the path in double precision has ended, or negative.
    Code<T> find(double top, double guess, int steps) {
        steps_ += steps;
        top_ = top;
        bool done = at_zero_ || (guess >= 0 && visit(guess));
        // At the bend itself the next atom may have a coefficient by rounding.
        for (double above = sizeof(T) == 4 ? 1e-7 : 1e-13; !done && guess > 0 && stop_.goal.rule == Rule::n_nonzero && above < 1e-5; above *= 10)
            done = visit(guess + above * top);
        if (!done) done = visit(0);
        if (!done && stop_.goal.rule == Rule::n_nonzero)
            bisect(top);
        else if (!done)
            narrow(top);
        const bool sound = best_.fulfilment != Fulfilment::missed;
        scratch_.code.atoms = std::move(best_.atoms);
        scratch_.code.alpha = std::move(best_.alpha);
        scratch_.line = Scratch::Line::third;
        Status status = best_.fulfilment == Fulfilment::unmet ? Status::unmet : best_.status;
        if (!sound || best_.status == Status::inexact) status = Status::inexact;
        return {Index(scratch_.code.atoms.size()), scratch_.code.atoms.data(), scratch_.code.alpha.data(), status, best_.kkt, steps_, best_.lambda1};
    }

  private:
    struct Point {
        std::vector<std::int32_t> atoms;
        std::vector<T> alpha;
        Status status = Status::exact;
        double kkt = 0;
        double lambda1 = 0;
        double off = 0;  // of the amount; grows with λ1 for max_error, falls for the others
        Fulfilment fulfilment = Fulfilment::missed;
    };

    // Solves at λ1. True if that is the point.
    bool visit(double lambda1) {
        interrupt_.poll();
        FastSignal<T> signal = signal_;
        signal.lambda1 = lambda1;
        const Code<T> code = encoder_.encode_at(signal, wide_, scratch_, interrupt_);
        steps_ += code.steps;
        Point point = {{code.atoms, code.atoms + code.size}, {code.alpha, code.alpha + code.size}, code.status, code.kkt, lambda1};
        double value = 0, bound = 0, l1 = 0;
        for (const T alpha : point.alpha) l1 += std::fabs(double(alpha));
        if (stop_.goal.rule == Rule::max_error) {
            const Problem<T> problem = encoder_.problem(signal.x, lambda1);
            const std::vector<W> error = reconstruction_error<W>(problem, std::span<const std::int32_t>(point.atoms), point.alpha);
            value = double(dot<W>(error.data(), error));
            const double size = signal.norm + l1 * encoder_.dictionary_.bounds().atom;
            bound = double(std::numeric_limits<W>::epsilon()) * double(problem.m + 2 * code.size + 16) * size * size;
        } else if (stop_.goal.rule == Rule::max_l1) {
            value = l1;
        } else {
            value = double(std::count_if(point.alpha.begin(), point.alpha.end(), [](T alpha) { return alpha != 0; }));
        }
        point.off = value - stop_.goal.amount;
        point.fulfilment = judge(stop_, lambda1, value, bound, promised_kkt<T>);
        // A code at a λ1 below what is promised is one at λ1 = 0 too. There, ‖α‖₁ may be below τ.
        if (stop_.goal.rule == Rule::max_l1 && value <= stop_.goal.amount && lambda1 <= promised_kkt<T> / 2 * top_) {
            point.fulfilment = Fulfilment::met;
            if (top_ > 0) point.kkt += lambda1 / top_;
            point.lambda1 = 0;
        }
        last_ = point.off;
        const bool first = best_.lambda1 < 0, counts = stop_.goal.rule == Rule::n_nonzero;
        const bool better = counts ? point.off <= 0 : std::fabs(point.off) < std::fabs(best_.off);
        const bool found = point.fulfilment != Fulfilment::missed && point.status != Status::inexact;
        if (first || better || found) best_ = std::move(point);
        return found;
    }

    // The least λ1 found at which there are few enough nonzeros.
    void bisect(double top) {
        const double tolerance = sizeof(T) == 4 ? 1e-7 : 1e-13;
        double low = 0, high = top;
        best_ = Point();  // the zero code
        best_.lambda1 = high;
        best_.fulfilment = Fulfilment::met;
        for (int visits = 0; visits < max_visits && high - low > tolerance * high && high > negligible_lambda1 * top; ++visits) {
            const double middle = low > 0 && high > 4 * low ? std::sqrt(low * high) : low + (high - low) / 2;
            if (!(low < middle && middle < high)) break;
            visit(middle);
            (last_ <= 0 ? high : low) = middle;
        }
    }

    // The λ1 at which the amount is reached, by false position (with halved weights) and bisection in turns.
    void narrow(double top) {
        const double sign = stop_.goal.rule == Rule::max_error ? 1 : -1;
        const double unit = stop_.goal.rule == Rule::max_error ? stop_.squares : stop_.goal.amount;
        double low = 0, high = top, at_low = sign * last_, at_high = sign > 0 ? stop_.squares - stop_.goal.amount : stop_.goal.amount;
        const double enough = well_met * promised_kkt<T> * unit;
        int side = 0;
        for (int visits = 0; visits < max_visits && std::fabs(last_) > enough; ++visits) {
            double next = low + (high - low) / 2;
            if (visits % 4 != 3 && at_low < 0 && at_high > 0) next = high - at_high * ((high - low) / (at_high - at_low));
            if (!(low < next && next < high)) next = low + (high - low) / 2;
            if (!(low < next && next < high) || high < negligible_lambda1 * top) break;
            if (visit(next)) break;
            const double here = sign * last_;
            if (here > 0) {
                high = next, at_high = here;
                if (side > 0) at_low /= 2;
                side = 1;
            } else {
                low = next, at_low = here;
                if (side < 0) at_high /= 2;
                side = -1;
            }
        }
        // A norm that stays below τ however small λ1 is: the end of the path.
        if (best_.fulfilment == Fulfilment::missed && sign < 0 && high <= negligible_lambda1 * top) {
            best_.lambda1 = -1;  // this point is wanted, though others may be nearer to τ
            visit(high);
            if (last_ <= 0) best_.fulfilment = Fulfilment::met;
        }
    }

    const Encoder& encoder_;
    const FastSignal<T>& signal_;
    const bool wide_;
    const PathStop& stop_;
    Scratch& scratch_;
    Interrupt& interrupt_;
    Point best_ = {{}, {}, Status::exact, 0, -1, 0, Fulfilment::missed};
    double last_ = 0;       // `off` of the last visit
    bool at_zero_ = false;  // the best point is at λ1 = 0, and good
    double top_ = 0;        // λmax
    int steps_ = 0;
};

// λmax, the least λ1 at which the code is zero.
template <class T>
double Encoder<T>::largest_lambda1(const FastSignal<T>& signal, bool wide) const {
    const Index p = atoms(), m = features();
    const bool all = wide || dictionary_.only_exact(), positive = parameters_.positive;
    const auto size = [positive](auto value) { return positive ? value : std::fabs(value); };
    double top = 0, least = 0;
    if (!all) {
        for (Index j = 0; j < p; ++j) top = std::max(top, double(size(signal.c[j])));
        least = top - 2 * dictionary_.bounds().rounding(0x1p-24, signal.norm, 0, 0);
        top = 0;
    }
    for (Index j = 0; j < p; ++j)
        if (all || double(size(signal.c[j])) >= least) top = std::max(top, double(size(dot<Wide<T>>(dictionary_.data() + j * m, signal.x, m))));
    return top;
}

template <class T>
Code<T> Encoder<T>::encode_rule(const FastSignal<T>& signal, const Loaded& loaded, const Goal& goal, Scratch& scratch, Interrupt& interrupt) const {
    const PathStop stop = {scaled(goal, loaded.scale, scale()), squared_norm(signal.x, features()), dictionary_.lambda2()};
    scratch.line = Scratch::Line::first;
    if (stop.squares == 0 || (goal.rule == Rule::max_error ? stop.squares <= stop.goal.amount : stop.goal.amount == 0)) {
        const bool underflow = stop.squares == 0 && loaded.norm != 0;
        return {0, nullptr, nullptr, underflow ? Status::inexact : Status::converged, 0, 0, largest_lambda1(signal, loaded.wide)};
    }
    int steps = 0;
    double guess = -1;
    RuleSearch search(*this, signal, loaded.wide, stop, scratch, interrupt);
    if (!dictionary_.only_exact() && !loaded.wide) {
        const FirstAttempt<T> attempt = first_.follow(signal, stop, scratch.first, interrupt);
        if (attempt.certified) return attempt.code;
        steps = attempt.code.steps;
        if (attempt.near_end && search.ends_at_zero()) return search.find(0, 0, steps);
        if (const DoubleSolver* const solver = second_.solver(interrupt)) {
            if (!scratch.second.solver) scratch.second.solver = std::make_unique<DoubleSolver::Scratch>(*solver);
            const Target target = {second_.widen(signal.x, scratch.second), signal.norm, 0, parameters_.positive};
            const PathEnd<double> end = solver->follow(target, stop, *scratch.second.solver, interrupt);
            steps += end.steps;
            if (end.outcome == Outcome::solved) guess = end.lambda1;
        }
    }
    return search.find(largest_lambda1(signal, loaded.wide), guess, steps);
}

template Code<float> Encoder<float>::encode_rule(const FastSignal<float>&, const Loaded&, const Goal&, Scratch&, Interrupt&) const;
template Code<double> Encoder<double>::encode_rule(const FastSignal<double>&, const Loaded&, const Goal&, Scratch&, Interrupt&) const;

}  // namespace taskdict
