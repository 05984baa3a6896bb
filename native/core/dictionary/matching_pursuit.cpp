#include "dictionary/matching_pursuit.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "norms.hpp"
#include "system/cost_model.hpp"

namespace taskdict {
namespace {

constexpr Index whole_vectors = 16;    // numbers in the widest vector of any instruction set
constexpr Index atoms_at_once = 1024;  // of a product of residuals: a whole number of panels
constexpr double double_roundoff = 1.2e-16;
constexpr double enough_accuracy = 0.1;  // of the promise: a code is corrected until this is reached
constexpr int max_corrections = 4;
constexpr Index first_capacity = 32;  // of a workspace

template <class T>
constexpr double unit_roundoff = sizeof(T) == 4 ? 0x1p-24 : 0x1p-53;

// value · 2^exponent; std::ldexp takes longer than a step of a pursuit needs for an atom.
template <class T>
T times_power(T value, int exponent) {
    if (exponent < -1000 || exponent > 1000) return std::ldexp(value, exponent);
    return T(double(value) * std::bit_cast<double>(std::uint64_t(exponent + 1023) << 52));
}

// An atom divided by two to this power has a norm from 3/4 to 3/2; 0 for a zero atom.
template <class T>
int exponent_of(const T* atom, Index m) {
    double top = 0;
    for (Index i = 0; i < m; ++i) top = std::max(top, std::fabs(double(atom[i])));
    if (top == 0) return 0;
    int exponent;
    std::frexp(top, &exponent);
    double squares = 0;
    for (Index i = 0; i < m; ++i) {
        const double value = std::ldexp(double(atom[i]), -exponent);
        squares += value * value;
    }
    int more;
    std::frexp(std::sqrt(squares) * (4.0 / 3), &more);
    return exponent + more - 1;
}

}  // namespace

template <class T>
MatchingPursuit<T>::Scratch::Scratch(const MatchingPursuit& pursuit) : stride(pursuit.stride()), residual(round_up(pursuit.m_, whole_vectors)) {
    if (pursuit.has_gram()) grow(std::min(first_capacity, std::min(pursuit.p_, pursuit.m_)));
}

template <class T>
void MatchingPursuit<T>::Scratch::grow(Index capacity) {
    PursuitWorkspace<T>& w = workspace;
    const Index kept = w.size, before = w.capacity;
    Array<T> more_rows(capacity * stride + stride), more_numbers(capacity * (capacity + 4));
    Array<std::int32_t> more_atoms(capacity);
    T* next = more_numbers.data();
    const auto move = [&](T*& part, Index count) {
        if (kept > 0) std::copy_n(part, kept, next);
        part = next;
        next += count;
    };
    move(w.inverse_pivots, capacity);
    move(w.along, capacity);
    move(w.alpha, capacity);
    move(w.scratch, capacity);
    for (Index i = 0; i < kept; ++i) std::copy_n(w.triangle + i * before, i, next + i * capacity);
    w.triangle = next;
    if (kept > 0) {
        std::copy_n(w.rows, kept * stride, more_rows.data());
        std::copy_n(w.c, stride, more_rows.data() + capacity * stride);
        std::copy_n(w.atoms, kept, more_atoms.data());
    }
    w.rows = more_rows.data();
    w.c = w.rows + capacity * stride;
    w.atoms = more_atoms.data();
    w.capacity = capacity;
    rows = std::move(more_rows);
    numbers = std::move(more_numbers);
    atoms = std::move(more_atoms);
}

template <class T>
MatchingPursuit<T>::MatchingPursuit(const T* atoms, Index p, Index m, bool sparse, int n_threads, Interrupt& interrupt)
    : p_(p), m_(m), atoms_(p * m), summands_(std::min(m, slice_length) + m / slice_length) {
    int largest = std::numeric_limits<int>::min();
    for (Index j = 0; j < p; ++j) {
        if (j % 64 == 0) interrupt.poll();
        const T* from = atoms + j * m;
        T* to = atoms_.data() + j * m;
        const int exponent = exponent_of(from, m);
        for (Index i = 0; i < m; ++i) {
            to[i] = std::ldexp(from[i], -exponent);
            only_exact_ = only_exact_ || (from[i] != 0 && std::fabs(to[i]) < std::numeric_limits<T>::min());
        }
        exponents_.push_back(exponent);
        norms_.push_back(std::sqrt(squared_norm(to, m)));
        if (norms_.back() > 0) largest = std::max(largest, exponent);
    }
    if (only_exact_) {  // only the exact pursuit has the range; nothing is scaled
        std::copy_n(atoms, p * m, atoms_.data());
        std::fill(exponents_.begin(), exponents_.end(), 0);
        largest = 0;
        for (Index j = 0; j < p; ++j) norms_[std::size_t(j)] = double(std::sqrt(dot<Wide<T>>(atoms_.data() + j * m, atoms_.data() + j * m, m)));
    }
    for (Index j = 0; j < p; ++j) {
        const double norm = norms_[std::size_t(j)];
        shares_.push_back(norm > 0 ? std::ldexp(1.0, exponents_[std::size_t(j)] - largest) : 0.0);
        largest_norm_ = std::max(largest_norm_, norm);
    }
    if (only_exact_) return;
    const Index panel = instruction_set().kernels<T>().panel_width;
    weights_ = Array<T>(p);
    Array<T> units(p * m);  // the atoms with norm one
    for (Index j = 0; j < p; ++j) {
        const double norm = norms_[std::size_t(j)];
        weights_[j] = norm > 0 ? T(1 / norm) : T(0);
        for (Index i = 0; i < m; ++i) units[j * m + i] = norm > 0 ? T(double(atoms_[j * m + i]) / norm) : T(0);
    }
    packed_ = pack(units.data(), p, m);
    if (pursuit_by_gram(double(p), double(m), sizeof(T))) {
        gram_.emplace(units.data(), packed_, p, m, 0.0, n_threads, interrupt);
        if (sparse) {
            packed_ = Array<T>();
            transposed_ = Array<T>(m * stride());
            for (Index j = 0; j < p; ++j)
                for (Index i = 0; i < m; ++i) transposed_[i * stride() + j] = units[j * m + i];
        }
    }
    unit_shares_ = Array<T>(std::max(stride(), round_up(p, panel)));
    for (Index j = 0; j < p; ++j) unit_shares_[j] = T(shares_[std::size_t(j)] * norms_[std::size_t(j)]);
}

template <class T>
void MatchingPursuit<T>::correlate(const T* x, Index rows, T* c) const {
    instruction_set().kernels<T>().multiply({x, m_, rows, packed_.data(), m_, p_, 0, c, stride()});
}

template <class T>
void MatchingPursuit<T>::correlate_sparse(const std::int32_t* indices, const T* values, Index count, T* c) const {
    instruction_set().kernels<T>().add_rows({transposed_.data(), stride(), indices, values, count}, c);
}

template <class T>
void MatchingPursuit<T>::pursue(std::span<const Signal> block, std::span<Result> results, Scratch& scratch, Interrupt& interrupt) const {
    if (!has_gram() && !only_exact_) return pursue_together(block, results, scratch, interrupt);
    for (std::size_t r = 0; r < block.size(); ++r) {
        if (r % 8 == 0) interrupt.poll();
        pursue_one(block[r], results[r], scratch, interrupt);
    }
}

// The largest |⟨x, d_j⟩| in the shares of the atoms, less the error of its measurement; negative if that is too large.
template <class T>
double MatchingPursuit<T>::scale_of(double largest, const Loaded& loaded) const {
    const double error = unit_roundoff<T> * double(summands_ + 4) * loaded.norm * largest_norm_;
    return largest > 8 * error ? largest - error : -1;
}

template <class T>
void MatchingPursuit<T>::pursue_one(const Signal& signal, Result& result, Scratch& scratch, Interrupt& interrupt) const {
    result.clear();
    if (signal.loaded.norm == 0) return;
    if (only_exact_ || signal.loaded.wide) return pursue_exactly(signal, {}, -1, result, interrupt);
    const Kernels<T>& kernels = instruction_set().kernels<T>();
    const Gram<T>& gram = gram_->view();
    PursuitWorkspace<T>& w = scratch.workspace;
    const double scale = scale_of(double(kernels.strongest(signal.c, unit_shares_.data(), gram.stride).score), signal.loaded);
    const PursuitProblem<T> problem = {
        gram,      signal.c,           atoms_.data(), weights_.data(),   m_,
        signal.x,  signal.loaded.norm, most(signal),  max_error(signal), [](void* pointer) { static_cast<Interrupt*>(pointer)->poll(); },
        &interrupt};
    w.clear();
    Pursued outcome;
    while ((outcome = kernels.pursue(w, problem, scratch.residual.data())) == Pursued::full) scratch.grow(2 * w.capacity);
    if (scale < 0 && outcome == Pursued::done && w.size > 0) outcome = Pursued::doubtful;
    const auto correct = [&](const std::vector<double>& correlations) { kernels.correct(w, weights_.data(), correlations.data()); };
    if (finish(signal, w.size, w.atoms, w.alpha, scale, outcome == Pursued::doubtful, correct, result, scratch))
        return unscale(signal, result, interrupt);
    pursue_exactly(signal, {w.atoms, std::size_t(w.size)}, scale, result, interrupt);
}

// Corrects a code until its certificate holds. False if that fails, or if something is left for the exact pursuit to decide: `doubtful`
// says that only rounding may end the pursuit here.
template <class T>
template <class Correct>
bool MatchingPursuit<T>::finish(const Signal& signal, Index k, const std::int32_t* list, const T* alpha, double scale, bool doubtful, Correct correct,
                                Result& result, Scratch& scratch) const {
    const Kernels<T>& kernels = instruction_set().kernels<T>();
    std::vector<double>& correlations = scratch.correlations;
    correlations.resize(std::size_t(k));
    const double promise = promised_kkt<T> * scale, norm = signal.loaded.norm;
    double squares = 0, size = 0, worst = 0, bound = 0, before = std::numeric_limits<double>::infinity();
    for (int round = 0;; ++round) {
        squares = kernels.residual_of_code({atoms_.data(), m_, signal.x, list, alpha, k}, scratch.residual.data());
        kernels.double_correlations(atoms_.data(), m_, scratch.residual.data(), list, k, correlations.data());
        size = norm;
        worst = 0;
        for (Index i = 0; i < k; ++i) {
            const auto atom = std::size_t(list[i]);
            size += std::fabs(double(alpha[i])) * norms_[atom];
            const double violation = std::fabs(correlations[std::size_t(i)]) * shares_[atom];
            if (!(violation <= worst)) worst = violation;
        }
        bound = double_roundoff * double(m_ / 4 + k + 16) * size * largest_norm_;
        if (worst + bound <= enough_accuracy * promise && !(doubtful && round == 0)) break;
        if (round == max_corrections || !(worst < before / 2)) break;
        before = worst;
        correct(correlations);
    }
    if (k > 0 && !(worst + bound <= promise)) return false;
    const double off = double_roundoff * double(k + 4) * size, length = std::sqrt(squares), limit = max_error(signal);
    const bool met = limit >= 0 && (length + off) * (length + off) * (1 + 1e-14) <= limit;
    // A code that is rounded with more care may be nearer to the least-squares solution, but not by more than this.
    const double least = length - off - rounding_level<T> * size;
    const bool unmet = limit >= 0 && least > 0 && least * least * (1 - 1e-14) > limit;
    if (limit >= 0 && !met && !unmet) return false;
    const bool ends = met || (k == most(signal) && !doubtful) || length + off <= rounding_level<T> * size;
    if (!ends) return false;
    result.atoms.assign(list, list + k);
    result.alpha.assign(alpha, alpha + k);
    result.kkt = k > 0 ? worst / scale : 0;
    result.status = unmet ? unmet_status : std::uint8_t(Status::converged);
    return true;
}

template <class T>
void MatchingPursuit<T>::pursue_exactly(const Signal& signal, std::span<const std::int32_t> start, double scale, Result& result,
                                        Interrupt& interrupt) const {
    PursuitCode<T> code = taskdict::pursue_exactly(exact_problem(signal, scale), start, interrupt);
    result.atoms = std::move(code.atoms);
    result.alpha = std::move(code.alpha);
    result.kkt = code.certificate.reported(promised_kkt<T>);
    const bool exact = code.certificate.worst() <= promised_kkt<T>;
    result.status = !exact ? std::uint8_t(Status::inexact) : code.met ? std::uint8_t(Status::exact) : unmet_status;
    unscale(signal, result, interrupt);
}

// Many signals whose dictionary is too large for a Gram matrix, in step: in each, one product of their residuals with all atoms.
template <class T>
void MatchingPursuit<T>::pursue_together(std::span<const Signal> block, std::span<Result> results, Scratch& scratch, Interrupt& interrupt) const {
    const Kernels<T>& kernels = instruction_set().kernels<T>();
    struct Row {
        std::size_t place;
        double scale = 0;
        std::vector<std::int32_t> atoms;
        Strongest<T> best;
        bool doubtful = false;
    };
    std::vector<Row> rows;
    if (scratch.bases.size() < block.size()) scratch.bases.resize(block.size());
    if (scratch.residuals.size() < Index(block.size()) * m_) {
        scratch.residuals = Array<T>(Index(block.size()) * m_);
        scratch.products = Array<T>(Index(block.size()) * atoms_at_once);
    }
    const auto leave = [&](Row& row) {
        const Signal& signal = block[row.place];
        Result& result = results[row.place];
        OrthogonalBasis<double>& basis = scratch.bases[row.place];
        std::vector<double> solution = basis.solution();
        std::vector<T> alpha = basis.template rounded<T>(solution);
        const auto correct = [&](std::vector<double>& correlations) {
            basis.solve(correlations);
            for (std::size_t i = 0; i < solution.size(); ++i) solution[i] = double(alpha[i]) + correlations[i];
            std::ranges::copy(basis.template rounded<T>(solution), alpha.begin());  // in place: `finish` reads it there
        };
        const Index k = Index(row.atoms.size());
        if (!(row.scale < 0 && k > 0) && finish(signal, k, row.atoms.data(), alpha.data(), row.scale, row.doubtful, correct, result, scratch))
            unscale(signal, result, interrupt);
        else
            pursue_exactly(signal, row.atoms, row.scale, result, interrupt);
    };
    // Whether a row stays: its pursuit has not ended.
    const auto stays = [&](const Row& row) {
        const Signal& signal = block[row.place];
        if (Index(row.atoms.size()) == most(signal)) return false;
        const std::vector<double>& residual = scratch.bases[row.place].residual();
        return max_error(signal) < 0 || squared_norm(residual.data(), m_) > max_error(signal);
    };
    for (std::size_t r = 0; r < block.size(); ++r) {
        const Signal& signal = block[r];
        results[r].clear();
        if (signal.loaded.norm == 0) continue;
        if (signal.loaded.wide) {
            pursue_exactly(signal, {}, -1, results[r], interrupt);
            continue;
        }
        scratch.bases[r].start(signal.x, m_);
        rows.push_back({r, -1, {}, {}, false});
        if (stays(rows.back())) continue;
        leave(rows.back());
        rows.pop_back();
    }
    for (bool first_step = true; !rows.empty(); first_step = false) {
        std::vector<T> largest(rows.size(), T(0));  // correlations of the signals, in the shares of the atoms
        for (std::size_t i = 0; i < rows.size(); ++i) {
            const std::vector<double>& residual = scratch.bases[rows[i].place].residual();
            std::copy(residual.begin(), residual.end(), scratch.residuals.data() + Index(i) * m_);
            rows[i].best = {T(0), -1};
        }
        for (Index first = 0; first < p_; first += atoms_at_once) {
            interrupt.poll();
            const Index count = std::min(atoms_at_once, p_ - first), width = round_up(count, kernels.panel_width);
            kernels.multiply({scratch.residuals.data(), m_, Index(rows.size()), packed_.data() + first * m_, m_, count, 0, scratch.products.data(),
                              atoms_at_once});
            for (std::size_t i = 0; i < rows.size(); ++i) {
                const T* products = scratch.products.data() + Index(i) * atoms_at_once;
                const Strongest<T> best = kernels.strongest(products, nullptr, width);
                if (best.score > rows[i].best.score) rows[i].best = {best.score, std::int32_t(best.atom + first)};
                if (first_step) largest[i] = std::max(largest[i], kernels.strongest(products, unit_shares_.data() + first, width).score);
            }
        }
        std::vector<Row> left;
        for (std::size_t i = 0; i < rows.size(); ++i) {
            interrupt.poll();
            Row& row = rows[i];
            const Loaded& loaded = block[row.place].loaded;
            OrthogonalBasis<double>& basis = scratch.bases[row.place];
            if (first_step) row.scale = scale_of(double(largest[i]), loaded);
            double size = loaded.norm;
            const std::vector<double> alpha = basis.solution();
            for (std::size_t k = 0; k < alpha.size(); ++k) size += std::fabs(alpha[k]) * norms_[std::size_t(row.atoms[k])];
            const double remaining = std::sqrt(squared_norm(basis.residual().data(), m_));
            const double level = std::max(2 * rounding_level<T> * size, unit_roundoff<T> * double(summands_ + 4) * remaining);
            const std::int32_t atom = row.best.atom;
            row.doubtful = !(double(row.best.score) > level) || !(basis.distance(atoms_.data() + atom * m_) > 2 * dependent_distance<T>);
            if (!row.doubtful) {
                basis.append();
                row.atoms.push_back(atom);
            }
            if (row.doubtful || !stays(row))
                leave(row);
            else
                left.push_back(std::move(row));
        }
        rows = std::move(left);
    }
}

// Into the units of the signal and the dictionary that were given.
template <class T>
void MatchingPursuit<T>::unscale(const Signal& signal, Result& result, Interrupt& interrupt) const {
    bool finite = true, tiny = false;
    const int signal_exponent = std::ilogb(signal.loaded.scale);
    const auto exponent = [&](std::size_t i) { return signal_exponent - exponents_[std::size_t(result.atoms[i])]; };
    for (std::size_t i = 0; i < result.atoms.size(); ++i) {
        const T value = times_power(result.alpha[i], exponent(i));
        finite = finite && std::isfinite(value);
        tiny = tiny || (std::fabs(value) < std::numeric_limits<T>::min() && result.alpha[i] != 0);
    }
    if (tiny && finite) {  // underflow has changed the code that was measured
        PursuitCode<T> code = {result.atoms, {}, {}, true};
        for (std::size_t i = 0; i < result.atoms.size(); ++i)
            code.alpha.push_back(times_power(times_power(result.alpha[i], exponent(i)), -exponent(i)));
        measure_exactly(exact_problem(signal, -1), code, interrupt);
        result.kkt = code.certificate.reported(promised_kkt<T>);
        if (code.certificate.worst() > promised_kkt<T>)
            result.status = std::uint8_t(Status::inexact);
        else if (!code.met)
            result.status = unmet_status;
    }
    if (!finite) {
        result.kkt = std::numeric_limits<double>::infinity();
        result.status = std::uint8_t(Status::inexact);
    }
    for (std::size_t i = 0; i < result.atoms.size(); ++i) result.alpha[i] = times_power(result.alpha[i], exponent(i));
}

template class MatchingPursuit<float>;
template class MatchingPursuit<double>;

}  // namespace taskdict
