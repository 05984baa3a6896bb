#include "encoder.hpp"

#include "norms.hpp"

namespace taskdict {
namespace {

template <class S>
Settings<S> settings_for(bool predictor) {
    Settings<S> settings;
    settings.violation = sizeof(S) == 8 ? S(1e-12) : predictor ? S(2e-6) : S(1e-5);
    settings.dependence = sizeof(S) == 8 ? S(1e-10) : S(1e-4);
    settings.fraction = S(0.5);
    settings.most = 8;
    settings.max_steps = 200;
    return settings;
}

// Rows of M must not all start at the same place of a cache.
Index padded_stride(Index p, Index panel, std::size_t bytes) {
    const Index stride = round_up(p, panel);
    return stride * Index(bytes) % 2048 == 0 ? stride + panel : stride;
}

// M = DᵀD + λ2 I for the rows of `atoms`; only the panels from the diagonal on are computed, then mirrored.
template <class S>
void fill_gram(const Kernels<S>& kernels, const S* atoms, const S* packed, Index p, Index m, S lambda2, S* rows, Index stride, int n_threads) {
    const Index block = 48;
    n_threads = worthwhile_threads(n_threads, double(p) * double(p) * double(m) * 1e-5);
    in_threads((p + block - 1) / block, n_threads, [&](Index b) {
        const Index first = b * block, count = std::min(block, p - first);
        const Index panel = first / kernels.panel_width;
        kernels.multiply(atoms + first * m, m, count, packed, m, p, panel, rows + first * stride, stride);
        for (Index j = first + 1; j < p; ++j)  // in this order, what is read and what is written stays in the first-level cache
            for (Index i = first; i < std::min(first + count, j); ++i) rows[j * stride + i] = rows[i * stride + j];
        for (Index i = first; i < first + count; ++i) rows[i * stride + i] += lambda2;
    });
}

template <class S>
Array<S> pack(const Kernels<S>& kernels, const S* atoms, Index p, Index m) {
    Array<S> packed(round_up(p, kernels.panel_width) * m);
    kernels.pack_panels(atoms, p, m, packed.data());
    return packed;
}

}  // namespace

template <class T>
Encoder<T>::Scratch::Scratch(const Encoder& encoder) : fast(encoder.p_, encoder.gram_fast_.stride, std::min<Index>(encoder.p_, 64)) {}

template <class T>
Encoder<T>::Encoder(const T* atoms, Index p, Index m, const Parameters& parameters, bool sparse, int n_threads)
    : isa_(instruction_set()), p_(p), m_(m), parameters_(parameters), atoms_(p * m) {
    const Kernels<T>& kernels = isa_.kernels<T>();
    const Kernels<float>& fast = isa_.single_precision;
    if constexpr (is_double) atoms_fast_ = Array<float>(p * m);
    const Loaded loaded = load_scaled(atoms, 1, p * m, atoms_.data(), atoms_fast_.data());
    scale_ = loaded.scale;
    lambda2_ = parameters.lambda2 / scale_ / scale_;
    if (loaded.wide || lambda2_ > 1e30) {
        only_exact_ = true;
        scale_ = 1;
        lambda2_ = parameters.lambda2;
        std::copy_n(atoms, p * m, atoms_.data());
    }
    for (Index j = 0; j < p; ++j) atom_top_ = std::max(atom_top_, std::sqrt(squared_norm(atoms_.data() + j * m, m)));
    gram_top_ = atom_top_ * atom_top_ + lambda2_;

    const float* atoms_fast;
    if constexpr (is_double) {
        atoms_fast = atoms_fast_.data();
        gram_precise_ = {nullptr, p, padded_stride(p, kernels.panel_width, sizeof(double))};
        gram_precise_memory_ = Array<double>(p * gram_precise_.stride);
        gram_precise_.rows = gram_precise_memory_.data();
        fill_gram(kernels, atoms_.data(), pack(kernels, atoms_.data(), p, m).data(), p, m, lambda2_, gram_precise_memory_.data(),
                  gram_precise_.stride, n_threads);
    } else {
        atoms_fast = atoms_.data();
    }
    gram_fast_ = {nullptr, p, padded_stride(p, fast.panel_width, sizeof(float))};
    gram_fast_memory_ = Array<float>(p * gram_fast_.stride);
    gram_fast_.rows = gram_fast_memory_.data();
    packed_ = pack(fast, atoms_fast, p, m);
    if constexpr (is_double) {
        for (Index j = 0; j < p; ++j) std::copy_n(gram_precise_.rows + j * gram_precise_.stride, p, gram_fast_memory_.data() + j * gram_fast_.stride);
    } else {
        fill_gram(fast, atoms_fast, packed_.data(), p, m, float(lambda2_), gram_fast_memory_.data(), gram_fast_.stride, n_threads);
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
template <class S>
Solution<S> Encoder<T>::run(Room<S>& room, const Gram<S>& gram, const S* c, S lambda1, S scale, const Extremes<S>& extremes,
                            Interrupt& interrupt) const {
    const Kernels<S>& kernels = isa_.kernels<S>();
    const Solver<S> solver = parameters_.method == Method::homotopy ? kernels.homotopy : kernels.active_set;
    Settings<S> settings = settings_for<S>(is_double);
    settings.poll = [](void* context) { static_cast<Interrupt*>(context)->poll(); };
    settings.context = &interrupt;
    if (parameters_.method == Method::homotopy) settings.max_steps = int(100 + 20 * std::min<Index>(p_, 100000));
    for (;;) {
        room.clear();
        const Solution<S> solution =
            solver(room.view, gram, c, parameters_.positive ? extremes.top : extremes.magnitude, scale, lambda1, parameters_.positive, settings);
        if (solution.outcome != Outcome::full) return solution;
        const Index capacity = room.view.capacity;
        room.clear();
        room.grow(std::min(2 * capacity, round_up(p_, capacity_step)));
    }
}

template <class T>
Code<T> Encoder<T>::encode(const T* x, const Loaded& loaded, const float* c, Scratch& scratch, Interrupt& interrupt) const {
    const double lambda1 = parameters_.lambda1 / scale_ / loaded.scale, norm = loaded.norm;
    scratch.source = Scratch::Source::fast;
    if (only_exact_ || loaded.wide) return encode_exact(x, lambda1, 0, scratch, interrupt);
    const Extremes<float> extremes = isa_.single_precision.extremes(c, gram_fast_.stride);
    const double scale = std::max(lambda1, double(extremes.magnitude));
    // A bound on the error of the single-precision correlations.
    const double error = double(summands() + 4) * 6e-8 * norm * atom_top_;
    if (norm == 0 || double(parameters_.positive ? extremes.top : extremes.magnitude) + error < lambda1) return {};

    if constexpr (is_double) {
        if (parameters_.method == Method::homotopy) return encode_precise(x, lambda1, norm, 0, scratch, interrupt);
    }
    const Solution<float> solution = run<float>(scratch.fast, gram_fast_, c, float(lambda1), float(scale), extremes, interrupt);
    Workspace<float>& w = scratch.fast.view;
    Code<T> code;
    code.size = w.size;
    code.atoms = w.atoms;
    code.steps = solution.steps;
    code.kkt = double(solution.kkt);
    if constexpr (is_double) {
        if (solution.outcome == Outcome::solved) {
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
            if (isa_.refine(w, gram_fast_, gram_precise_, atoms_.data(), m_, x, r, scale, lambda1, parameters_.positive, 1e-12, error, gram_top_,
                            &code.kkt))
                return finish(x, lambda1, norm, code, scale, scratch, interrupt);
        }
        return encode_precise(x, lambda1, norm, solution.steps, scratch, interrupt);
    } else {
        code.alpha = w.alpha;
        code.status = solution.outcome == Outcome::solved ? Status::converged : Status::exact;
        return finish(x, lambda1, norm, code, scale, scratch, interrupt);
    }
}

template <class T>
Code<T> Encoder<T>::encode_precise([[maybe_unused]] const double* x, [[maybe_unused]] double lambda1, [[maybe_unused]] double norm,
                                   [[maybe_unused]] int steps, [[maybe_unused]] Scratch& scratch, [[maybe_unused]] Interrupt& interrupt) const {
    if constexpr (is_double) {
        const Kernels<double>& kernels = isa_.double_precision;
        if (scratch.precise.empty()) {
            scratch.precise.emplace_back(p_, gram_precise_.stride, std::min<Index>(p_, 64));
            scratch.correlations = Array<double>(gram_precise_.stride);
        }
        Room<double>& room = scratch.precise.front();
        std::vector<std::int32_t> all(static_cast<std::size_t>(p_));
        for (Index j = 0; j < p_; ++j) all[std::size_t(j)] = std::int32_t(j);
        double* c = scratch.correlations.data();
        kernels.correlate_some(atoms_.data(), m_, x, all.data(), p_, c);
        const Extremes<double> extremes = kernels.extremes(c, gram_precise_.stride);
        const double scale = std::max(lambda1, extremes.magnitude);
        scratch.source = Scratch::Source::precise;
        const Solution<double> solution = run<double>(room, gram_precise_, c, lambda1, scale, extremes, interrupt);
        Code<T> code;
        code.size = room.view.size;
        code.atoms = room.view.atoms;
        code.alpha = room.view.alpha;
        code.status = solution.outcome == Outcome::solved ? Status::converged : Status::exact;
        code.kkt = solution.kkt;
        code.steps = steps + solution.steps;
        return finish(x, lambda1, norm, code, scale, scratch, interrupt);
    } else {
        return {};
    }
}

// Accepts the kernels' solution if rounding cannot have hidden a violation; else certifies it, or solves anew.
template <class T>
Code<T> Encoder<T>::finish(const T* x, double lambda1, double norm, Code<T> code, double magnitude, Scratch& scratch, Interrupt& interrupt) const {
    double l1 = 0;
    for (Index i = 0; i < code.size; ++i) l1 += std::fabs(double(code.alpha[i]));
    // Sums of s terms lose some s/4 units in the last place where all terms have one sign; far less, as a rule.
    const double error = double(std::numeric_limits<T>::epsilon()) * (4 + double(summands()) / 8) * (norm * atom_top_ + l1 * gram_top_);
    if (code.status == Status::converged) {
        if (error <= 0.6 * promised_kkt<T> * magnitude) return code;
        code.kkt = certify(problem(x, lambda1), code.atoms, code.alpha, code.size);
        if (code.kkt <= 0.5 * promised_kkt<T>) return code;
    }
    return encode_exact(x, lambda1, code.steps, scratch, interrupt);
}

template <class T>
Code<T> Encoder<T>::encode_exact(const T* x, double lambda1, int steps, Scratch& scratch, Interrupt& interrupt) const {
    scratch.exact = solve_exact(problem(x, lambda1), promised_kkt<T>, interrupt);
    scratch.source = Scratch::Source::exact;
    Code<T> result;
    result.size = Index(scratch.exact.atoms.size());
    result.atoms = scratch.exact.atoms.data();
    result.alpha = scratch.exact.alpha.data();
    result.kkt = scratch.exact.kkt;
    result.status = result.kkt <= promised_kkt<T> ? Status::exact : Status::inexact;
    result.steps = steps + scratch.exact.steps;
    return result;
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
    if (k == code.size && scratch.source == Scratch::Source::precise) copy(scratch.precise.front().view);
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
