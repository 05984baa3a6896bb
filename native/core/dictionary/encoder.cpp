#include "dictionary/encoder.hpp"

#include <cmath>
#include <utility>

#include "norms.hpp"
#include "solve/exact.hpp"

namespace taskdict {

template <class T>
Encoder<T>::Encoder(const T* atoms, Index p, Index m, const Parameters& parameters, bool sparse, int n_threads, Interrupt& interrupt)
    : parameters_(parameters),
      dictionary_(atoms, p, m, parameters),
      second_(dictionary_, n_threads, interrupt),
      first_(dictionary_, second_, parameters, sparse, n_threads, interrupt) {}

template <class T>
Code<T> Encoder<T>::encode(const T* x, const Loaded& loaded, const float* c, const Goal& goal, Scratch& scratch, Interrupt& interrupt) const {
    scratch.rounded_penalty = false;
    if (goal.rule != Rule::penalty) return encode_rule({x, c, loaded.norm, 0}, loaded, goal, scratch, interrupt);
    const double lambda1 = goal.amount / scale() / loaded.scale;
    scratch.rounded_penalty = lambda1 * loaded.scale * scale() != goal.amount;
    Code<T> code = encode_at({x, c, loaded.norm, lambda1}, loaded.wide, scratch, interrupt);
    code.lambda1 = lambda1;
    return code;
}

template <class T>
Code<T> Encoder<T>::encode_at(const FastSignal<T>& signal, bool wide, Scratch& scratch, Interrupt& interrupt) const {
    scratch.line = Scratch::Line::first;
    if (dictionary_.only_exact() || (wide && !SecondLine<T>::wider)) return encode_third(signal, {}, 0, scratch, interrupt);
    if (wide) return encode_second(signal, parameters_.method, 0, scratch, interrupt);
    const FirstAttempt<T> attempt = first_.solve(signal, scratch.first, interrupt);
    if (attempt.certified) return attempt.code;
    return encode_second(signal, attempt.next, attempt.code.steps, scratch, interrupt);
}

template <class T>
Code<T> Encoder<T>::encode_second(const FastSignal<T>& signal, Method first, int steps, Scratch& scratch, Interrupt& interrupt) const {
    const DoubleSolver* const solver = second_.solver(interrupt);
    if (!solver) return encode_third(signal, {}, steps, scratch, interrupt);
    if (!scratch.second.solver) scratch.second.solver = std::make_unique<DoubleSolver::Scratch>(*solver);
    DoubleSolver::Scratch& memory = *scratch.second.solver;
    const Target target = {second_.widen(signal.x, scratch.second), signal.norm, signal.lambda1, parameters_.positive};
    const DoubleSolver::Result result = solver->solve(target, first, SecondLine<T>::promise, memory, interrupt);
    steps += result.steps;
    if (result.orthogonal) {
        scratch.line = Scratch::Line::third;
        return {0, nullptr, nullptr, result.certificate.bound == 0 ? Status::exact : Status::inexact, 0, steps};
    }
    const Workspace<double>& w = memory.workspace.view;
    CertifiedCode<T> code;
    for (Index i = 0; i < w.size; ++i)
        if (T(w.alpha[i]) != 0) {
            code.atoms.push_back(w.atoms[i]);
            code.alpha.push_back(T(w.alpha[i]));
        }
    code.certificate = SecondLine<T>::wider && result.solved ? solver->certify(target, code, memory) : result.certificate;
    if (!result.solved || code.certificate.worst() > promised_kkt<T>) return encode_third(signal, code, steps, scratch, interrupt);
    scratch.line = Scratch::Line::second;
    scratch.code = std::move(code);
    const Status status = SecondLine<T>::wider || result.accurate ? Status::exact : Status::converged;
    return {Index(scratch.code.atoms.size()), scratch.code.atoms.data(), scratch.code.alpha.data(), status, scratch.code.certificate.kkt, steps};
}

template <class T>
Code<T> Encoder<T>::encode_third(const FastSignal<T>& signal, const CertifiedCode<T>& start, int steps, Scratch& scratch,
                                 Interrupt& interrupt) const {
    scratch.code = solve_exact(problem(signal.x, signal.lambda1), start, promised_kkt<T>, interrupt);
    scratch.line = Scratch::Line::third;
    Certificate& certificate = scratch.code.certificate;
    // If only its bound is too large, a more accurate certificate may suffice.
    if (certificate.kkt <= promised_kkt<T> && certificate.worst() > promised_kkt<T> && scratch.second.solver) {
        const Target target = {second_.widen(signal.x, scratch.second), 0, signal.lambda1, parameters_.positive};
        certificate = second_.solver(interrupt)->certify(target, scratch.code, *scratch.second.solver);
    }
    return {Index(scratch.code.atoms.size()),
            scratch.code.atoms.data(),
            scratch.code.alpha.data(),
            certificate.worst() <= promised_kkt<T> && !scratch.rounded_penalty ? Status::exact : Status::inexact,
            certificate.reported(promised_kkt<T>),
            steps + scratch.code.steps};
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
    if (k != code.size) return result;
    if (scratch.line == Scratch::Line::first) copy(scratch.first.workspace.view);
    if (scratch.line == Scratch::Line::second && k == scratch.second.solver->workspace.view.size) copy(scratch.second.solver->workspace.view);
    return result;
}

template <class T>
void Encoder<T>::gram_triangle(std::span<const std::int32_t> active, T* out) const {
    for (std::size_t i = 0; i < active.size(); ++i) {
        const T* row = gram_row(active[i]);
        for (std::size_t j = 0; j <= i; ++j) *out++ = row[active[j]];
    }
}

template <class T>
double Encoder<T>::energy(std::span<const std::int32_t> active, std::span<const T> alpha) const {
    double sum = 0;
    for (std::size_t i = 0; i < active.size(); ++i) {
        const T* gram = gram_row(active[i]);
        double row = 0;
        for (std::size_t k = 0; k < i; ++k) row += double(gram[active[k]]) * double(alpha[k]);
        sum += double(alpha[i]) * (2 * row + double(gram[active[i]]) * double(alpha[i]));
    }
    return sum;
}

template <class T>
std::vector<std::int32_t> Encoder<T>::duplicates(double cosine) const {
    const Index p = atoms(), m = features();
    std::vector<T> lengths;
    for (Index j = 0; j < p; ++j) lengths.push_back(T(std::sqrt(squared_norm(dictionary_.data() + j * m, m) * cosine)));
    std::vector<std::int32_t> found;
    for (Index j = 1; j < p; ++j) {
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
