// Shapes, the GIL and the call; nothing is decided here.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include "core/adjoint.hpp"
#include "core/atoms.hpp"
#include "core/batch.hpp"
#include "core/pictures.hpp"
#include "core/sums.hpp"
#include "core/threads.hpp"

namespace nb = nanobind;
using namespace taskdict;

namespace {

// An array whose address is a multiple of alignof(T). Others are refused as arguments: to read them is undefined behaviour.
template <class T, class... Options>
struct Aligned : nb::ndarray<T, nb::device::cpu, Options...> {};

template <class T>
using Matrix = Aligned<const T, nb::ndim<2>>;
template <class T>
using Contiguous = Aligned<const T, nb::ndim<2>, nb::c_contig>;
template <class T>
using Writable = Aligned<T, nb::ndim<2>, nb::c_contig>;
template <class T>
using List = Aligned<const T, nb::ndim<1>, nb::c_contig>;

}  // namespace

template <class T, class... Options>
struct nanobind::detail::type_caster<Aligned<T, Options...>> {
    using Array = ndarray<T, device::cpu, Options...>;
    using Wanted = Aligned<T, Options...>;
    NB_TYPE_CASTER(Wanted, make_caster<Array>::Name)

    bool from_python(handle source, std::uint32_t flags, cleanup_list* cleanup) noexcept {
        make_caster<Array> caster;
        if (!caster.from_python(source, flags, cleanup)) return false;
        value = {std::move(caster.value)};
        return value.size() == 0 || reinterpret_cast<std::uintptr_t>(value.data()) % alignof(T) == 0;
    }
};

namespace {

// Asks Python whether a signal handler wants this call to end. It ends as well in a child that the handler has forked.
bool user_interrupts(int generation) {
    const nb::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) return true;
    if (fork_generation() == generation) return false;
    PyErr_SetString(PyExc_RuntimeError,
                    "this process was forked by a signal handler during a call of taskdict, whose threads are in the parent process only: "
                    "the call cannot be finished here. Leave the child from within the handler (os._exit), or make the call again.");
    return true;
}

// Runs `body(interrupt)` without the GIL; what the user or the data stop becomes a Python exception.
template <class Body>
void without_gil(Body body) {
    try {
        const nb::gil_scoped_release release;
        Interrupt interrupt([generation = fork_generation()] { return user_interrupts(generation); });
        body(interrupt);
    } catch (const Interrupted&) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "a call of taskdict was stopped, but nobody has said why: please report this.");
        nb::raise_python_error();
    } catch (const BadSignal& bad) {
        nb::object error = nb::module_::import_("taskdict._native").attr("BadSignalError")(bad.row);
        PyErr_SetObject((PyObject*)error.type().ptr(), error.ptr());
        nb::raise_python_error();
    }
}

