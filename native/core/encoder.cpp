#include "encoder.hpp"

#include "norms.hpp"

namespace taskdict {
namespace {

// The second line keeps M in double: for more atoms than this, single-precision signals go straight to the third.
constexpr Index most_precise_atoms = 8192;

}  // namespace

template <class T>
Encoder<T>::Scratch::Scratch(const Encoder& encoder) : fast(encoder.p_, encoder.gram_fast_.stride, std::min<Index>(encoder.p_, 64)) {}

template <class T>
Encoder<T>::Encoder(const T* atoms, Index p, Index m, const Parameters& parameters, bool sparse, int n_threads, Interrupt& interrupt)
    : isa_(instruction_set()), p_(p), m_(m), parameters_(parameters), atoms_(p * m) {
    const Kernels<float>& fast = isa_.single_precision;
    if constexpr (is_double) atoms_fast_ = Array<float>(p * m);
    const Loaded loaded = load_scaled(atoms, 1, p * m, atoms_.data(), atoms_fast_.data());
    scale_ = loaded.scale;
    lambda2_ = parameters.lambda2 / scale_ / scale_;
    const auto vanishes = [](double penalty, double scaled) { return penalty != 0 && scaled < smallest; };
    if (loaded.wide || lambda2_ > 1e30 || vanishes(parameters.lambda2, lambda2_) || vanishes(parameters.lambda1, parameters.lambda1 / scale_)) {
        only_exact_ = true;
        scale_ = 1;
        lambda2_ = parameters.lambda2;
        std::copy_n(atoms, p * m, atoms_.data());
    }
    for (Index j = 0; j < p; ++j) bounds_.atom = std::max(bounds_.atom, std::sqrt(squared_norm(atoms_.data() + j * m, m)));
    bounds_.gram = bounds_.atom * bounds_.atom + lambda2_;
    bounds_.summands = std::min(m_, slice_length) + m_ / slice_length;

    const float* atoms_fast;
    if constexpr (is_double) {
        atoms_fast = atoms_fast_.data();
        precise_ = std::make_unique<const Precise>(atoms_.data(), p, m, lambda2_, bounds_, n_threads, interrupt);
    } else {
        atoms_fast = atoms_.data();
    }
    gram_fast_ = {nullptr, p, padded_stride(p, fast.panel_width, sizeof(float)), lambda2_ == 0 ? std::min(m, p) : p};
    gram_fast_memory_ = Array<float>(p * gram_fast_.stride);
    gram_fast_.rows = gram_fast_memory_.data();
    packed_ = pack(fast, atoms_fast, p, m);
    if constexpr (is_double) {
        const Gram<double>& gram = precise_->gram();
        for (Index j = 0; j < p; ++j) std::copy_n(gram.rows + j * gram.stride, p, gram_fast_memory_.data() + j * gram_fast_.stride);
    } else {
        fill_gram(fast, atoms_fast, packed_.data(), p, m, float(lambda2_), gram_fast_memory_.data(), gram_fast_.stride, n_threads, interrupt);
    }
    if (sparse) {
        packed_ = Array<float>();
        transposed_ = Array<float>(m * gram_fast_.stride);
        for (Index j = 0; j < p; ++j)
            for (Index i = 0; i < m; ++i) transposed_[i * gram_fast_.stride + j] = atoms_fast[j * m + i];
    }
}

template <class T>
void Encoder<T>::correlate(const float* x, Index rows, float* c) const {
    const Kernels<float>& fast = isa_.single_precision;
    fast.multiply(x, m_, rows, packed_.data(), m_, p_, 0, c, gram_fast_.stride);
}

template <class T>
void Encoder<T>::correlate_sparse(const std::int32_t* indices, const float* values, Index count, float* c) const {
    isa_.single_precision.add_rows(transposed_.data(), gram_fast_.stride, indices, values, count, c);
}

template <class T>
Code<T> Encoder<T>::encode(const T* x, const Loaded& loaded, const float* c, Scratch& scratch, Interrupt& interrupt) const {
    const double lambda1 = parameters_.lambda1 / scale_ / loaded.scale, norm = loaded.norm;
    const bool positive = parameters_.positive;
    scratch.source = Scratch::Source::fast;
    scratch.rounded_penalty = lambda1 * loaded.scale * scale_ != parameters_.lambda1;
    if (!is_double && loaded.wide && !only_exact_)  // double precision has room for it
        return encode_precise(x, lambda1, norm, parameters_.method, 0, scratch, interrupt);
    if (only_exact_ || loaded.wide) return encode_exact(x, lambda1, {}, 0, scratch, interrupt);
    const Extremes<float> extremes = isa_.single_precision.extremes(c, gram_fast_.stride);
    const double scale = std::max(lambda1, double(extremes.magnitude));
    const double error = bounds_.rounding(0x1p-24, norm, 0, 0);  // of the single-precision correlations
    if (norm == 0 || double(positive ? extremes.top : extremes.magnitude) + error < lambda1) return {};
    if (is_double && parameters_.method == Method::homotopy) return encode_precise(x, lambda1, norm, Method::homotopy, 0, scratch, interrupt);

    Settings<float> settings = settings_for<float>(parameters_.method, p_, is_double);
    settings.poll = [](void* context) { static_cast<Interrupt*>(context)->poll(); };
    settings.context = &interrupt;
    scratch.fast.clear();
    Solution<float> solution = run(parameters_.method, scratch.fast, gram_fast_, c, extremes, float(scale), float(lambda1), positive, settings);
    const bool slow = solution.outcome == Outcome::slow;
    if (slow && !is_double) {
        const int steps = solution.steps;
        settings.max_steps = settings_for<float>(Method::homotopy, p_, false).max_steps;
        scratch.fast.clear();
        solution = run(Method::homotopy, scratch.fast, gram_fast_, c, extremes, float(scale), float(lambda1), positive, settings);
        solution.steps += steps;
    }
    Workspace<float>& w = scratch.fast.view;
    Code<T> code;
    code.size = w.size;
    code.atoms = w.atoms;
    code.steps = solution.steps;
    code.kkt = double(solution.kkt);
    const Gram<double>* gram = nullptr;
    double l1 = 0;
    if constexpr (is_double) {
        gram = &precise_->gram();
        Refinement& r = scratch.refinement;
        if (r.capacity < w.capacity) {
            r.capacity = w.capacity;
            scratch.refined = Array<double>(r.capacity * (r.capacity + 3));
            r.block = scratch.refined.data();
            r.alpha = r.block + r.capacity * r.capacity;
            r.c = r.alpha + r.capacity;
            r.residual = r.c + r.capacity;
        }
        code.alpha = r.alpha;
        if (solution.outcome == Outcome::solved &&
            isa_.refine(w, gram_fast_, *gram, atoms_.data(), m_, x, r, scale, lambda1, positive, 1e-12, error, bounds_.gram, &code.kkt)) {
            for (Index i = 0; i < code.size; ++i) l1 += std::fabs(code.alpha[i]);
            // The scale of the report is ‖c‖∞ itself, which is off by `error` here.
            const double rounding = bounds_.rounding(0x1p-53, norm, l1, code.size);
            if (code.kkt * scale + rounding <= promised_kkt<T> * (scale - error)) return code;
        }
    } else if (solution.outcome == Outcome::solved) {
        code.alpha = w.alpha;
        for (Index i = 0; i < code.size; ++i) l1 += std::fabs(double(code.alpha[i]));
        const double rounding = bounds_.rounding(0x1p-24, norm, l1, code.size), promise = promised_kkt<T> * (scale - error);
        if (code.kkt * scale + rounding <= promise) return code;
        if (scratch.wide.size() == 0) scratch.wide = Array<double>(round_up(m_, 8));
        const double violation = isa_.check_doubtful(w, gram_fast_, atoms_.data(), m_, x, lambda1, lambda2_, positive, rounding, scratch.wide.data());
        const double left = 1.2e-16 * double(m_ / 2 + code.size + 16) * (norm + l1 * bounds_.atom) * bounds_.atom + 1.2e-16 * lambda2_ * l1;
        code.kkt = violation / scale;
        if (violation + left <= promise) return code;
    }
    const Method first = slow || parameters_.method == Method::homotopy ? Method::homotopy : Method::active_set;
    return encode_precise(x, lambda1, norm, first, solution.steps, scratch, interrupt);
}

template <class T>
const Precise* Encoder<T>::precise(Interrupt& interrupt) const {
    if constexpr (!is_double) {
        if (p_ > most_precise_atoms) return nullptr;
        std::unique_lock lock(mutex_, std::try_to_lock);
        for (; !lock; (void)lock.try_lock()) {
            interrupt.poll();
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        if (!precise_) {
            atoms_precise_ = Array<double>(p_ * m_);
            std::copy_n(atoms_.data(), p_ * m_, atoms_precise_.data());
            precise_ = std::make_unique<const Precise>(atoms_precise_.data(), p_, m_, lambda2_, bounds_, 1, interrupt);
        }
    }
    return precise_.get();
}

// The signal in double.
template <class T>
Target Encoder<T>::target(const T* x, double lambda1, double norm, Scratch& scratch) const {
    Target target = {nullptr, norm, lambda1, parameters_.positive};
    if constexpr (is_double) {
        target.x = x;
    } else {
        if (scratch.wide.size() == 0) scratch.wide = Array<double>(round_up(m_, 8));
        std::copy_n(x, m_, scratch.wide.data());
        target.x = scratch.wide.data();
    }
    return target;
}

template <class T>
Code<T> Encoder<T>::encode_precise(const T* x, double lambda1, double norm, Method first, int steps, Scratch& scratch, Interrupt& interrupt) const {
    const Precise* const second = precise(interrupt);
    if (!second) return encode_exact(x, lambda1, {}, steps, scratch, interrupt);
    if (!scratch.precise) scratch.precise = std::make_unique<Precise::Scratch>(*second);
    const Target wide = target(x, lambda1, norm, scratch);
    const double promise = is_double ? promised_kkt<double> : 1e-9;
    const Precise::Result result = second->solve(wide, first, promise, *scratch.precise, interrupt);
    const Workspace<double>& w = scratch.precise->room.view;
    ExactCode<T> code;
    for (Index i = 0; i < w.size; ++i)
        if (T(w.alpha[i]) != 0) {
            code.atoms.push_back(w.atoms[i]);
            code.alpha.push_back(T(w.alpha[i]));
        }
    code.certificate = result.certificate;
    if (!is_double && result.solved) code.certificate = second->certify(wide, code, *scratch.precise);
    if (result.orthogonal) {
        scratch.source = Scratch::Source::exact;
        return {0, nullptr, nullptr, result.certificate.bound == 0 ? Status::exact : Status::inexact, 0, steps + result.steps};
    }
    if (!result.solved || code.certificate.worst() > promised_kkt<T>) return encode_exact(x, lambda1, code, steps + result.steps, scratch, interrupt);
    scratch.source = Scratch::Source::precise;
    scratch.exact = std::move(code);
    return {Index(scratch.exact.atoms.size()), scratch.exact.atoms.data(),
            scratch.exact.alpha.data(),        is_double && !result.accurate ? Status::converged : Status::exact,
            scratch.exact.certificate.kkt,     steps + result.steps};
}

template <class T>
Code<T> Encoder<T>::encode_exact(const T* x, double lambda1, const ExactCode<T>& start, int steps, Scratch& scratch, Interrupt& interrupt) const {
    scratch.exact = solve_exact(problem(x, lambda1), start, promised_kkt<T>, interrupt);
    scratch.source = Scratch::Source::exact;
    Certificate& certificate = scratch.exact.certificate;
    // Where only its bound is too large, a more accurate certificate may do.
    if (certificate.kkt <= promised_kkt<T> && certificate.worst() > promised_kkt<T> && scratch.precise)
        certificate = precise(interrupt)->certify(target(x, lambda1, 0, scratch), scratch.exact, *scratch.precise);
    return {Index(scratch.exact.atoms.size()),
            scratch.exact.atoms.data(),
            scratch.exact.alpha.data(),
            certificate.worst() <= promised_kkt<T> && !scratch.rounded_penalty ? Status::exact : Status::inexact,
            certificate.reported(promised_kkt<T>),
            steps + scratch.exact.steps};
}

template <class T>
std::vector<T> Encoder<T>::inverse(const Code<T>& code, const std::vector<Index>& order, const Scratch& scratch) const {
    const Index k = Index(order.size());
    std::vector<T> result(std::size_t(k * k));
    const auto copy = [&](const auto& view) {
        for (Index i = 0; i < k; ++i)
            for (Index j = 0; j < k; ++j)
                result[std::size_t(i * k + j)] = T(view.inverse[order[std::size_t(i)] * view.capacity + order[std::size_t(j)]]);
    };
    if (k == code.size && scratch.source == Scratch::Source::fast) copy(scratch.fast.view);
    if (k == code.size && scratch.source == Scratch::Source::precise && k == scratch.precise->room.view.size) copy(scratch.precise->room.view);
    return result;
}

template <class T>
std::vector<std::int32_t> Encoder<T>::duplicates(double cosine) const {
    std::vector<T> lengths;
    for (Index j = 0; j < p_; ++j) lengths.push_back(T(std::sqrt(squared_norm(atoms_.data() + j * m_, m_) * cosine)));
    std::vector<std::int32_t> found;
    for (Index j = 1; j < p_; ++j) {
        const T* products = gram_row(j);
        bool duplicate = false;
        for (Index i = 0; i < j; ++i) {
            const T product = parameters_.positive ? products[i] : std::fabs(products[i]);
            duplicate |= product >= lengths[std::size_t(j)] * lengths[std::size_t(i)] && product > 0;
        }
        if (duplicate) found.push_back(std::int32_t(j));
    }
    return found;
}

template class Encoder<float>;
template class Encoder<double>;

}  // namespace taskdict
