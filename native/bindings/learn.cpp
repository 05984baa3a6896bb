#include <nanobind/stl/optional.h>

#include <optional>

#include "bindings/bindings.hpp"
#include "bindings/calls.hpp"
#include "learn/atoms.hpp"
#include "learn/sums.hpp"
#include "learn/window.hpp"

namespace taskdict {
namespace {

constexpr const char* per_nonzero = "one number per nonzero (indices)";

template <class A, class B>
void require_same_shape(const char* name, const A& array, const B& other, const char* why) {
    require_shape(name, array, {other.shape(0), other.shape(1)}, why);
}

// Outputs must not be converted copies, hence noconvert().
template <class T>
void bind_learn_of(nb::module_& module) {
    module.def(
        "sum_outer",
        [](List<std::int64_t> indptr, List<std::int32_t> indices, List<T> values, Matrix<T> x, T fade, Matrix<T> before, Writable<T> after,
           int n_threads) {
            const SparsityPattern pattern = pattern_of(indptr, indices, Index(after.shape(0)));
            require_shape("values", values, {indices.shape(0)}, per_nonzero);
            require_shape("x", x, {indptr.shape(0) - 1, after.shape(1)}, "one row per signal (indptr), the columns of after");
            require_same_shape("before", before, after, "the shape of after");
            const nb::gil_scoped_release unlocked;
            sum_outer(pattern, view(values), view(x), fade, view(before), view(after), n_threads);
        },
        nb::arg("indptr"), nb::arg("indices"), nb::arg("values"), nb::arg("x"), nb::arg("fade"), nb::arg("before"), nb::arg("after").noconvert(),
        nb::arg("n_threads"),
        "Set after (p, m) to fade · before + Σ v xᵀ over the signals x (n, m), where v has values (N,) on the support of a signal.\n\n"
        "With fade = 0, before is not read and may be after; otherwise the two must not overlap.");
    module.def(
        "sum_outer_sparse",
        [](List<std::int64_t> indptr, List<std::int32_t> indices, List<T> left, List<T> right, T fade, Matrix<T> before, Writable<T> after,
           int n_threads) {
            const SparsityPattern pattern = pattern_of(indptr, indices, Index(after.shape(0)));
            require_shape("left", left, {indices.shape(0)}, per_nonzero);
            require_shape("right", right, {indices.shape(0)}, per_nonzero);
            require_shape("after", after, {after.shape(0), after.shape(0)}, "as many columns as rows");
            require_same_shape("before", before, after, "the shape of after");
            const nb::gil_scoped_release unlocked;
            sum_outer_sparse(pattern, view(left), view(right), fade, view(before), view(after), n_threads);
        },
        nb::arg("indptr"), nb::arg("indices"), nb::arg("left"), nb::arg("right"), nb::arg("fade"), nb::arg("before"), nb::arg("after").noconvert(),
        nb::arg("n_threads"),
        "Set after (p, p) to fade · before + Σ u vᵀ over the signals, where u and v have left and right (N,) on the support of a signal.\n\n"
        "With fade = 0, before is not read and may be after; otherwise the two must not overlap.");
    module.def(
        "decode",
        [](List<std::int64_t> indptr, List<std::int32_t> indices, List<T> values, Matrix<T> atoms, T fade, Matrix<T> before, Writable<T> after,
           int n_threads) {
            const SparsityPattern pattern = pattern_of(indptr, indices, Index(atoms.shape(0)));
            require_shape("values", values, {indices.shape(0)}, per_nonzero);
            require_shape("after", after, {indptr.shape(0) - 1, atoms.shape(1)}, "one row per signal (indptr), the columns of atoms");
            require_same_shape("before", before, after, "the shape of after");
            const nb::gil_scoped_release unlocked;
            decode(pattern, view(values), view(atoms), fade, view(before), view(after), n_threads);
        },
        nb::arg("indptr"), nb::arg("indices"), nb::arg("values"), nb::arg("atoms"), nb::arg("fade"), nb::arg("before"), nb::arg("after").noconvert(),
        nb::arg("n_threads"),
        "Set after (n, m) to fade · before + Dv for every signal, where v has values (N,) on its support and D the rows of atoms (p, m).\n\n"
        "With fade = 0, before is not read and may be after; otherwise the two must not overlap.");
    module.def(
        "correlate_supports",
        [](List<std::int64_t> indptr, List<std::int32_t> indices, Matrix<T> atoms, Matrix<T> x, WritableList<T> out, int n_threads) {
            const SparsityPattern pattern = pattern_of(indptr, indices, Index(atoms.shape(0)));
            require_shape("x", x, {indptr.shape(0) - 1, atoms.shape(1)}, "one row per signal (indptr), the columns of atoms");
            require_shape("out", out, {indices.shape(0)}, per_nonzero);
            const nb::gil_scoped_release unlocked;
            correlate_supports<T>(pattern, view(atoms), view(x), {out.data(), out.shape(0)}, n_threads);
        },
        nb::arg("indptr"), nb::arg("indices"), nb::arg("atoms").noconvert(), nb::arg("x").noconvert(), nb::arg("out").noconvert(),
        nb::arg("n_threads"), "Set out (N,) to the products of every signal x (n, m) with the rows of atoms (p, m) on its support, one per nonzero.");
    module.def(
        "shorten_rows",
        [](Writable<T> rows, bool positive) {
            const nb::gil_scoped_release unlocked;
            shorten_rows(view(rows), positive);
        },
        nb::arg("rows").noconvert(), nb::arg("positive"),
        "Replace each row of rows (p, m) by the nearest vector of norm at most one, without negative entries if positive.");
    module.def(
        "update_atoms",
        [](Writable<T> atoms, Matrix<T> A, Matrix<T> B, bool positive, int n_threads) {
            require_shape("A", A, {atoms.shape(0), atoms.shape(0)}, "one row and one column per atom");
            require_same_shape("B", B, atoms, "the shape of atoms");
            interruptible([&](Interrupt& interrupt) { update_atoms(view(atoms), view(A), view(B), positive, n_threads, interrupt); });
        },
        nb::arg("atoms").noconvert(), nb::arg("A"), nb::arg("B"), nb::arg("positive"), nb::arg("n_threads"),
        "Move each of atoms (p, m) in turn to the minimiser of ½ tr(DᵀD A) − tr(DᵀB) in the unit ball, for A (p, p) and B (p, m).\n\n"
        "With positive, atoms stay non-negative.");
    module.def(
        "update_atoms_on_window",
        [](Writable<T> atoms, List<std::int64_t> indptr, List<std::int32_t> indices, List<T> values, List<T> weights, Matrix<T> signals,
           Matrix<T> targets, Matrix<T> curvatures, std::optional<Matrix<std::uint8_t>> observed, bool positive, int n_threads) {
            const SparsityPattern pattern = pattern_of(indptr, indices, Index(atoms.shape(0)));
            require_shape("values", values, {indices.shape(0)}, per_nonzero);
            require_shape("weights", weights, {indptr.shape(0) - 1}, "one number per signal (indptr)");
            require_shape("signals", signals, {indptr.shape(0) - 1, atoms.shape(1)}, "one row per signal (indptr), the columns of atoms");
            require_same_shape("targets", targets, atoms, "the shape of atoms");
            if (observed) require_shape("observed", *observed, {signals.shape(0), signals.shape(1)}, "the shape of signals");
            require_shape("curvatures", curvatures, {atoms.shape(0), observed ? atoms.shape(1) : 1}, "one row per atom");
            Window<T> window = {pattern, view(values), view(weights), view(signals), view(targets), {curvatures.data(), curvatures.size()}, {}};
            if (observed) window.observed = {observed->data(), Index(observed->shape(0)), Index(observed->shape(1))};
            interruptible([&](Interrupt& interrupt) { update_atoms_on_window(view(atoms), window, positive, n_threads, interrupt); });
        },
        nb::arg("atoms").noconvert(), nb::arg("indptr"), nb::arg("indices"), nb::arg("values"), nb::arg("weights"), nb::arg("signals"),
        nb::arg("targets"), nb::arg("curvatures"), nb::arg("observed").none(), nb::arg("positive"), nb::arg("n_threads"),
        "Move each of atoms (p, m) in turn to the minimiser of Σ w ½‖x − Dα‖² + Σ (½ a‖d‖² − ⟨t, d⟩) in the unit ball.\n\n"
        "The first sum is over signals (n, m) with weights (n,) and codes, the second over atoms with targets t (p, m) and curvatures a (p, 1).\n"
        "With observed (n, m), 1 where a feature was observed and 0 elsewhere, only those count, and curvatures are those of features (p, m).\n"
        "With positive, atoms stay non-negative.");
}

}  // namespace

void bind_learn(nb::module_& module) {
    bind_learn_of<float>(module);
    bind_learn_of<double>(module);
}

}  // namespace taskdict