template <class T>
nb::object hand_over(Growing<T>& numbers) {
    const std::size_t size = std::size_t(numbers.size());
    T* memory = numbers.release();
    const nb::capsule owner(memory, [](void* m) noexcept { std::free(m); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(memory, {size}, owner));
}

void require(bool fits) {
    if (!fits) throw nb::value_error("the shapes of the arrays do not fit each other");
}

Supports supports_of(const List<std::int64_t>& indptr, const List<std::int32_t>& indices, Index atoms) {
    require(indptr.shape(0) > 0 && indptr.data()[indptr.shape(0) - 1] == std::int64_t(indices.shape(0)));
    return {indptr.data(), indices.data(), Index(indptr.shape(0)) - 1, atoms};
}

template <class T>
void bind(nb::module_& module, const char* encoder_name, const char* codes_name) {
    nb::class_<Codes<T>>(module, codes_name).def(nb::init<bool>(), nb::arg("keep_factors")).def("release", [](Codes<T>& codes) {
        const nb::object released = nb::make_tuple(hand_over(codes.values), hand_over(codes.indices), hand_over(codes.indptr),
                                                   hand_over(codes.status), hand_over(codes.kkt), hand_over(codes.steps), hand_over(codes.factors));
        codes.indptr.append(&codes.first, 1);  // empty again, and ready for more
        return released;
    });

    nb::class_<Encoder<T>>(module, encoder_name)
        .def(
            "__init__",
            [](Encoder<T>* self, Contiguous<T> atoms, double lambda1, double lambda2, bool positive, bool homotopy, bool sparse, int n_threads) {
                const Parameters parameters = {lambda1, lambda2, positive, homotopy ? Method::homotopy : Method::active_set};
                without_gil([&](Interrupt& interrupt) {
                    new (self) Encoder<T>(atoms.data(), Index(atoms.shape(0)), Index(atoms.shape(1)), parameters, sparse, n_threads, interrupt);
                });
            },
            nb::arg("atoms"), nb::arg("lambda1"), nb::arg("lambda2"), nb::arg("positive"), nb::arg("homotopy"), nb::arg("sparse"),
            nb::arg("n_threads"))
        .def("encode",
             [](const Encoder<T>& encoder, Matrix<T> x, Codes<T>& codes, int n_threads) {
                 const DenseSignals<T> signals = {x.data(), Index(x.shape(0)), Index(x.stride(0)), Index(x.stride(1))};
                 without_gil([&](Interrupt& interrupt) { encode(encoder, signals, codes, n_threads, interrupt); });
             })
        .def("encode_sparse",
             [](const Encoder<T>& encoder, List<T> values, List<std::int64_t> indptr, List<std::int32_t> indices, Codes<T>& codes, int n_threads) {
                 const SparseSignals<T> signals = {values.data(), indptr.data(), indices.data(), Index(indptr.shape(0)) - 1};
                 without_gil([&](Interrupt& interrupt) { encode(encoder, signals, codes, n_threads, interrupt); });
             })
        .def("duplicates",
             [](const Encoder<T>& encoder, double cosine) {
                 Growing<std::int32_t> out;
                 {
                     const nb::gil_scoped_release release;
                     const std::vector<std::int32_t> found = encoder.duplicates(cosine);
                     out.append(found.data(), Index(found.size()));
                 }
                 return hand_over(out);
             })
        .def("objectives",
             [](const Encoder<T>& encoder, List<std::int64_t> indptr, List<std::int32_t> indices, List<T> values, Contiguous<T> x, int n_threads) {
                 require(x.shape(0) + 1 == indptr.shape(0) && Index(x.shape(1)) == encoder.features() && values.shape(0) == indices.shape(0));
                 const Supports supports = supports_of(indptr, indices, encoder.atoms());
                 Growing<double> out;
                 out.extend(Index(indptr.shape(0)) - 1);
                 {
                     const nb::gil_scoped_release release;
                     objectives(encoder, supports, values.data(), x.data(), out.data(), n_threads);
                 }
                 return hand_over(out);
             })
        .def("solve_adjoint",
             [](const Encoder<T>& encoder, List<std::int64_t> indptr, List<std::int32_t> indices, List<T> factors, List<T> g, int n_threads) {
                 require(g.shape(0) == indices.shape(0));
                 const Supports supports = supports_of(indptr, indices, encoder.atoms());
                 Growing<T> beta;
                 beta.extend(Index(g.shape(0)));
                 without_gil(
                     [&](Interrupt& interrupt) { solve_adjoint(encoder, supports, factors.data(), g.data(), beta.data(), n_threads, interrupt); });
                 return hand_over(beta);
             })
        .def(
            "gradient",
            [](const Encoder<T>& encoder, List<std::int64_t> indptr, List<std::int32_t> indices, List<T> values, List<T> factors, List<T> g,
               Contiguous<T> atoms, Contiguous<T> x, T reconstruction, Writable<T> both, Writable<T> in_atoms, int n_threads) {
                require(values.shape(0) == indices.shape(0) && g.shape(0) == indices.shape(0) && x.shape(0) + 1 == indptr.shape(0) &&
                        Index(x.shape(1)) == encoder.features() && Index(atoms.shape(0)) == encoder.atoms() && atoms.shape(1) == x.shape(1) &&
                        both.shape(0) == 2 * x.shape(0) && both.shape(1) == x.shape(1) && in_atoms.shape(0) == atoms.shape(0) &&
                        in_atoms.shape(1) == atoms.shape(1));
                const Supports supports = supports_of(indptr, indices, encoder.atoms());
                const CodeGradient<T> gradient = {values.data(), factors.data(), g.data(),    atoms.data(),
                                                  x.data(),      reconstruction, both.data(), in_atoms.data()};
                without_gil([&](Interrupt& interrupt) { code_gradient(encoder, supports, gradient, n_threads, interrupt); });
            },
            nb::arg("indptr"), nb::arg("indices"), nb::arg("values"), nb::arg("factors"), nb::arg("g"), nb::arg("atoms"), nb::arg("x"),
            nb::arg("reconstruction"), nb::arg("both").noconvert(), nb::arg("in_atoms").noconvert(), nb::arg("n_threads"));

    // What is written to must not be a converted copy, hence noconvert().
    module.def(
        "sum_outer",
        [](List<std::int64_t> indptr, List<std::int32_t> indices, List<T> values, Contiguous<T> x, T fade, Contiguous<T> before, Writable<T> after,
           int n_threads) {
            require(x.shape(0) + 1 == indptr.shape(0) && x.shape(1) == after.shape(1) && values.shape(0) == indices.shape(0) &&
                    before.shape(0) == after.shape(0) && before.shape(1) == after.shape(1));
            const Supports supports = supports_of(indptr, indices, Index(after.shape(0)));
            const nb::gil_scoped_release release;
            sum_outer(supports, values.data(), x.data(), Index(x.shape(1)), fade, before.data(), after.data(), n_threads);
        },
        nb::arg("indptr"), nb::arg("indices"), nb::arg("values"), nb::arg("x"), nb::arg("fade"), nb::arg("before"), nb::arg("after").noconvert(),
        nb::arg("n_threads"));
    module.def(
        "sum_outer_sparse",
        [](List<std::int64_t> indptr, List<std::int32_t> indices, List<T> left, List<T> right, T fade, Contiguous<T> before, Writable<T> after,
           int n_threads) {
            require(left.shape(0) == indices.shape(0) && right.shape(0) == indices.shape(0) && after.shape(0) == after.shape(1) &&
                    before.shape(0) == after.shape(0) && before.shape(1) == after.shape(1));
            const Supports supports = supports_of(indptr, indices, Index(after.shape(0)));
            const nb::gil_scoped_release release;
            sum_outer_sparse(supports, left.data(), right.data(), fade, before.data(), after.data(), n_threads);
        },
        nb::arg("indptr"), nb::arg("indices"), nb::arg("left"), nb::arg("right"), nb::arg("fade"), nb::arg("before"), nb::arg("after").noconvert(),
        nb::arg("n_threads"));
    module.def(
        "decode",
        [](List<std::int64_t> indptr, List<std::int32_t> indices, List<T> values, Contiguous<T> atoms, T fade, Contiguous<T> before,
           Writable<T> after, int n_threads) {
            require(after.shape(0) + 1 == indptr.shape(0) && after.shape(1) == atoms.shape(1) && values.shape(0) == indices.shape(0) &&
                    before.shape(0) == after.shape(0) && before.shape(1) == after.shape(1));
            const Supports supports = supports_of(indptr, indices, Index(atoms.shape(0)));
            const nb::gil_scoped_release release;
            decode(supports, values.data(), atoms.data(), Index(atoms.shape(1)), fade, before.data(), after.data(), n_threads);
        },
        nb::arg("indptr"), nb::arg("indices"), nb::arg("values"), nb::arg("atoms"), nb::arg("fade"), nb::arg("before"), nb::arg("after").noconvert(),
        nb::arg("n_threads"));
    module.def(
        "correlate_supports",
        [](List<std::int64_t> indptr, List<std::int32_t> indices, Contiguous<T> atoms, Contiguous<T> x, int n_threads) {
            require(x.shape(0) + 1 == indptr.shape(0) && x.shape(1) == atoms.shape(1));
            const Supports supports = supports_of(indptr, indices, Index(atoms.shape(0)));
            Growing<T> out;
            out.extend(Index(indices.shape(0)));
            {
                const nb::gil_scoped_release release;
                correlate_supports(supports, atoms.data(), x.data(), Index(x.shape(1)), out.data(), n_threads);
            }
            return hand_over(out);
        },
        nb::arg("indptr"), nb::arg("indices"), nb::arg("atoms").noconvert(), nb::arg("x").noconvert(), nb::arg("n_threads"));
    module.def(
        "shorten_rows",
        [](Writable<T> rows, bool positive) {
            const nb::gil_scoped_release release;
            shorten_rows(rows.data(), Index(rows.shape(0)), Index(rows.shape(1)), positive);
        },
        nb::arg("rows").noconvert(), nb::arg("positive"));
    module.def(
        "diffuse_errors",
        [](Writable<T> pixels, List<std::int64_t> down, List<std::int64_t> right, List<double> share) {
            require(down.shape(0) == right.shape(0) && down.shape(0) == share.shape(0));
            std::vector<Tap> taps(down.shape(0));
            for (std::size_t k = 0; k < taps.size(); ++k) {
                taps[k] = {Index(down.data()[k]), Index(right.data()[k]), share.data()[k]};
                require(taps[k].down > 0 || (taps[k].down == 0 && taps[k].right > 0));
            }
            const nb::gil_scoped_release release;
            diffuse_errors(pixels.data(), Index(pixels.shape(0)), Index(pixels.shape(1)), taps.data(), Index(taps.size()));
        },
        nb::arg("pixels").noconvert(), nb::arg("down"), nb::arg("right"), nb::arg("share"));
    module.def(
        "update_atoms",
        [](Writable<T> atoms, Contiguous<T> A, Contiguous<T> B, bool positive, int n_threads) {
            require(A.shape(0) == atoms.shape(0) && A.shape(1) == atoms.shape(0) && B.shape(0) == atoms.shape(0) && B.shape(1) == atoms.shape(1));
            without_gil([&](Interrupt& interrupt) {
                update_atoms(atoms.data(), A.data(), B.data(), Index(atoms.shape(0)), Index(atoms.shape(1)), positive, n_threads, interrupt);
            });
        },
        nb::arg("atoms").noconvert(), nb::arg("A"), nb::arg("B"), nb::arg("positive"), nb::arg("n_threads"));
}

}  // namespace

