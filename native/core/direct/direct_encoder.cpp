#include "direct/direct_encoder.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "batch/blocks.hpp"
#include "direct/local_solver.hpp"
#include "direct/top_list.hpp"
#include "norms.hpp"
#include "solve/certify.hpp"
#include "solve/exact.hpp"
#include "solve/least_norm.hpp"
#include "system/cost_model.hpp"

namespace taskdict {
namespace {

constexpr double float_roundoff = 0x1p-24;
constexpr double more_than_double_roundoff = 1.2e-16;
constexpr Index first_candidates = 128;  // of a signal
constexpr float listed_share = 0.5f;     // of λ1: smaller correlations with a residual are not listed
constexpr int max_rounds = 100;          // products per signal, before all atoms become candidates of the third line
constexpr Index most_with_gram = 8192;   // atoms whose Gram matrix a signal may have made, if most of them are active
constexpr Index atom_piece = 512;        // atoms in a product: the result stays in the second-level cache
constexpr Index max_block = 256;         // signals in a product, which share the reading of the dictionary
constexpr Index tile_multiple = 12;      // whole tiles of the product
constexpr Index packed_rows = 16;        // signals of a small dictionary that are worth a packed copy

// Violations of Lemma 1 that a code may leave, relative to max(λ1, ‖c‖∞). Those of a code by the single-precision solver are smaller.
template <class T>
constexpr double accepted = sizeof(T) == 8 ? 1e-12 : 3e-5;

// The code of one signal while it is searched for.
template <class T>
struct Pending {
    Index row = 0;  // in the block
    DirectSignal<T> signal;
    double error = 0;  // bound on the error of signal.scale
    LocalCode<T> code;
    TopList list;  // of the largest correlations with x, then with the residual; divided by the weights
    std::vector<std::int32_t> unpenalised;
    double largest_factor = 1;  // 1/w_j
    int rounds = 0;
    bool has_weights = true;       // some atom has a penalty
    bool rounded_penalty = false;  // λ1/(στ) is too small to be exact
};

// A code that is found, in the units of the scaled dictionary and signal.
template <class T>
struct Found {
    std::vector<std::int32_t> atoms;
    std::vector<T> alpha;
    Status status = Status::converged;
    double kkt = 0;
    int steps = 0;
    std::vector<float> inverse;  // of M_ΛΛ, in rows of k; empty if there is none
};

// Encodes blocks of signals; one per thread.
template <class T>
class Worker {
  public:
    Worker(Index p, Index m, bool positive, const Variation& variation, Index capacity, Interrupt& interrupt)
        : variation_(variation),
          m_(m),
          positive_(positive),
          interrupt_(interrupt),
          solver_(m, positive),
          piece_(round_up(std::min(p, atom_piece), instruction_set().single_precision.panel_width)),
          x_(capacity * m_),
          observed_(variation.observed ? capacity * m_ : 0),
          loading_(variation.observed ? m_ : 0),
          narrow_(sizeof(T) == 8 ? capacity * m_ : 0),
          residuals_(capacity * m_),
          products_(capacity * piece_),
          residual_(m_),
          before_(m_),
          active_(std::size_t(p)),
          pending_(std::size_t(capacity)),
          found_(std::size_t(capacity)) {}

    // The dictionary of the signals to come.
    void use(const DirectEncoder<T>& encoder) {
        encoder_ = &encoder;
        dictionary_ = &encoder.dictionary();
        solver_.use(*dictionary_);
    }

    // Appends the codes of `rows` signals.
    template <template <class> class Signals>
    void encode(const Signals<T>& signals, const Goals& goals, Index first, Index rows, Codes<T>& codes) {
        std::vector<Loaded> loaded;
        for (Index r = 0; r < rows; ++r) {
            Pending<T>& pending = pending_[std::size_t(r)];
            loaded.push_back(load(signals, first + r, r, pending.signal));
            pending.row = r;
            pending.code = {};
            pending.rounds = 0;
            const Goal goal = goals.of(first + r);
            weigh(first + r, goal, loaded.back(), pending);
            aim(goal, loaded.back(), pending);
        }
        std::vector<Pending<T>*> open;
        for (Index r = 0; r < rows; ++r) open.push_back(&pending_[std::size_t(r)]);
        for (Pending<T>* pending : open) pending->list.begin(least_candidates(*pending), 0, positive_);
        std::vector<Extremes<float>> extremes(std::size_t(rows), Extremes<float>{});
        if (!dictionary_->only_exact()) correlate(fast(0), open, extremes.data());
        Index left = 0;
        for (Index r = 0; r < rows; ++r) {
            interrupt_.poll();
            Pending<T>& pending = pending_[std::size_t(r)];
            const bool on_all = dictionary_->only_exact() || loaded[std::size_t(r)].wide;
            if (on_all ? end_on_all(pending) : start(pending, extremes[std::size_t(r)])) continue;
            store_residual(residuals_.data() + left * m_);
            open[std::size_t(left++)] = &pending;
        }
        while (left > 0) {
            open.resize(std::size_t(left));
            for (Pending<T>* pending : open) {
                const Index most = least_candidates(*pending) + 2 * Index(pending->code.atoms.size());
                pending->list.begin(std::min(most, dictionary_->atoms()), listed_share * float(pending->signal.lambda1), positive_);
            }
            correlate(residuals_.data(), open, nullptr);
            left = 0;
            for (Pending<T>* pending : open) {
                interrupt_.poll();
                if (settle(*pending)) continue;
                store_residual(residuals_.data() + left * m_);
                open[std::size_t(left++)] = pending;
            }
        }
        for (Index r = 0; r < rows; ++r) append(goals, first, r, loaded[std::size_t(r)], codes);
    }

