#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <tuple>

#include "batch/encode.hpp"
#include "bindings/bindings.hpp"
#include "bindings/calls.hpp"
#include "direct/direct_encoder.hpp"
#include "learn/adjoint.hpp"
#include "learn/sums.hpp"
#include "system/cost_model.hpp"

namespace taskdict {
namespace {

// The row of a signal that is not finite, if the call found one.
template <class Encoder, class T, template <class> class Signals, class... Variations>
std::optional<Index> encode_signals(const Encoder& encoder, const Signals<T>& signals, Rule rule, const List<double>& amounts, Codes<T>& codes,
                                    int n_threads, const Variations&... variation) {
    if (amounts.shape(0) != 1) require_shape("amounts", amounts, {std::size_t(signals.rows)}, "one number, or one per signal");
    const Goals goals = {rule, amounts.data(), Index(amounts.shape(0))};
    std::optional<Index> bad_row;
    interruptible([&](Interrupt& interrupt) {
        try {
            encode(encoder, signals, goals, codes, n_threads, interrupt, variation...);
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
std::size_t features(const Prepared<T>& encoder) {
    return std::size_t(encoder.features());
}

template <class T>
Variation variation_of(const Prepared<T>& encoder, std::size_t n, const std::optional<Matrix<std::uint8_t>>& observed,
                       const std::optional<Matrix<double>>& weights) {
    Variation variation;
    if (observed) {
        require_shape("observed", *observed, {n, features(encoder)}, "one row per signal, one column per feature");
        variation.observed = observed->data();
    }
    if (weights) {
        const std::size_t p = std::size_t(encoder.atoms()), rows = weights->shape(0) == 1 ? 1 : n;
        require_shape("weights", *weights, {rows, p}, "one row, or one per signal; one column per atom");
        variation.weights = weights->data();
        variation.weights_row_step = rows == 1 && n != 1 ? 0 : Index(p);
    }
    return variation;
}

constexpr const char* per_signal = "one row per signal (indptr), one column per feature of the dictionary";
constexpr const char* per_nonzero = "one number per nonzero (indices)";

template <class T>
void bind_codes(nb::module_& module, const char* name) {
    nb::class_<Codes<T>>(module, name, "The codes of a growing number of signals, in compressed rows.")
        .def(nb::init<bool>(), nb::arg("keep_factors"),
             "Start without signals. With keep_factors, the inverses on the supports are kept for adjoints.")
        .def(
            "release",
            [](Codes<T>& codes) {
                auto released = std::make_tuple(release(codes.values), release(codes.indices), release(codes.indptr), release(codes.status),
                                                release(codes.kkt), release(codes.steps), release(codes.factors), release(codes.lambda1));
                codes.begin();
                return released;
            },
            "Return (values, indices, indptr, status, kkt, steps, factors, lambda1) and start anew; nothing is copied.\n\n"
            "For n signals and N nonzeros: values, indices (N,), indptr (n + 1,), status, kkt, steps, lambda1 (n,). The factors are the lower "
            "triangles of\n"
            "(M_ΛΛ)⁻¹ of all signals, one after another; k (k + 1) / 2 numbers for k nonzeros, or none without keep_factors.");
}

// What both kinds of encoders have.
template <class T>
void bind_prepared(nb::module_& module, const char* name) {
    nb::class_<Prepared<T>>(module, name, "A dictionary that is prepared for encoding.")
        .def(
            "duplicates",
            [](const Prepared<T>& encoder, double cosine) {
                Growing<std::int32_t> out;
                {
                    const nb::gil_scoped_release unlocked;
                    const std::vector<std::int32_t> found = encoder.duplicates(cosine);
                    out.append(found.data(), Index(found.size()));
                }
                return release(out);
            },
            nb::arg("cosine"), "Return the atoms whose angle with an earlier atom has at least this cosine, in ascending order.")
        .def(
            "objectives",
            [](const Prepared<T>& encoder, List<std::int64_t> indptr, List<std::int32_t> indices, List<T> values, Matrix<T> x, int n_threads) {
                const SparsityPattern pattern = pattern_of(indptr, indices, encoder.atoms());
                require_shape("values", values, {indices.shape(0)}, per_nonzero);
                require_shape("x", x, {indptr.shape(0) - 1, features(encoder)}, per_signal);
                Growing<double> out;
                double* const numbers = out.extend(pattern.rows());
                {
                    const nb::gil_scoped_release unlocked;
                    objectives(encoder, pattern, view(values), view(x), {numbers, std::size_t(pattern.rows())}, n_threads);
                }
                return release(out);
            },
            nb::arg("indptr"), nb::arg("indices"), nb::arg("values"), nb::arg("x"), nb::arg("n_threads"),
            "Return the objective (n,) of the signals x (n, m) at their codes: ½‖x‖² − ½ αᵀ(DᵀD + λ2 I)α, by Lemma 1.")
        .def(
            "solve_adjoint",
            [](const Prepared<T>& encoder, List<std::int64_t> indptr, List<std::int32_t> indices, List<T> factors, List<T> g, int n_threads) {
                const SparsityPattern pattern = pattern_of(indptr, indices, encoder.atoms());
                require_shape("factors", factors, {std::size_t(factor_entries(pattern))}, "k (k + 1) / 2 numbers per signal with k nonzeros");
                require_shape("g", g, {indices.shape(0)}, per_nonzero);
                Growing<T> beta;
                T* const numbers = beta.extend(pattern.nonzeros());
                interruptible([&](Interrupt& interrupt) {
                    solve_adjoint(encoder, pattern, view(factors), view(g), {numbers, g.shape(0)}, n_threads, interrupt);
                });
                return release(beta);
            },
            nb::arg("indptr"), nb::arg("indices"), nb::arg("factors"), nb::arg("g"), nb::arg("n_threads"),
            "Return β (N,) with (D_ΛᵀD_Λ + λ2 I) β_Λ = g_Λ on the support Λ of every signal, for g (N,); of least norm if singular.")
        .def(
            "gradient",
            [](const Prepared<T>& encoder, List<std::int64_t> indptr, List<std::int32_t> indices, List<T> values, List<T> factors, List<T> g,
               Matrix<T> atoms, Matrix<T> x, T reconstruction, Writable<T> both, Writable<T> in_atoms, int n_threads) {
                const SparsityPattern pattern = pattern_of(indptr, indices, encoder.atoms());
                const std::size_t n = indptr.shape(0) - 1, m = features(encoder), p = std::size_t(encoder.atoms());
                require_shape("values", values, {indices.shape(0)}, per_nonzero);
                require_shape("factors", factors, {std::size_t(factor_entries(pattern))}, "k (k + 1) / 2 numbers per signal with k nonzeros");
                require_shape("g", g, {indices.shape(0)}, per_nonzero);
                require_shape("atoms", atoms, {p, m}, "the dictionary of the encoder");
                require_shape("x", x, {n, m}, per_signal);
                require_shape("both", both, {2 * n, m}, "two rows per signal");
                require_shape("in_atoms", in_atoms, {p, m}, "the shape of the dictionary");
                const CodeGradient<T> gradient = {view(values), view(factors),  view(g),    view(atoms),
                                                  view(x),      reconstruction, view(both), view(in_atoms)};
                interruptible([&](Interrupt& interrupt) { code_gradient(encoder, pattern, gradient, n_threads, interrupt); });
            },
            nb::arg("indptr"), nb::arg("indices"), nb::arg("values"), nb::arg("factors"), nb::arg("g"), nb::arg("atoms"), nb::arg("x"),
            nb::arg("reconstruction"), nb::arg("both").noconvert(), nb::arg("in_atoms").noconvert(), nb::arg("n_threads"),
            "Set in_atoms (p, m) to the gradient of Σ ℓ(α) + w Σ ½‖x − Dα‖² in the atoms, where g (N,) is ∇α ℓ and w is reconstruction.\n\n"
            "The first n rows of both (2n, m) become the residuals x − Dα, the others the gradients Dβ + w (x − Dα) in the signals. atoms (p, m)\n"
            "and x (n, m) are those that were encoded.");
}

template <class T, class Encoder>
void bind_encode(nb::class_<Encoder, Prepared<T>>& bound) {
    bound
        .def(
            "encode",
            [](const Encoder& encoder, Strided<T> x, Rule rule, List<double> amounts, Codes<T>& codes, int n_threads) {
                require_shape("x", x, {x.shape(0), features(encoder)}, "one column per feature of the dictionary");
                const DenseSignals<T> signals = {x.data(), Index(x.shape(0)), Index(x.stride(0)), Index(x.stride(1))};
                return encode_signals(encoder, signals, rule, amounts, codes, n_threads);
            },
            nb::arg("x"), nb::arg("rule"), nb::arg("amounts"), nb::arg("codes"), nb::arg("n_threads"),
            "Append the codes of the signals x (n, m), of any strides, to codes. amounts (1,) or (n,) are those of the rule.\n\n"
            "Return None, or the row of a signal that is not finite. In that case codes is incomplete.")
        .def(
            "encode_sparse",
            [](const Encoder& encoder, List<T> values, List<std::int64_t> indptr, List<std::int32_t> indices, Rule rule, List<double> amounts,
               Codes<T>& codes, int n_threads) {
                const std::size_t end = end_of(indptr);
                require_length("values", values, end);
                require_length("indices", indices, end);
                return encode_signals(encoder, SparseSignals<T>{view(values), view(indptr), view(indices)}, rule, amounts, codes, n_threads);
            },
            nb::arg("values"), nb::arg("indptr"), nb::arg("indices"), nb::arg("rule"), nb::arg("amounts"), nb::arg("codes"), nb::arg("n_threads"),
            "Append the codes of n signals in compressed rows to codes: values, indices (N,), indptr (n + 1,), amounts (1,) or (n,).\n\n"
            "Return None, or the row of a signal that is not finite. In that case codes is incomplete.");
}

template <class T>
void bind_encoder_of(nb::module_& module, const char* name) {
    auto bound =
        nb::class_<Encoder<T>, Prepared<T>>(module, name,
                                            "A dictionary prepared for encoding: argmin ½‖x − Dα‖² + λ1‖α‖₁ + λ2/2‖α‖² for many signals x.")
            .def(
                "__init__",
                [](Encoder<T>* self, Matrix<T> atoms, double lambda1, double lambda2, bool positive, bool homotopy, bool sparse, int n_threads) {
                    const Parameters parameters = {lambda1, lambda2, positive, homotopy ? Method::homotopy : Method::active_set};
                    interruptible([&](Interrupt& interrupt) {
                        new (self) Encoder<T>(atoms.data(), Index(atoms.shape(0)), Index(atoms.shape(1)), parameters, sparse, n_threads, interrupt);
                    });
                },
                nb::arg("atoms"), nb::arg("lambda1"), nb::arg("lambda2"), nb::arg("positive"), nb::arg("homotopy"), nb::arg("sparse"),
                nb::arg("n_threads"),
                "Prepare the dictionary atoms (p, m), which must be finite, with its Gram matrix. It is copied.\n\n"
                "lambda1 is the least positive λ1 that will be asked for, or 0: it says whether the dictionary can be scaled.\n"
                "With positive, codes are non-negative. With homotopy, the first solver is the homotopy instead of the active-set descent. With\n"
                "sparse, only encode_sparse may be called, otherwise only encode.");
    bind_encode<T>(bound);
}

template <class T>
void bind_encode_each(nb::module_& module) {
    module.def(
        "encode_each",
        [](Cube<T> atoms, double lambda1, double lambda2, bool positive, List<std::int32_t> which, Strided<T> x, Rule rule, List<double> amounts,
           Codes<T>& codes, int n_threads) {
            const std::size_t k = atoms.shape(0), p = atoms.shape(1), m = atoms.shape(2), n = x.shape(0);
            require_shape("x", x, {n, m}, "one column per feature of the dictionaries");
            require_shape("which", which, {n}, "one dictionary per signal");
            for (std::size_t r = 0; r < n; ++r)
                if (which.data()[r] < 0 || std::size_t(which.data()[r]) >= k) throw nb::value_error("which is out of range.");
            const DenseSignals<T> signals = {x.data(), Index(n), Index(x.stride(0)), Index(x.stride(1))};
            const Parameters parameters = {lambda1, lambda2, positive, Method::active_set};
            if (amounts.shape(0) != 1) require_shape("amounts", amounts, {n}, "one number, or one per signal");
            const Goals goals = {rule, amounts.data(), Index(amounts.shape(0))};
            std::optional<Index> bad_row;
            interruptible([&](Interrupt& interrupt) {
                try {
                    encode_each<T>(atoms.data(), Index(k), Index(p), Index(m), parameters, view(which), signals, goals, codes, n_threads, interrupt);
                } catch (const BadSignal& bad) {
                    bad_row = bad.row;
                }
            });
            return bad_row;
        },
        nb::arg("atoms"), nb::arg("lambda1"), nb::arg("lambda2"), nb::arg("positive"), nb::arg("which"), nb::arg("x"), nb::arg("rule"),
        nb::arg("amounts"), nb::arg("codes"), nb::arg("n_threads"),
        "Append the codes of the signals x (n, m), each on one of the dictionaries atoms (k, p, m): that of its number in which (n,).\n\n"
        "Return None, or the row of a signal that is not finite. In that case codes is incomplete.");
}

template <class T>
void bind_direct_encoder_of(nb::module_& module, const char* name) {
    auto bound = nb::class_<DirectEncoder<T>, Prepared<T>>(module, name, "The same without a Gram matrix, for large dictionaries.")
                     .def(
                         "__init__",
                         [](DirectEncoder<T>* self, Matrix<T> atoms, double lambda1, double lambda2, bool positive) {
                             const Parameters parameters = {lambda1, lambda2, positive, Method::active_set};
                             const nb::gil_scoped_release unlocked;
                             new (self) DirectEncoder<T>(atoms.data(), Index(atoms.shape(0)), Index(atoms.shape(1)), parameters);
                         },
                         nb::arg("atoms"), nb::arg("lambda1"), nb::arg("lambda2"), nb::arg("positive"), nb::keep_alive<1, 2>(),
                         "Prepare the dictionary atoms (p, m), which must be finite. It is read in place and must not change.");
    bind_encode<T>(bound);
    bound
        .def(
            "encode_varied",
            [](const DirectEncoder<T>& encoder, Strided<T> x, Rule rule, List<double> amounts, std::optional<Matrix<std::uint8_t>> observed,
               std::optional<Matrix<double>> weights, Codes<T>& codes, int n_threads) {
                require_shape("x", x, {x.shape(0), features(encoder)}, "one column per feature of the dictionary");
                const DenseSignals<T> signals = {x.data(), Index(x.shape(0)), Index(x.stride(0)), Index(x.stride(1))};
                return encode_signals(encoder, signals, rule, amounts, codes, n_threads, variation_of(encoder, x.shape(0), observed, weights));
            },
            nb::arg("x"), nb::arg("rule"), nb::arg("amounts"), nb::arg("observed").none(), nb::arg("weights").none(), nb::arg("codes"),
            nb::arg("n_threads"),
            "Append the codes of the signals x (n, m) as encode, each from its observed features and with its own weights of the ℓ1 norm.\n\n"
            "observed (n, m) is 1 where a feature was observed and 0 elsewhere, weights is (n, p) or (1, p), at least 0, or infinite to exclude\n"
            "an atom.")
        .def(
            "encode_sparse_varied",
            [](const DirectEncoder<T>& encoder, List<T> values, List<std::int64_t> indptr, List<std::int32_t> indices, Rule rule,
               List<double> amounts, std::optional<Matrix<std::uint8_t>> observed, std::optional<Matrix<double>> weights, Codes<T>& codes,
               int n_threads) {
                const std::size_t end = end_of(indptr);
                require_length("values", values, end);
                require_length("indices", indices, end);
                return encode_signals(encoder, SparseSignals<T>{view(values), view(indptr), view(indices)}, rule, amounts, codes, n_threads,
                                      variation_of(encoder, indptr.shape(0) - 1, observed, weights));
            },
            nb::arg("values"), nb::arg("indptr"), nb::arg("indices"), nb::arg("rule"), nb::arg("amounts"), nb::arg("observed").none(),
            nb::arg("weights").none(), nb::arg("codes"), nb::arg("n_threads"), "The same for signals in compressed rows.");
}

}  // namespace

void bind_encoder(nb::module_& module) {
    nb::enum_<Rule>(module, "Rule", "Which point of the path of a signal is its code.")
        .value("penalty", Rule::penalty, "The code at a given λ1.")
        .value("n_nonzero", Rule::n_nonzero, "The last point with at most so many nonzeros.")
        .value("max_error", Rule::max_error, "‖x − Dα‖² = ε.")
        .value("max_l1", Rule::max_l1, "‖α‖₁ = τ.");
    bind_codes<float>(module, "CodesFloat32");
    bind_codes<double>(module, "CodesFloat64");
    bind_prepared<float>(module, "PreparedFloat32");
    bind_prepared<double>(module, "PreparedFloat64");
    bind_encoder_of<float>(module, "EncoderFloat32");
    bind_encoder_of<double>(module, "EncoderFloat64");
    bind_direct_encoder_of<float>(module, "DirectEncoderFloat32");
    bind_direct_encoder_of<double>(module, "DirectEncoderFloat64");
    bind_encode_each<float>(module);
    bind_encode_each<double>(module);
    module.def("prefers_direct", &prefers_direct, nb::arg("n"), nb::arg("m"), nb::arg("p"), nb::arg("entry_bytes"),
               "Return whether n signals of m features are encoded faster on p atoms without a Gram matrix of so many bytes per entry.");
}

}  // namespace taskdict