NB_MODULE(_core, module) {
    bind<float>(module, "EncoderFloat32", "CodesFloat32");
    bind<double>(module, "EncoderFloat64", "CodesFloat64");
    module.def(
        "bend",
        [](Aligned<const float, nb::ndim<3>, nb::c_contig> pictures, Contiguous<std::int64_t> offsets,
           Aligned<const float, nb::ndim<4>, nb::c_contig> values, Contiguous<float> down, Contiguous<float> right, float background,
           Aligned<float, nb::ndim<3>, nb::c_contig> out) {
            const Bend bend = {Index(pictures.shape(0)),
                               Index(pictures.shape(1)),
                               Index(pictures.shape(2)),
                               Index(down.shape(1)),
                               down.data(),
                               right.data(),
                               background};
            require(Index(offsets.shape(0)) == bend.count && offsets.shape(1) == 2 && Index(values.shape(0)) == bend.count && values.shape(1) == 2 &&
                    Index(values.shape(2)) == bend.knots && Index(values.shape(3)) == bend.knots && Index(down.shape(0)) == bend.height &&
                    Index(right.shape(0)) == bend.width && Index(right.shape(1)) == bend.knots && Index(out.shape(0)) == bend.count &&
                    Index(out.shape(1)) == bend.height && Index(out.shape(2)) == bend.width);
            const nb::gil_scoped_release release;
            taskdict::bend(bend, pictures.data(), offsets.data(), values.data(), out.data());
        },
        nb::arg("pictures").noconvert(), nb::arg("offsets").noconvert(), nb::arg("values").noconvert(), nb::arg("down").noconvert(),
        nb::arg("right").noconvert(), nb::arg("background"), nb::arg("out").noconvert());
    module.def("instruction_set", [] { return std::string(instruction_set().name); });
}