  private:
    // Loads a signal into row r, zero where nothing was observed.
    template <template <class> class Signals>
    Loaded load(const Signals<T>& signals, Index row, Index r, DirectSignal<T>& signal) {
        T* const x = x_.data() + r * m_;
        float* const narrow = sizeof(T) == 8 ? narrow_.data() + r * m_ : nullptr;
        const bool scales = !dictionary_->only_exact();
        signal = {};
        signal.x = x;
        signal.fast = fast(r);
        signal.n_observed = m_;
        Loaded loaded;
        if (!variation_.observed) {
            loaded = load_row(signals, row, m_, scales, x, narrow);
        } else {
            float* const observed = observed_.data() + r * m_;
            for (Index i = 0; i < m_; ++i) observed[i] = variation_.observed[row * m_ + i] ? 1.0f : 0.0f;
            signal.observed = observed;
            signal.n_observed = Index(std::count(observed, observed + m_, 1.0f));
            loaded = load_observed(signals, row, observed, scales, x, narrow);
        }
        signal.norm = loaded.norm;
        return loaded;
    }

    Loaded load_observed(const DenseSignals<T>& signals, Index row, const float* observed, bool scales, T* x, float* narrow) {
        const T* const from = signals.data + row * signals.row_step;
        for (Index i = 0; i < m_; ++i) loading_[i] = observed[i] != 0 ? from[i * signals.column_step] : T(0);  // others may be NaN
        return load_finite(row, scales, x, narrow);
    }

    Loaded load_observed(const SparseSignals<T>& signals, Index row, const float* observed, bool scales, T* x, float* narrow) {
        std::fill_n(loading_.data(), m_, T(0));
        const Index start = signals.start(row), end = start + signals.count(row);
        for (Index i = start; i < end; ++i) loading_[signals.indices[std::size_t(i)]] += signals.values[std::size_t(i)];
        for (Index i = 0; i < m_; ++i) loading_[i] = observed[i] != 0 ? loading_[i] : T(0);
        return load_finite(row, scales, x, narrow);
    }

    Loaded load_finite(Index row, bool scales, T* x, float* narrow) const {
        const Loaded loaded = load_scaled(loading_.data(), 1, m_, x, narrow, scales);
        if (!loaded.finite) throw BadSignal{row};
        return loaded;
    }

    // Sets the rule of a signal, in the units of the scaled problem.
    void aim(const Goal& goal, const Loaded& loaded, Pending<T>& pending) {
        DirectSignal<T>& signal = pending.signal;
        const double sigma = encoder_->scale(), tau = loaded.scale, top = 1 / signal.weight_unit;
        signal.goal = goal;
        signal.lambda1 = 0;
        pending.rounded_penalty = false;
        switch (goal.rule) {
            case Rule::penalty:
                if (!pending.has_weights) break;
                signal.lambda1 = goal.amount * top / sigma / tau;
                pending.rounded_penalty = signal.lambda1 * tau * sigma != goal.amount * top;
                break;
            case Rule::max_error: signal.goal.amount = goal.amount / tau / tau; break;
            case Rule::max_l1: signal.goal.amount = goal.amount * sigma / tau * signal.weight_unit; break;
            case Rule::n_nonzero: break;
        }
    }

    bool has_penalty(const Pending<T>& pending) const { return pending.signal.goal.rule == Rule::penalty; }

    // Candidates of a signal that is encoded for the first time.
    Index least_candidates(const Pending<T>& pending) const {
        const double wanted = pending.signal.goal.rule == Rule::n_nonzero ? 3 * pending.signal.goal.amount : 0;
        return Index(std::min(double(dictionary_->atoms()), double(first_candidates) + wanted));
    }

    // A penalty for which no atom is used: ‖d_j‖ ‖x‖, or a little more.
    double useless(const DirectSignal<T>& signal) const {
        return signal.norm > 0 && !dictionary_->only_exact() ? 1.0001 * dictionary_->bounds().atom * signal.norm
                                                             : std::numeric_limits<double>::infinity();
    }

