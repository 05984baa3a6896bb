#include "direct/local_solver.hpp"

#include <algorithm>
#include <cmath>

#include "dictionary/encoder.hpp"
#include "solve/exact.hpp"
#include "solve/run.hpp"

namespace taskdict {
namespace {

constexpr Index row_multiple = 16;  // floats in the widest vector of any instruction set
constexpr double refined = 1e-12;   // residual on Λ that is enough, relative to the scale
constexpr double smallest_residual = 1e-15;
constexpr int max_corrections = 8;

}  // namespace

namespace {

// Sets what was not observed to zero.
template <class S, class T>
void hide(const DirectSignal<T>& signal, Index m, S* values) {
    for (Index i = 0; signal.observed && i < m; ++i) values[i] *= S(signal.observed[i]);
}

}  // namespace

// What the kernel's callbacks need.
template <class T>
struct LocalSolver<T>::Call {
    LocalSolver& solver;
    const DirectSignal<T>& signal;
    std::span<const std::int32_t> candidates;
    Index stride;
    Interrupt& interrupt;
};

template <class T>
LocalSolver<T>::LocalSolver(Index features, bool positive)
    : positive_(positive), residual_(round_up(features, row_multiple)), atom_(residual_.size()) {}

template <class T>
void LocalSolver<T>::reserve(Index count) {
    if (count <= capacity_) return;
    capacity_ = round_up(std::max(count, 2 * capacity_), row_multiple);
    workspace_ = std::make_unique<OwnedWorkspace<float>>(Gram<float>{nullptr, capacity_, capacity_, capacity_});
    gram_ = Array<float>(capacity_ * capacity_);
}

// Makes the workspace hold the support of a code, whose atoms are the first candidates.
template <class T>
void LocalSolver<T>::restore(const LocalCode<T>& code, Index stride) {
    workspace_->clear();
    const Index k = code.inverse.empty() ? 0 : Index(code.atoms.size());
    if (k == 0) return;
    if (workspace_->view.capacity < k) workspace_->grow(k);
    Workspace<float>& w = workspace_->view;
    const Index padded = round_up(k, capacity_step);
    for (float* const vector : {w.alpha, w.sign, w.residual, w.step, w.column, w.product}) std::fill_n(vector, padded, 0.0f);
    for (Index i = 0; i < k; ++i) {
        w.atoms[i] = w.position[i] = std::int32_t(i);
        w.alpha[i] = float(code.alpha[std::size_t(i)]) / factors_[std::size_t(i)];
        w.sign[i] = code.sign[std::size_t(i)];
        std::fill_n(w.inverse + i * w.capacity, padded, 0.0f);
        std::copy_n(code.inverse.data() + i * k, k, w.inverse + i * w.capacity);
        std::copy_n(code.block.data() + i * k, k, gram_.data() + i * stride);
    }
    w.size = k;
}

// out = Dᵀ(x − D weights) − λ2 weights on the candidates, with weights on Λ.
template <class T>
void LocalSolver<T>::correlate(const Call& call, const Workspace<float>& support, const float* weights, float* out) {
    const Kernels<float>& kernels = instruction_set().single_precision;
    const Index k = support.size, m = dictionary_->features(), count = Index(call.candidates.size()), width = kernels.slice_width;
    list_.resize(std::size_t(k));
    numbers_.resize(std::size_t(k));
    for (Index i = 0; i < k; ++i) {
        list_[std::size_t(i)] = call.candidates[std::size_t(support.atoms[i])];
        numbers_[std::size_t(i)] = -weights[i] * factors_[std::size_t(support.atoms[i])];
    }
    for (Index at = 0; at < m; at += width)
        kernels.add_slices({dictionary_->fast() + at, m, list_.data(), numbers_.data(), k}, std::min(width, m - at), 1.0f, call.signal.fast + at,
                           residual_.data() + at);
    hide(call.signal, m, residual_.data());
    kernels.correlate_some(dictionary_->fast(), m, residual_.data(), call.candidates.data(), count, out);
    std::fill(out + count, out + call.stride, 0.0f);
    const float lambda1 = float(call.signal.lambda1), lambda2 = float(dictionary_->lambda2());
    if (call.signal.weights)
        for (Index l = 0; l < count; ++l) out[l] *= factors_[std::size_t(l)];
    for (Index i = 0; i < k; ++i) {
        const float factor = factors_[std::size_t(support.atoms[i])];
        out[support.atoms[i]] -= lambda2 * factor * factor * weights[i];
    }
    if (!call.signal.weights) return;
    for (Index l = 0; l < count; ++l) {
        if (!call.signal.is_unpenalised(call.candidates[std::size_t(l)])) continue;
        const std::int32_t place = support.position[l];
        out[l] += std::copysign(lambda1, place >= 0 ? support.sign[place] : out[l]);
    }
}

// Sets the products of a candidate with itself and with Λ.
template <class T>
void LocalSolver<T>::prepare(const Call& call, const Workspace<float>& support, std::int32_t atom) {
    const Index k = support.size, m = dictionary_->features();
    list_.resize(std::size_t(k) + 1);
    numbers_.resize(std::size_t(k) + 1);
    for (Index i = 0; i < k; ++i) list_[std::size_t(i)] = call.candidates[std::size_t(support.atoms[i])];
    list_.back() = call.candidates[std::size_t(atom)];
    const float* row = dictionary_->fast() + list_.back() * m;
    if (call.signal.observed) {
        std::copy_n(row, m, atom_.data());
        hide(call.signal, m, atom_.data());
        row = atom_.data();
    }
    const float factor = factors_[std::size_t(atom)];
    instruction_set().single_precision.correlate_some(dictionary_->fast(), m, row, list_.data(), k + 1, numbers_.data());
    for (Index i = 0; i < k; ++i) {
        const float product = numbers_[std::size_t(i)] * factor * factors_[std::size_t(support.atoms[i])];
        gram_[atom * call.stride + support.atoms[i]] = product;
        gram_[support.atoms[i] * call.stride + atom] = product;
    }
    gram_[atom * call.stride + atom] = (numbers_.back() + float(dictionary_->lambda2())) * factor * factor;
}

// Sets `residual` = x − Dα, and off = Dᵀ(x − Dα) − λ2 α − λ1 s on Λ; returns the largest magnitude of it.
template <class T>
double LocalSolver<T>::residual_on(const DirectSignal<T>& signal, const LocalCode<T>& code, std::span<const double> alpha, double* residual,
                                   std::vector<double>& off) const {
    const Kernels<T>& kernels = instruction_set().kernels<T>();
    const Index k = Index(code.atoms.size()), m = dictionary_->features();
    off.resize(code.atoms.size());
    kernels.double_residual(dictionary_->data(), m, signal.x, code.atoms.data(), alpha.data(), k, residual);
    hide(signal, m, residual);
    kernels.double_correlations(dictionary_->data(), m, residual, code.atoms.data(), k, off.data());
    double largest = 0;
    for (std::size_t i = 0; i < off.size(); ++i) {
        off[i] -= dictionary_->lambda2() * alpha[i] + std::copysign(signal.penalty(code.atoms[i]), double(code.sign[i]));
        largest = std::max(largest, std::fabs(off[i]));
    }
    return largest;
}

template <class T>
void LocalSolver<T>::measure(const DirectSignal<T>& signal, LocalCode<T>& code, double* residual) const {
    std::vector<double> off;
    code.sign.resize(code.alpha.size());
    for (std::size_t i = 0; i < code.alpha.size(); ++i) code.sign[i] = code.alpha[i] < 0 ? -1.0f : 1.0f;
    code.off = residual_on(signal, code, std::vector<double>(code.alpha.begin(), code.alpha.end()), residual, off);
}

// Corrects α by the residual on Λ until rounding allows no more, with the inverse of single precision.
template <class T>
bool LocalSolver<T>::refine(const DirectSignal<T>& signal, LocalCode<T>& code, double* residual) const {
    const std::size_t k = code.atoms.size();
    std::vector<double> alpha(code.alpha.begin(), code.alpha.end()), off;
    const double limit = refined * signal.scale;
    double before = signal.scale * 1e300;
    for (int round = 0;; ++round) {
        code.off = residual_on(signal, code, alpha, residual, off);
        if (code.off <= limit && (code.off <= smallest_residual * signal.scale || code.off > before / 8)) break;
        if (round == max_corrections || !(code.off <= before / 2)) return false;
        before = code.off;
        for (std::size_t i = 0; i < k; ++i) {
            double step = 0;
            for (std::size_t j = 0; j < k; ++j) step += double(code.inverse[i * k + j]) * off[j] * signal.factor(code.atoms[j]);
            alpha[i] += step * signal.factor(code.atoms[i]);
        }
    }
    const bool free_signs = signal.lambda1 == 0 && !positive_;
    for (std::size_t i = 0; i < k; ++i) {
        const bool is_free = free_signs || (signal.is_unpenalised(code.atoms[i]) && !positive_);
        if (!is_free && !(alpha[i] * double(code.sign[i]) > 0)) return false;
        code.alpha[i] = T(alpha[i]);
    }
    return true;
}

template <class T>
bool LocalSolver<T>::solve(const DirectSignal<T>& signal, std::span<const std::int32_t> candidates, LocalCode<T>& code, double* residual,
                           Interrupt& interrupt) {
    const Index count = Index(candidates.size()), stride = round_up(count, row_multiple);
    reserve(std::max(stride, row_multiple));
    factors_.clear();
    free_.clear();
    for (const std::int32_t atom : candidates) {
        factors_.push_back(float(signal.factor(atom)));
        free_.push_back(signal.is_unpenalised(atom) && !positive_);
    }
    restore(code, stride);
    Call call = {*this, signal, candidates, stride, interrupt};
    Settings<float> settings = settings_for<float>(Method::active_set, count, sizeof(T) == 8);
    settings.poll = [](void* context) { static_cast<Call*>(context)->interrupt.poll(); };
    settings.measure = [](void* context, const Workspace<float>& support, const float* weights, bool, float* out) {
        const Call& of = *static_cast<Call*>(context);
        of.solver.correlate(of, support, weights, out);
    };
    settings.prepare = [](void* context, const Workspace<float>& support, std::int32_t atom) {
        const Call& of = *static_cast<Call*>(context);
        of.solver.prepare(of, support, atom);
    };
    settings.free = signal.weights ? free_.data() : nullptr;
    settings.context = &call;
    const Gram<float> gram = {gram_.data(), count, stride, dictionary_->lambda2() == 0 ? std::min(count, signal.n_observed) : count};
    const GramProblem<float> problem = {gram, nullptr, 0, float(signal.scale), float(signal.lambda1), positive_};
    const Solution<float> solution = run(Method::active_set, *workspace_, problem, settings);
    code.steps += solution.steps;
    if (solution.outcome != Outcome::solved) return false;

    const Workspace<float>& w = workspace_->view;
    const Index k = w.size;
    LocalCode<T> found;
    found.steps = code.steps;
    found.inverse.resize(std::size_t(k * k));
    found.block.resize(std::size_t(k * k));
    for (Index i = 0; i < k; ++i) {
        found.atoms.push_back(candidates[std::size_t(w.atoms[i])]);
        found.alpha.push_back(T(w.alpha[i] * factors_[std::size_t(w.atoms[i])]));
        found.sign.push_back(w.sign[i]);
        for (Index j = 0; j < k; ++j) {
            found.inverse[std::size_t(i * k + j)] = w.inverse[i * w.capacity + j];
            found.block[std::size_t(i * k + j)] = gram_[w.atoms[i] * stride + w.atoms[j]];
        }
    }
    if constexpr (sizeof(T) == 8) {
        if (!refine(signal, found, residual)) return false;
    } else {
        std::vector<double> off;
        found.off = residual_on(signal, found, std::vector<double>(found.alpha.begin(), found.alpha.end()), residual, off);
    }
    code = std::move(found);
    return true;
}

template <class T>
void LocalSolver<T>::solve_slowly(DirectSignal<T>& signal, std::span<const std::int32_t> candidates, LocalCode<T>& code, double* residual,
                                  Interrupt& interrupt) const {
    const Index count = Index(candidates.size()), m = dictionary_->features();
    Array<T> atoms(count * m);
    for (Index l = 0; l < count; ++l) {
        std::copy_n(dictionary_->data() + candidates[std::size_t(l)] * m, m, atoms.data() + l * m);
        hide(signal, m, atoms.data() + l * m);
    }
    LocalCode<T> slow;
    if (signal.weights && signal.goal.rule == Rule::penalty)
        solve_weighted(signal, candidates, atoms, code, slow, interrupt);
    else
        solve_by_encoder(signal, candidates, atoms, slow, interrupt);
    slow.steps += code.steps;
    slow.by_lines = true;
    code = std::move(slow);
    measure(signal, code, residual);
}

// With weights, which are positive then, and without λ2, it is the problem of α'_j = w_j α_j on d_j / w_j.
template <class T>
void LocalSolver<T>::solve_by_encoder(DirectSignal<T>& signal, std::span<const std::int32_t> candidates, Array<T>& atoms, LocalCode<T>& code,
                                      Interrupt& interrupt) const {
    const Index m = dictionary_->features();
    for (std::size_t l = 0; signal.weights && l < candidates.size(); ++l)
        for (Index i = 0; i < m; ++i) atoms[Index(l) * m + i] *= T(signal.factor(candidates[l]));
    Array<T> x(m);
    Array<float> narrow(sizeof(T) == 8 ? m : 0);
    const bool has_penalty = signal.goal.rule == Rule::penalty;
    const Goal goal = has_penalty ? Goal{Rule::penalty, signal.lambda1} : signal.goal;
    const Parameters parameters = {has_penalty ? signal.lambda1 : 0, dictionary_->lambda2(), positive_, Method::active_set};
    const Encoder<T> encoder(atoms.data(), Index(candidates.size()), m, parameters, false, 1, interrupt);
    const Loaded loaded = load_scaled(signal.x, 1, m, x.data(), sizeof(T) == 8 ? narrow.data() : nullptr, encoder.scales_signals());
    Array<float> c(encoder.fast().gram().view().stride);
    if constexpr (sizeof(T) == 8)
        encoder.fast().correlate(narrow.data(), 1, c.data());
    else
        encoder.fast().correlate(x.data(), 1, c.data());
    typename Encoder<T>::Scratch scratch(encoder);
    const Code<T> found = encoder.encode(x.data(), loaded, c.data(), goal, scratch, interrupt);
    const double unit = loaded.scale / encoder.scale();
    for (Index i = 0; i < found.size; ++i) {
        const std::int32_t atom = candidates[std::size_t(found.atoms[i])];
        code.atoms.push_back(atom);
        code.alpha.push_back(T(double(found.alpha[i]) * unit * signal.factor(atom)));
    }
    code.steps = found.steps;
    code.status = found.status;
    code.kkt = found.kkt;
    if (!has_penalty) signal.lambda1 = found.lambda1 * loaded.scale * encoder.scale();
}

// By the third line, the only one that knows weights.
template <class T>
void LocalSolver<T>::solve_weighted(const DirectSignal<T>& signal, std::span<const std::int32_t> candidates, const Array<T>& atoms,
                                    const LocalCode<T>& from, LocalCode<T>& code, Interrupt& interrupt) const {
    std::vector<double> weights;
    for (const std::int32_t atom : candidates) weights.push_back(signal.weight(atom));
    const Problem<T> problem = {
        atoms.data(), Index(candidates.size()), dictionary_->features(), signal.x, signal.lambda1, dictionary_->lambda2(), positive_, weights.data()};
    CertifiedCode<T> start;
    for (std::size_t i = 0; i < from.atoms.size(); ++i) {  // the first candidates
        start.atoms.push_back(std::int32_t(i));
        start.alpha.push_back(from.alpha[i]);
    }
    const CertifiedCode<T> found = solve_exact(problem, start, promised_kkt<T>, interrupt);
    for (std::size_t i = 0; i < found.atoms.size(); ++i) {
        code.atoms.push_back(candidates[std::size_t(found.atoms[i])]);
        code.alpha.push_back(found.alpha[i]);
    }
    code.steps = found.steps;
    code.status = Status::exact;
}

template class LocalSolver<float>;
template class LocalSolver<double>;

}  // namespace taskdict
