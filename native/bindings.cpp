// Shapes, the GIL and the call; nothing is decided here.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include "core/batch.hpp"

namespace nb = nanobind;
using namespace taskdict;

namespace {

template <class T>
using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::device::cpu>;
template <class T>
using Contiguous = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T>
using List = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

bool user_interrupts() {
    const nb::gil_scoped_acquire gil;
    return PyErr_CheckSignals() != 0;
}

// Runs `body(interrupt)` without the GIL; what the user or the data stop becomes a Python exception.
template <class Body>
void without_gil(Body body) {
    try {
        const nb::gil_scoped_release release;
        Interrupt interrupt(user_interrupts);
        body(interrupt);
    } catch (const Interrupted&) {
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

template <class T>
void bind(nb::module_& module, const char* encoder_name, const char* codes_name) {
    nb::class_<Codes<T>>(module, codes_name).def(nb::init<bool>(), nb::arg("keep_factors")).def("release", [](Codes<T>& codes) {
        return nb::make_tuple(hand_over(codes.values), hand_over(codes.indices), hand_over(codes.indptr), hand_over(codes.status),
                              hand_over(codes.kkt), hand_over(codes.steps), hand_over(codes.factors));
    });

    nb::class_<Encoder<T>>(module, encoder_name)
        .def(
            "__init__",
            [](Encoder<T>* self, Contiguous<T> atoms, double lambda1, double lambda2, bool positive, bool homotopy, bool sparse, int n_threads) {
                const Parameters parameters = {lambda1, lambda2, positive, homotopy ? Method::homotopy : Method::active_set};
                const nb::gil_scoped_release release;
                new (self) Encoder<T>(atoms.data(), Index(atoms.shape(0)), Index(atoms.shape(1)), parameters, sparse, n_threads);
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
        .def("solve_adjoint", [](const Encoder<T>& encoder, List<std::int64_t> indptr, List<std::int32_t> indices, List<T> factors, List<T> g,
                                 int n_threads) {
            Growing<T> beta;
            beta.extend(Index(g.shape(0)));
            {
                const nb::gil_scoped_release release;
                solve_adjoint(encoder, indptr.data(), Index(indptr.shape(0)) - 1, indices.data(), factors.data(), g.data(), beta.data(), n_threads);
            }
            return hand_over(beta);
        });
}

}  // namespace

NB_MODULE(_core, module) {
    bind<float>(module, "EncoderFloat32", "CodesFloat32");
    bind<double>(module, "EncoderFloat64", "CodesFloat64");
    module.def("instruction_set", [] { return std::string(instruction_set().name); });
}