    // Sets the weights of a signal. An atom with λ1 w_j ≥ ‖d_j‖ ‖x‖ cannot be used: its weight is no measure of the others.
    void weigh(Index row, const Goal& goal, const Loaded& loaded, Pending<T>& pending) {
        DirectSignal<T>& signal = pending.signal;
        pending.unpenalised.clear();
        pending.largest_factor = 1;
        pending.has_weights = true;
        if (!variation_.weights) return;
        const Index p = dictionary_->atoms();
        const double* const weights = variation_.weights + row * variation_.weights_row_step;
        const double penalty = goal.rule == Rule::penalty ? goal.amount / encoder_->scale() / loaded.scale : 0;
        const double most = useless(signal);
        double top = 0;
        bool has_useless = false;
        for (Index j = 0; j < p; ++j) {
            if (std::isinf(weights[j])) continue;
            if (penalty * weights[j] > most)
                has_useless = true;
            else
                top = std::max(top, weights[j]);
        }
        if (top == 0 && has_useless) top = most / penalty;
        signal.weights = weights;
        pending.has_weights = top > 0;
        if (top > 0) signal.weight_unit = std::min(1 / top, std::numeric_limits<double>::max());
        const double largest = penalty / signal.weight_unit;
        signal.most_weight = largest > 0 ? std::max(1.0, most / largest) : std::numeric_limits<double>::infinity();
        double least = 1;
        for (Index j = 0; j < p; ++j) {
            if (signal.is_unpenalised(std::int32_t(j)))
                pending.unpenalised.push_back(std::int32_t(j));
            else
                least = std::min(least, signal.weight(std::int32_t(j)));
        }
        pending.largest_factor = 1 / least;
    }

    const float* fast(Index r) const {
        if constexpr (sizeof(T) == 8)
            return narrow_.data() + r * m_;
        else
            return x_.data() + r * m_;
    }

    void store_residual(float* out) const { std::copy_n(residual_.data(), m_, out); }

    // Lists the largest correlations of the rows with all atoms, and finds the extremes of each row unless these are null.
    void correlate(const float* rows, const std::vector<Pending<T>*>& open, Extremes<float>* extremes) {
        const Index p = dictionary_->atoms();
        for (Index first = 0; first < p; first += piece_) {
            interrupt_.poll();
            const Index end = std::min(p, first + piece_), count = round_up(end - first, instruction_set().single_precision.panel_width);
            dictionary_->correlate(rows, Index(open.size()), first, end, products_.data(), piece_);
            for (std::size_t i = 0; i < open.size(); ++i) {
                float* const row = products_.data() + Index(i) * piece_;
                std::fill(row + (end - first), row + count, 0.0f);  // the product leaves the rest of a panel as it was
                const DirectSignal<T>& signal = open[i]->signal;
                for (Index j = first; signal.weights && j < end; ++j)
                    if (std::isinf(signal.weights[j])) row[j - first] = 0;
                if (extremes) {
                    const Extremes<float> here = instruction_set().single_precision.extremes(row, count);
                    extremes[i].top = std::max(extremes[i].top, here.top);
                    extremes[i].magnitude = std::max(extremes[i].magnitude, here.magnitude);
                }
                for (Index j = first; signal.weights && j < end; ++j)  // those without a penalty are candidates in any case
                    row[j - first] = signal.is_unpenalised(std::int32_t(j)) ? 0.0f : float(row[j - first] / signal.weight(std::int32_t(j)));
                open[i]->list.add(row, count, first, scratch_);
            }
        }
        for (Pending<T>* pending : open) pending->list.end();
    }

    // Bound on the error of the correlations with a vector of this norm, which may have been rounded to single precision.
    double correlation_error(double norm) const {
        return dictionary_->bounds().rounding(float_roundoff, norm, 0, 0) + 1.01 * float_roundoff * dictionary_->bounds().atom * norm;
    }

    double norm_of_residual() const { return std::sqrt(squared_norm(residual_.data(), m_)) * 1.0001; }

    // Solves on the first candidates; sets the residual. True if the code is found.
    bool start(Pending<T>& pending, const Extremes<float>& extremes) {
        DirectSignal<T>& signal = pending.signal;
        pending.error = correlation_error(signal.norm);
        signal.scale = std::max(std::min(signal.lambda1, useless(signal)), double(extremes.magnitude));
        double top = positive_ ? extremes.top : extremes.magnitude;
        for (const Entry& entry : pending.list.entries()) top = std::max(top, double(entry.size));
        const bool is_small = pending.unpenalised.empty() && top + pending.error * pending.largest_factor < signal.lambda1;
        if (signal.n_observed == 0) pending.code.status = Status::unobserved;
        if (signal.norm == 0 || (is_small && has_penalty(pending))) return end(pending, 0, true);
        solve(pending);
        return false;
    }

    // Solves on the active and the listed atoms; sets the residual.
    void solve(Pending<T>& pending, bool slowly = false) {
        candidates_ = pending.code.atoms;
        for (const std::int32_t atom : candidates_) active_[std::size_t(atom)] = true;
        for (const std::int32_t atom : pending.unpenalised)
            if (!active_[std::size_t(atom)]) candidates_.push_back(atom);
        for (const Entry& entry : pending.list.entries())
            if (!active_[std::size_t(entry.atom)]) candidates_.push_back(entry.atom);
        for (const std::int32_t atom : pending.code.atoms) active_[std::size_t(atom)] = false;
        if (slowly || !has_penalty(pending) || !solver_.solve(pending.signal, candidates_, pending.code, residual_.data(), interrupt_))
            solver_.solve_slowly(pending.signal, candidates_, pending.code, residual_.data(), interrupt_);
    }

