#include "batch/pursuit.hpp"

#include <nanobind/stl/optional.h>

#include <optional>

#include "bindings/bindings.hpp"
#include "bindings/calls.hpp"

namespace taskdict {
namespace {

// One number for all signals, one per signal, or none.
template <class T>
void require_rule(const char* name, const List<T>& list, std::size_t rows) {
    if (list.shape(0) <= 1 || list.shape(0) == rows) return;
    const std::string message = std::string(name) + " has " + std::to_string(list.shape(0)) + " entries, but must have none, one, or one per signal.";
    throw nb::value_error(message.c_str());
}

// The row of a signal that is not finite, if the call found one.
template <class T, template <class> class Signals>
std::optional<Index> pursue_signals(const MatchingPursuit<T>& pursuit, const Signals<T>& signals, const List<std::int32_t>& n_nonzero,
                                    const List<double>& max_error, Codes<T>& codes, int n_threads) {
    require_rule("n_nonzero", n_nonzero, std::size_t(signals.rows));
    require_rule("max_error", max_error, std::size_t(signals.rows));
    std::optional<Index> bad_row;
    interruptible([&](Interrupt& interrupt) {
        try {
            pursue(pursuit, signals, {view(n_nonzero), view(max_error)}, codes, n_threads, interrupt);
        } catch (const BadSignal& bad) {
            bad_row = bad.row;
        }
    });
    return bad_row;
}

// Compressed rows may be followed by unused memory.
template <class T>
void require_length(const char* name, const List<T>& list, std::size_t least) {
    if (list.shape(0) >= least) return;
    const std::string message = std::string(name) + " has " + std::to_string(list.shape(0)) + " entries, but must have at least " +
                                std::to_string(least) + ": the last entry of indptr.";
    throw nb::value_error(message.c_str());
}

template <class T>
void bind_pursuit_of(nb::module_& module, const char* name) {
    nb::class_<MatchingPursuit<T>>(module, name, "A dictionary prepared for orthogonal matching pursuit.")
        .def(
            "__init__",
            [](MatchingPursuit<T>* self, Matrix<T> atoms, bool sparse, int n_threads) {
                interruptible([&](Interrupt& interrupt) {
                    new (self) MatchingPursuit<T>(atoms.data(), Index(atoms.shape(0)), Index(atoms.shape(1)), sparse, n_threads, interrupt);
                });
            },
            nb::arg("atoms"), nb::arg("sparse"), nb::arg("n_threads"),
            "Prepare the dictionary atoms (p, m), which must be finite. It is copied.\n\n"
            "With sparse, only encode_sparse may be called, otherwise only encode.")
        .def(
            "encode",
            [](const MatchingPursuit<T>& pursuit, Strided<T> x, List<std::int32_t> n_nonzero, List<double> max_error, Codes<T>& codes,
               int n_threads) {
                require_shape("x", x, {x.shape(0), std::size_t(pursuit.features())}, "one column per feature of the dictionary");
                const DenseSignals<T> signals = {x.data(), Index(x.shape(0)), Index(x.stride(0)), Index(x.stride(1))};
                return pursue_signals(pursuit, signals, n_nonzero, max_error, codes, n_threads);
            },
            nb::arg("x"), nb::arg("n_nonzero"), nb::arg("max_error"), nb::arg("codes"), nb::arg("n_threads"),
            "Append the codes of the signals x (n, m), of any strides, to codes.\n\n"
            "A pursuit ends with n_nonzero atoms or with ‖x − Dα‖² ≤ max_error: one number for all signals, one per signal, or none for no such\n"
            "rule. Return None, or the row of a signal that is not finite. In that case codes is incomplete.")
        .def(
            "encode_sparse",
            [](const MatchingPursuit<T>& pursuit, List<T> values, List<std::int64_t> indptr, List<std::int32_t> indices, List<std::int32_t> n_nonzero,
               List<double> max_error, Codes<T>& codes, int n_threads) {
                const std::size_t end = end_of(indptr);
                require_length("values", values, end);
                require_length("indices", indices, end);
                const SparseSignals<T> signals = {view(values), view(indptr), view(indices)};
                return pursue_signals(pursuit, signals, n_nonzero, max_error, codes, n_threads);
            },
            nb::arg("values"), nb::arg("indptr"), nb::arg("indices"), nb::arg("n_nonzero"), nb::arg("max_error"), nb::arg("codes"),
            nb::arg("n_threads"),
            "Append the codes of n signals in compressed rows to codes: values, indices (N,), indptr (n + 1,); else as encode.");
}

}  // namespace

void bind_pursuit(nb::module_& module) {
    bind_pursuit_of<float>(module, "PursuitFloat32");
    bind_pursuit_of<double>(module, "PursuitFloat64");
}

}  // namespace taskdict
