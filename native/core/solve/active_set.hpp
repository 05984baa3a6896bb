// min ½‖x − Dα‖² + λ1‖α‖₁ + λ2/2‖α‖²  by an exact active-set descent that adds several atoms per pass.
//
// A pass computes ρ = c − Mα for all atoms (c = Dᵀx, M = DᵀD + λ2 I). Lemma 1: α is optimal when ρ_j = λ1 sign(α_j) on
// the support and |ρ_j| ≤ λ1 elsewhere. Atoms outside Λ that violate this by at least a fraction of the largest violation
// join with the sign of ρ_j; then the quadratic problem with fixed signs is solved on Λ. If a sign would
// change on the way to its solution, α moves up to the first change, that atom leaves, and the rest is solved again. The
// objective falls in every pass, so the method ends, and a pass that finds nothing is the certificate.
#pragma once

#include "solve/support.hpp"

namespace taskdict::TASKDICT_ISA {

// Sets the residual of Lemma 1 on Λ; returns its largest magnitude.
template <class T>
inline T measure_residual(Workspace<T>& w, const T* rho, T lambda1) {
    T off = 0;
    for (Index i = 0; i < w.size; ++i) {
        w.residual[i] = rho[w.atoms[i]] - lambda1 * w.sign[i];
        const T size = std::fabs(w.residual[i]);
        off = size > off ? size : off;
    }
    return off;
}

// Calls `visit(i)` for the i < k at which `mask(first)` has the bit i − first set.
template <class T, class Mask, class Visit>
inline void for_marked(Index k, Mask mask, Visit visit) {
    for (Index first = 0; first < k; first += lanes<T>) {
        unsigned bits = mask(first);
        if (k - first < lanes<T>) bits &= (1u << (k - first)) - 1;
        for (; bits; bits &= bits - 1) visit(first + __builtin_ctz(bits));
    }
}

// Atoms of any sign have that of their coefficient.
template <class T>
inline void follow_signs(Workspace<T>& w, const Settings<T>& settings) {
    for (Index i = 0; settings.free && i < w.size; ++i)
        if (settings.free[w.atoms[i]] && w.alpha[i] != 0) w.sign[i] = w.alpha[i] < 0 ? T(-1) : T(1);
}

// Moves α to the minimum over Λ with the given signs, dropping the atoms whose sign would change on the way. With `free_signs`
// (λ1 = 0 and no constraint) nothing does. Returns the number of solves.
template <class T>
int descend(Support<T>& support, bool free_signs, const Settings<T>& settings) {
    Workspace<T>& w = support.w;
    constexpr unsigned all = lanes<T> == 32 ? ~0u : (1u << lanes<T>)-1;
    int solves = 0;
    while (support.size() > 0) {
        ++solves;
        const Index k = support.size();
        if (settings.poll && k >= polled_size) settings.poll(settings.context);
        support.solve(w.residual, w.step, w.column);
        T length = 1;
        Index first_out = -1;
        Index newcomers_out = 0;
        if (!free_signs) {
            const auto leaves = [&](Index first) {
                const Vector<T> target = load(w.alpha + first) + load(w.step + first);
                return all & ~greater_mask<T>(target * load(w.sign + first), Vector<T>{});
            };
            for_marked<T>(k, leaves, [&](Index i) {
                if (settings.free && settings.free[w.atoms[i]]) return;
                if (w.alpha[i] == 0) {
                    w.found[newcomers_out++] = std::int32_t(i);
                } else {
                    const T until = w.alpha[i] / -w.step[i];
                    if (until <= length) length = until, first_out = i;
                }
            });
        }
        if (newcomers_out > 0) {  // they cannot move at all and leave at once, last first since drop() moves the last atom
            while (newcomers_out > 0) support.drop(w.found[--newcomers_out]);
            continue;
        }
        const Vector<T> factor = broadcast(length);
        if (first_out < 0) {
            for (Index i = 0; i < k; i += lanes<T>) store(w.alpha + i, load(w.alpha + i) + load(w.step + i));
            follow_signs(w, settings);
            break;
        }
        for (Index i = 0; settings.free && i < k; ++i) {  // they may cross zero
            const T moved = w.alpha[i] + length * w.step[i];
            if (settings.free[w.atoms[i]]) w.sign[i] = moved < 0 ? T(-1) : T(1);
        }
        for (Index i = 0; i < k; i += lanes<T>) {
            const Vector<T> moved = load(w.alpha + i) + factor * load(w.step + i);
            store(w.alpha + i, moved * load(w.sign + i) > 0 ? moved : Vector<T>{});
            store(w.residual + i, load(w.residual + i) * (1 - factor));
        }
        support.drop(first_out);
        support.restore_digits();
    }
    return solves;
}

// Lists the atoms whose violation is at least `fraction` of the largest. If these are more than `most`, the fraction
// rises, so that few of many correlated atoms join.
template <class T>
Index find_violators(const GramProblem<T>& problem, const T* rho, T violation, T tolerance, T fraction, Index most, std::int32_t* list) {
    const Index stride = problem.gram.stride;
    const T lambda1 = problem.lambda1;
    const bool positive = problem.positive;
    T share = fraction;
    const T wanted = share * violation > tolerance ? share * violation : tolerance;
    const Vector<T> bound = broadcast(lambda1 + wanted);
    const auto size = [&](Index at) { return positive ? load(rho + at) : abs<T>(load(rho + at)); };
    Index found = 0;
    const auto note = [&](Index first, unsigned mask) {
        for (; mask; mask &= mask - 1) list[found++] = std::int32_t(first + __builtin_ctz(mask));
    };
    constexpr int group = lanes<T> <= 8 ? 4 : 32 / lanes<T>;  // vectors that share one mask: fewer branches to guess
    Index at = 0;
    for (; at + group * lanes<T> <= stride; at += group * lanes<T>) {
        unsigned mask = 0;
        for (int v = 0; v < group; ++v) mask |= greater_mask<T>(size(at + v * lanes<T>), bound) << (v * lanes<T>);
        note(at, mask);
    }
    for (; at < stride; at += lanes<T>) note(at, greater_mask<T>(size(at), bound));
    while (found > most && share < T(0.99)) {
        share += T(0.25) * (1 - share);
        const T limit = lambda1 + share * violation;
        Index kept = 0;
        for (Index f = 0; f < found; ++f) {
            const std::int32_t atom = list[f];
            list[kept] = atom;
            kept += std::fabs(rho[atom]) >= limit;
        }
        found = kept;
    }
    if (found <= most)  // strongest first, so that the needless ones come late
        for (Index i = 1; i < found; ++i) {
            const std::int32_t atom = list[i];
            Index j = i;
            for (; j > 0 && std::fabs(rho[list[j - 1]]) < std::fabs(rho[atom]); --j) list[j] = list[j - 1];
            list[j] = atom;
        }
    return found;
}

// The descent gives up after this many times the least work of the homotopy, which is then the better method.
inline constexpr double patience = 1;

// The smallest support for which the two are compared.
inline constexpr Index smallest_compared = 32;

// Multiply-adds that the homotopy needs at least to reach a support of k among p atoms.
inline double path_work(Index p, Index k) {
    return double(k) * double(k) * (0.5 * double(p) + double(k));
}

// The share of the residual on Λ that may remain after a pass. If more remains, the inverse is too inaccurate.
inline constexpr float worst_left = 0.05f;

// Sets rho, by `settings.measure` if there is one; returns its largest entry (largest magnitude unless `positive`).
template <class T>
T update_rho(Support<T>& support, const T* c, bool positive, const Settings<T>& settings) {
    if (!settings.measure) return support.correlate(c, positive);
    settings.measure(settings.context, support.w, support.w.alpha, true, support.w.rho);
    return support.top(positive);
}

// Starts from the solution in `w`. After Outcome::full, a second call resumes as if there had been no first.
template <class T>
Solution<T> solve_active_set(Workspace<T>& w, const GramProblem<T>& problem, const Settings<T>& settings) {
    const auto [gram, c, top_of_c, scale, lambda1, positive] = problem;
    Support<T> support(w, gram, settings.careful);
    const bool free_signs = lambda1 == 0 && !positive;
    const T tolerance = settings.violation * scale;
    const T* rho = c;
    T top = top_of_c;
    for (Index i = w.size - 1; i >= 0 && !free_signs; --i)  // the homotopy may leave such
        if (!(w.alpha[i] * w.sign[i] > 0) && !(settings.free && settings.free[w.atoms[i]])) support.drop(i);
    if (settings.measure || w.size > 0) {
        top = update_rho(support, c, positive, settings);
        rho = w.rho;
    }
    for (; w.passes < settings.max_steps; ++w.passes) {
        const T off = measure_residual(w, rho, lambda1);
        const T violation = top - lambda1;
        const T worst = violation > off ? violation : off, kkt = worst > 0 ? (scale > 0 ? worst / scale : T(unmeasured_kkt)) : T(0);
        if (violation <= tolerance && off <= tolerance) {
            if (rho == c)  // the caller reads w.rho
                for (Index j = 0; j < gram.stride; ++j) w.rho[j] = c[j];
            return {Outcome::solved, w.passes, kkt};
        }
        if (w.before >= 0 && off > tolerance && off > worst_left * w.before && !support.rebuild(T(0.01) * settings.dependence))
            return {Outcome::stuck, w.passes, kkt};
        const double size = double(w.size);
        if (settings.poll && w.size >= polled_size) settings.poll(settings.context);
        if (!settings.measure && w.size >= smallest_compared && w.work > patience * path_work(gram.stride, w.size))
            return {Outcome::slow, w.passes, kkt};
        const Index quarter = support.size() / 4;
        const Index most = quarter > settings.max_joins ? quarter : settings.max_joins;
        const Index found = find_violators(problem, rho, violation, tolerance, settings.fraction, most, w.found);
        if (support.size() + found > w.capacity && w.capacity < gram.atoms) return {Outcome::full, w.passes, kkt};
        Index added = 0;
        for (Index f = 0; f < found; ++f) {
            const std::int32_t atom = w.found[f];
            if (w.position[atom] >= 0) continue;
            const T sign = rho[atom] > 0 ? T(1) : T(-1);
            const T residual = rho[atom] - lambda1 * sign;
            if (settings.prepare) settings.prepare(settings.context, w, atom);
            const Joined joined = support.add(atom, sign, residual, settings.dependence);
            // Atoms of this pass still have coefficient zero, so that an exchange would not move: it has to come first.
            const bool exchanged = joined == Joined::dependent && added == 0 && support.exchange(atom, sign, residual, settings.dependence);
            added += joined == Joined::yes || exchanged;
            if (exchanged) break;
        }
        if (added == 0) {
            // Only the residual on Λ is left to correct; it must shrink well, or the inverse is too inaccurate.
            const bool shrinks = off > tolerance && (w.previous < 0 || off < T(0.25) * w.previous);
            if (!shrinks) return {Outcome::stuck, w.passes, kkt};
            w.previous = off;
        } else {
            w.previous = -1;
        }
        w.before = worst;
        const int solves = descend(support, free_signs, settings);
        w.work += size * (double(gram.stride) + size * double(3 * added + 3 * solves));
        rho = w.rho;
        top = update_rho(support, c, positive, settings);
    }
    return {Outcome::stuck, w.passes, T(unmeasured_kkt)};
}

}  // namespace taskdict::TASKDICT_ISA