    // The largest violation by atoms outside Λ among `atoms`, whose correlations with the residual are known up to an error.
    double violation(const Pending<T>& pending, std::span<const Entry> entries, double error) {
        const double lambda1 = pending.signal.lambda1;
        for (const std::int32_t atom : pending.code.atoms) active_[std::size_t(atom)] = true;
        doubtful_.clear();
        for (const Entry& entry : entries)
            if (entry.size + error * pending.signal.factor(entry.atom) > lambda1 && !active_[std::size_t(entry.atom)])
                doubtful_.push_back(entry.atom);
        for (const std::int32_t atom : pending.unpenalised)
            if (!active_[std::size_t(atom)]) doubtful_.push_back(atom);
        for (const std::int32_t atom : pending.code.atoms) active_[std::size_t(atom)] = false;
        rho_.resize(doubtful_.size());
        instruction_set().kernels<T>().double_correlations(dictionary_->data(), m_, residual_.data(), doubtful_.data(), Index(doubtful_.size()),
                                                           rho_.data());
        double worst = 0;
        for (std::size_t i = 0; i < rho_.size(); ++i)
            worst = std::max(worst, (positive_ ? rho_[i] : std::fabs(rho_[i])) - pending.signal.penalty(doubtful_[i]));
        return worst;
    }

    static bool is_excluded(const Pending<T>& pending, std::int32_t atom) {
        return pending.signal.weights && std::isinf(pending.signal.weights[atom]);
    }

    // The same for all atoms, measured in double precision.
    double violation_of_all(const Pending<T>& pending) {
        everything_.clear();
        for (std::int32_t j = 0; j < std::int32_t(dictionary_->atoms()); ++j)
            if (!is_excluded(pending, j) && !pending.signal.is_unpenalised(j)) everything_.push_back({std::numeric_limits<float>::infinity(), j});
        return violation(pending, everything_, 0);
    }

    // After the correlations with the residual: true if the code is found. Otherwise it is solved on more candidates. They need not
    // be correlated again with all atoms if the others cannot violate Lemma 1.
    bool settle(Pending<T>& pending) {
        double lambda1 = pending.signal.lambda1;
        solver_.measure(pending.signal, pending.code, residual_.data());
        pending.signal.scale = std::max(pending.signal.scale, std::min(pending.signal.lambda1, useless(pending.signal)));
        const double error = correlation_error(norm_of_residual());
        const double others =
            double(pending.list.cut()) + error * pending.largest_factor;  // the correlations of all atoms that are not listed are smaller
        double worst = violation(pending, pending.list.entries(), error);
        if (worst <= limit(pending)) {
            if (others <= lambda1) return end(pending, worst);
            if (pending.list.cut() <= lambda1 + limit(pending) && (worst = violation_of_all(pending)) <= limit(pending)) return end(pending, worst);
        }
        const bool is_dense = 4 * Index(pending.code.atoms.size()) > dictionary_->atoms() && dictionary_->atoms() <= most_with_gram;
        if (is_dense && !pending.signal.weights && !pending.rounded_penalty) return end_by_encoder(pending);  // most products are wanted then
        if (++pending.rounds >= max_rounds) return end_on_all(pending);
        std::copy_n(residual_.data(), m_, before_.data());
        for (const bool slowly : {false, true}) {
            solve(pending, slowly);
            lambda1 = pending.signal.lambda1;  // which a rule may have moved
            double moved = 0;
            for (Index i = 0; i < m_; ++i) moved += (residual_[i] - before_[i]) * (residual_[i] - before_[i]);
            if (others + 1.0001 * dictionary_->bounds().atom * pending.largest_factor * std::sqrt(moved) > lambda1) return false;
            worst = violation_of_listed(pending);
            if (worst <= limit(pending)) return end(pending, worst);
        }
        return false;
    }

    double violation_of_listed(const Pending<T>& pending) {
        std::vector<std::int32_t> atoms;
        for (const Entry& entry : pending.list.entries()) atoms.push_back(entry.atom);
        std::vector<float> rho(atoms.size()), residual(residual_.data(), residual_.data() + m_);
        instruction_set().single_precision.correlate_some(dictionary_->fast(), m_, residual.data(), atoms.data(), Index(atoms.size()), rho.data());
        everything_.clear();
        for (std::size_t i = 0; i < atoms.size(); ++i)
            everything_.push_back({float((positive_ ? rho[i] : std::fabs(rho[i])) * pending.signal.factor(atoms[i])), atoms[i]});
        return violation(pending, everything_, correlation_error(norm_of_residual()));
    }

    // The largest violation that is accepted outside Λ.
    double limit(const Pending<T>& pending) const { return (pending.code.by_lines ? promised_kkt<T> / 2 : accepted<T>)*pending.signal.scale; }

    // Certifies a code; if that fails, all atoms become candidates of the third line.
    bool end(Pending<T>& pending, double worst_outside, bool is_certain = false) {
        const LocalCode<T>& code = pending.code;
        const DirectSignal<T>& signal = pending.signal;
        double l1 = 0;
        for (const T alpha : code.alpha) l1 += std::fabs(double(alpha));
        const double atom = dictionary_->bounds().atom, worst = std::max(code.off, worst_outside);
        const double left = more_than_double_roundoff * double(m_ / 2 + Index(code.atoms.size()) / 2 + 16) * (signal.norm + l1 * atom) * atom +
                            more_than_double_roundoff * dictionary_->lambda2() * l1;
        Status status = code.status;
        double kkt = std::max(code.kkt, signal.scale > 0 ? worst / signal.scale : 0);
        if (!is_certain && !(worst + left <= promised_kkt<T> * (signal.scale - pending.error))) {
            const Certificate certificate = certify_on_all(signal, code.atoms, code.alpha);
            const bool is_orthogonal = code.atoms.empty() && certificate.kkt == 0;  // to all atoms, as far as wider arithmetic can tell
            if (code.atoms.empty() && !signal.weights && dictionary_->atoms() <= most_with_gram) return end_by_encoder(pending);
            if (!(certificate.worst() <= promised_kkt<T>) && !is_orthogonal) return end_on_all(pending);
            kkt = std::max(code.kkt, certificate.kkt);
            status = std::max(status, Status::exact);
        }
        found_[std::size_t(pending.row)] = {code.atoms, code.alpha, status, kkt, code.steps, code.inverse};
        return true;
    }

    // The problem of a signal on all atoms that are not excluded, and on what was observed, for the portable solvers.
    struct Whole {
        Problem<T> problem;
        Array<T> atoms;                     // if they are not those of the dictionary
        std::vector<double> weights;        // if there are some
        std::vector<std::int32_t> numbers;  // in the dictionary
        std::vector<std::int32_t> places;   // of the atoms of the dictionary
    };

    std::unique_ptr<Whole> whole(const DirectSignal<T>& signal) const {
        auto made = std::make_unique<Whole>();
        made->problem = encoder_->problem(signal.x, signal.lambda1);
        const Index p = dictionary_->atoms();
        made->places.resize(std::size_t(p));
        for (std::int32_t j = 0; j < std::int32_t(p); ++j) {
            made->places[std::size_t(j)] = std::int32_t(made->numbers.size());
            if (!signal.weights || !std::isinf(signal.weights[j])) made->numbers.push_back(j);
        }
        const Index count = Index(made->numbers.size());
        const double most = signal.lambda1 > 0 ? useless(signal) / signal.lambda1 : std::numeric_limits<double>::infinity();
        if (signal.weights)
            for (const std::int32_t j : made->numbers) made->weights.push_back(std::min(most, signal.weight(j)));
        if (signal.observed || count < p) {
            made->atoms = Array<T>(count * m_);
            for (Index l = 0; l < count; ++l)
                for (Index i = 0; i < m_; ++i)
                    made->atoms[l * m_ + i] =
                        dictionary_->data()[made->numbers[std::size_t(l)] * m_ + i] * T(signal.observed ? signal.observed[i] : 1);
            made->problem.atoms = made->atoms.data();
        }
        made->problem.p = count;
        made->problem.weights = signal.weights ? made->weights.data() : nullptr;
        return made;
    }

    // The certificate of a code, measured in wider arithmetic.
    Certificate certify_on_all(const DirectSignal<T>& signal, std::vector<std::int32_t> atoms, const std::vector<T>& alpha) const {
        const auto made = whole(signal);
        for (std::int32_t& atom : atoms) atom = made->places[std::size_t(atom)];
        return certify(made->problem, atoms, alpha);
    }

    // An encoder of all atoms, for many active atoms, and for rules that are beyond the solvers of this one.
    bool end_by_encoder(Pending<T>& pending) {
        candidates_ = whole(pending.signal)->numbers;
        solver_.solve_slowly(pending.signal, candidates_, pending.code, residual_.data(), interrupt_);
        const LocalCode<T>& code = pending.code;
        const Status status = pending.signal.n_observed == 0 ? Status::unobserved : code.status;
        found_[std::size_t(pending.row)] = {code.atoms, code.alpha, status, code.kkt, code.steps, {}};
        if (pending.signal.weights && pending.signal.norm > 0) end_weighted(pending);
        return true;
    }

    // What an encoder promises of α'_j = w_j α_j need not hold for α: its code is certified, or solved again at its λ1.
    void end_weighted(Pending<T>& pending) {
        Found<T>& found = found_[std::size_t(pending.row)];
        const Certificate certificate = certify_on_all(pending.signal, found.atoms, found.alpha);
        found.kkt = std::max(found.kkt, certificate.reported(promised_kkt<T>));
        if (certificate.worst() <= promised_kkt<T>) return;
        CertifiedCode<T> code = solve_whole(pending);
        pending.code.atoms = code.atoms;  // which is of no further use
        pending.code.alpha = code.alpha;
        solver_.measure(pending.signal, pending.code, residual_.data());
        if (code.certificate.worst() > promised_kkt<T> || !is_fulfilled(pending)) {
            found.status = Status::inexact;
            return;
        }
        if (found.status != Status::unmet) found.status = Status::exact;
        found.kkt = code.certificate.reported(promised_kkt<T>);
        found.atoms = std::move(code.atoms);
        found.alpha = std::move(code.alpha);
        found.steps += code.steps;
    }

    // Whether a code is the one that a rule names, if it is optimal; residual_ is that of the code.
    bool is_fulfilled(const Pending<T>& pending) const {
        const DirectSignal<T>& signal = pending.signal;
        const LocalCode<T>& code = pending.code;
        const double amount = signal.goal.amount;
        if (signal.goal.rule == Rule::n_nonzero) return double(code.atoms.size()) <= amount;
        if (signal.goal.rule == Rule::max_error) {
            const double off = squared_norm(residual_.data(), m_) - amount, most = promised_kkt<T> * signal.norm * signal.norm;
            return code.status == Status::unmet ? off > 0 : std::fabs(off) <= most;
        }
        double l1 = 0;
        for (std::size_t i = 0; i < code.atoms.size(); ++i) l1 += signal.weight(code.atoms[i]) * std::fabs(double(code.alpha[i]));
        return l1 <= amount * (1 + promised_kkt<T>) && (signal.lambda1 == 0 || l1 >= amount * (1 - promised_kkt<T>));
    }

    // The code of the third line, from the code so far, at the λ1 of the signal.
    CertifiedCode<T> solve_whole(const Pending<T>& pending) const {
        const auto made = whole(pending.signal);
        CertifiedCode<T> start;
        start.alpha = pending.code.alpha;
        for (const std::int32_t atom : pending.code.atoms) start.atoms.push_back(made->places[std::size_t(atom)]);
        CertifiedCode<T> code = solve_exact(made->problem, start, promised_kkt<T>, interrupt_);
        for (std::int32_t& atom : code.atoms) atom = made->numbers[std::size_t(atom)];
        return code;
    }

    // The third line, from the code so far.
    bool end_on_all(Pending<T>& pending) {
        if (!has_penalty(pending)) return end_by_encoder(pending);
        const CertifiedCode<T> code = solve_whole(pending);
        const bool is_exact = code.certificate.worst() <= promised_kkt<T> && !pending.rounded_penalty;
        Status status = is_exact ? Status::exact : Status::inexact;
        if (pending.signal.n_observed == 0) status = Status::unobserved;
        found_[std::size_t(pending.row)] = {
            code.atoms, code.alpha, status, code.certificate.reported(promised_kkt<T>), pending.code.steps + code.steps, {}};
        return true;
    }

    // Appends a code in ascending order of its atoms.
    void append(const Goals& goals, Index first, Index r, const Loaded& loaded, Codes<T>& codes) {
        const Found<T>& found = found_[std::size_t(r)];
        const double unit = loaded.scale / encoder_->scale();
        order_.resize(found.atoms.size());
        std::iota(order_.begin(), order_.end(), std::size_t(0));
        std::sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) { return found.atoms[a] < found.atoms[b]; });
        bool finite = true, tiny = false;
        std::vector<std::size_t> kept;
        std::vector<std::int32_t> atoms;
        std::vector<T> alpha;
        for (const std::size_t i : order_) {
            const T value = T(double(found.alpha[i]) * unit);
            finite = finite && std::isfinite(value);
            tiny = tiny || (std::fabs(value) < std::numeric_limits<T>::min() && found.alpha[i] != 0);
            if (value == 0) continue;  // by underflow, or with λ1 = 0
            kept.push_back(i);
            atoms.push_back(found.atoms[i]);
            codes.values.append(&value, 1);
            alpha.push_back(T(double(value) / unit));
        }
        codes.indices.append(atoms.data(), Index(atoms.size()));
        Certificate certificate = {finite ? found.kkt : std::numeric_limits<double>::infinity(), 0};
        const DirectSignal<T>& signal = pending_[std::size_t(r)].signal;
        if (tiny && finite) certificate = certify_on_all(signal, atoms, alpha);  // of what underflow has left
        const auto status = std::uint8_t(certificate.worst() <= promised_kkt<T> ? found.status : Status::inexact);
        const T kkt = T(certificate.reported(promised_kkt<T>));
        const std::int32_t steps = found.steps;
        const std::int64_t end = codes.indices.size();
        codes.indptr.append(&end, 1);
        codes.status.append(&status, 1);
        codes.kkt.append(&kkt, 1);
        codes.steps.append(&steps, 1);
        const Goal given = goals.of(first + r);
        const double lambda1 = given.rule == Rule::penalty ? given.amount : signal.lambda1 * loaded.scale * encoder_->scale() * signal.weight_unit;
        codes.lambda1.append(&lambda1, 1);
        if (!codes.keep_factors) return;
        const std::size_t k = found.atoms.size();
        const bool has_inverse = found.inverse.size() == k * k && kept.size() == k;
        for (std::size_t i = 0; i < kept.size(); ++i)
            for (std::size_t j = 0; j <= i; ++j) {
                const T entry = has_inverse ? T(found.inverse[kept[i] * k + kept[j]]) : T(0);
                codes.factors.append(&entry, 1);
            }
    }

    const DirectEncoder<T>* encoder_ = nullptr;
    const DirectDictionary<T>* dictionary_ = nullptr;
    const Variation variation_;
    const Index m_;
    const bool positive_;
    Interrupt& interrupt_;
    LocalSolver<T> solver_;
    const Index piece_;
    Array<T> x_;
    Array<float> observed_;
    Array<T> loading_;
    Array<float> narrow_, residuals_, products_;
    Array<double> residual_, before_;
    std::vector<char> active_;
    std::vector<Pending<T>> pending_;
    std::vector<Found<T>> found_;
    std::vector<std::int32_t> scratch_, candidates_, doubtful_;
    std::vector<double> rho_;
    std::vector<Entry> everything_;
    std::vector<std::size_t> order_;
};

Index block_size(Index rows, int n_threads) {
    const Index share = round_up((rows + n_threads - 1) / n_threads, tile_multiple);
    return std::max<Index>(1, std::min(max_block, share));
}

}  // namespace

template <class T>
DirectEncoder<T>::DirectEncoder(const T* atoms, Index p, Index m, const Parameters& parameters, bool packs)
    : parameters_(parameters), dictionary_(atoms, p, m, parameters, packs) {}

template <class T>
void DirectEncoder<T>::gram_triangle(std::span<const std::int32_t> active, T* out) const {
    const Index m = features();
    for (std::size_t i = 0; i < active.size(); ++i) {
        const T* row = dictionary_.data() + active[i] * m;
        instruction_set().kernels<T>().correlate_some(dictionary_.data(), m, row, active.data(), Index(i) + 1, out);
        out[i] += T(dictionary_.lambda2());
        out += i + 1;
    }
}

template <class T>
double DirectEncoder<T>::energy(std::span<const std::int32_t> active, std::span<const T> alpha) const {
    const std::vector<double> minus(alpha.begin(), alpha.end());  // ‖−Dα‖² = ‖Dα‖²
    const std::vector<T> zero(std::size_t(features()), T(0));
    std::vector<double> combination(zero.size());
    instruction_set().kernels<T>().double_residual(dictionary_.data(), features(), zero.data(), active.data(), minus.data(), Index(active.size()),
                                                   combination.data());
    double squares = 0;
    for (const double value : minus) squares += value * value;
    return squared_norm(combination.data(), features()) + dictionary_.lambda2() * squares;
}

template <class T>
std::vector<T> DirectEncoder<T>::solve(std::span<const std::int32_t> active, std::span<const T> g, Interrupt& interrupt) const {
    return solve_least_norm(problem(nullptr, 0), active, g, interrupt);
}

// Two unit vectors with cosine 1 − ε are √(2ε) apart, so that their products with any unit vector differ by at most that. Atoms are
// sorted by one such product, and compared where it is near.
template <class T>
std::vector<std::int32_t> DirectEncoder<T>::duplicates(double cosine) const {
    const Index p = atoms(), m = features();
    const T* const data = dictionary_.data();
    std::vector<double> norms, along;
    std::vector<double> direction(static_cast<std::size_t>(m));
    for (Index i = 0; i < m; ++i) direction[std::size_t(i)] = std::sin(double(i + 1) * 12.9898);  // of no pattern that atoms have
    const double length = std::sqrt(squared_norm(direction.data(), m));
    for (Index j = 0; j < p; ++j) {
        norms.push_back(std::sqrt(squared_norm(data + j * m, m)));
        double sum = 0;
        for (Index i = 0; i < m; ++i) sum += double(data[j * m + i]) * direction[std::size_t(i)];
        const double place = norms.back() > 0 ? sum / (norms.back() * length) : 0;
        along.push_back(parameters_.positive ? place : std::fabs(place));
    }
    std::vector<std::int32_t> order;
    for (Index j = 0; j < p; ++j)
        if (norms[std::size_t(j)] > 0) order.push_back(std::int32_t(j));
    std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
        const double first = along[std::size_t(a)], second = along[std::size_t(b)];
        return first < second || (first == second && a < b);
    });
    const double reach = std::sqrt(std::max(0.0, 2 * (1 - cosine))) * (1 + 1e-6) + 1e-6;
    std::vector<char> repeated(static_cast<std::size_t>(p), 0);
    for (std::size_t i = 0; i < order.size(); ++i)
        for (std::size_t l = i + 1; l < order.size() && along[std::size_t(order[l])] - along[std::size_t(order[i])] <= reach; ++l) {
            const Index a = order[i], b = order[l];
            double product = 0;
            for (Index f = 0; f < m; ++f) product += double(data[a * m + f]) * double(data[b * m + f]);
            if (!parameters_.positive) product = std::fabs(product);
            if (product > 0 && product >= norms[std::size_t(a)] * norms[std::size_t(b)] * cosine) repeated[std::size_t(std::max(a, b))] = 1;
        }
    std::vector<std::int32_t> found;
    for (Index j = 0; j < p; ++j)
        if (repeated[std::size_t(j)]) found.push_back(std::int32_t(j));
    return found;
}

template <class T, template <class> class Signals>
void encode(const DirectEncoder<T>& encoder, const Signals<T>& signals, const Goals& goals, Codes<T>& codes, int n_threads, Interrupt& interrupt,
            const Variation& variation) {
    const double p = double(encoder.atoms()), m = double(encoder.features());
    n_threads = worthwhile_threads(n_threads, double(signals.rows) * (cost::per_signal + 3 * cost::per_signal_product * m * p));
    const Index size = block_size(signals.rows, n_threads), blocks = (signals.rows + size - 1) / size;
    encode_blocks(blocks, codes, n_threads, interrupt, [&] {
        auto made = std::make_unique<Worker<T>>(encoder.atoms(), encoder.features(), encoder.parameters().positive, variation, size, interrupt);
        made->use(encoder);
        return [&, worker = std::move(made)](Index block, Index, Codes<T>& part) {
            const Index first = block * size;
            worker->encode(signals, goals, first, std::min(size, signals.rows - first), part);
        };
    });
}

// Signals are taken dictionary by dictionary, and their codes are put in order at the end.
template <class T>
void encode_each(const T* atoms, Index k, Index p, Index m, const Parameters& parameters, std::span<const std::int32_t> which,
                 const DenseSignals<T>& signals, const Goals& goals, Codes<T>& codes, int n_threads, Interrupt& interrupt) {
    std::vector<Index> starts(std::size_t(k) + 1, 0);
    for (const std::int32_t d : which) ++starts[std::size_t(d) + 1];
    std::partial_sum(starts.begin(), starts.end(), starts.begin());
    std::vector<Index> order(which.size()), next(starts.begin(), starts.end() - 1);
    for (std::size_t r = 0; r < which.size(); ++r) order[std::size_t(next[std::size_t(which[r])]++)] = Index(r);
    std::vector<Index> blocks;  // the dictionaries that begin a block: each has some signals, so that threads get even shares
    for (Index d = 0, since = 0; d < k; ++d) {
        if (blocks.empty() || starts[std::size_t(d)] - since >= max_block) {
            blocks.push_back(d);
            since = starts[std::size_t(d)];
        }
    }
    blocks.push_back(k);
    const double work =
        double(signals.rows) * (cost::direct_per_signal + double(m) * (cost::direct_per_feature + cost::direct_per_product * double(p)));
    n_threads = worthwhile_threads(n_threads, work + cost::per_packed_entry * double(k * p * m));
    Codes<T> sorted(codes.keep_factors);
    encode_blocks(Index(blocks.size()) - 1, sorted, n_threads, interrupt, [&] {
        return [&, worker = std::make_unique<Worker<T>>(p, m, parameters.positive, Variation{}, max_block, interrupt), x = std::vector<T>(),
                amounts = std::vector<double>()](Index block, Index, Codes<T>& part) mutable {
            for (Index d = blocks[std::size_t(block)]; d < blocks[std::size_t(block) + 1]; ++d) {
                const Index start = starts[std::size_t(d)], end = starts[std::size_t(d) + 1];
                if (start == end) continue;
                interrupt.poll();
                const DirectEncoder<T> encoder(atoms + d * p * m, p, m, parameters, end - start >= packed_rows);
                worker->use(encoder);
                for (Index first = start; first < end; first += max_block) {
                    const Index rows = std::min(max_block, end - first);
                    x.resize(std::size_t(rows * m));
                    amounts.resize(std::size_t(rows));
                    for (Index r = 0; r < rows; ++r) {
                        const Index row = order[std::size_t(first + r)];
                        for (Index i = 0; i < m; ++i) x[std::size_t(r * m + i)] = signals.data[row * signals.row_step + i * signals.column_step];
                        amounts[std::size_t(r)] = goals.of(row).amount;
                    }
                    try {
                        worker->encode(DenseSignals<T>{x.data(), rows, m, 1}, Goals{goals.rule, amounts.data(), rows}, 0, rows, part);
                    } catch (const BadSignal& bad) {
                        throw BadSignal{order[std::size_t(first + bad.row)]};
                    }
                }
            }
        };
    });
    std::vector<Index> place(which.size()), factors(which.size() + 1, 0);
    for (std::size_t i = 0; i < order.size(); ++i) place[std::size_t(order[i])] = Index(i);
    for (std::size_t i = 0; sorted.keep_factors && i < order.size(); ++i) {
        const Index count = Index(sorted.indptr.data()[i + 1] - sorted.indptr.data()[i]);
        factors[i + 1] = factors[i] + count * (count + 1) / 2;
    }
    for (const Index i : place) {
        const Index start = Index(sorted.indptr.data()[i]), count = Index(sorted.indptr.data()[i + 1]) - start;
        codes.values.append(sorted.values.data() + start, count);
        codes.indices.append(sorted.indices.data() + start, count);
        const std::int64_t end = codes.indices.size();
        codes.indptr.append(&end, 1);
        codes.status.append(sorted.status.data() + i, 1);
        codes.kkt.append(sorted.kkt.data() + i, 1);
        codes.steps.append(sorted.steps.data() + i, 1);
        codes.lambda1.append(sorted.lambda1.data() + i, 1);
        const Index from = factors[std::size_t(i)];
        codes.factors.append(sorted.factors.data() + from, factors[std::size_t(i) + 1] - from);
    }
}

#define TASKDICT_INSTANTIATE(T)                                                                                                                      \
    template void encode_each(const T*, Index, Index, Index, const Parameters&, std::span<const std::int32_t>, const DenseSignals<T>&, const Goals&, \
                              Codes<T>&, int, Interrupt&);                                                                                           \
    template class DirectEncoder<T>;                                                                                                                 \
    template void encode<T, DenseSignals>(const DirectEncoder<T>&, const DenseSignals<T>&, const Goals&, Codes<T>&, int, Interrupt&,                 \
                                          const Variation&);                                                                                         \
    template void encode<T, SparseSignals>(const DirectEncoder<T>&, const SparseSignals<T>&, const Goals&, Codes<T>&, int, Interrupt&,               \
                                           const Variation&);

TASKDICT_INSTANTIATE(float)
TASKDICT_INSTANTIATE(double)

}  // namespace taskdict
