#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.hpp"
#include "simd/dispatch.hpp"

NB_MODULE(_core, module) {
    module.doc() =
        "The native core: sparse coding, its derivatives, and the inner loops of dictionary learning.\n\n"
        "The rows of x are n signals of m features, the rows of atoms are the p atoms of a dictionary. Codes with N nonzeros are compressed rows:\n"
        "indptr (n + 1,), indices and values (N,). Arrays must be aligned. Arrays that a function writes to are not converted.";
    taskdict::bind_encoder(module);
    taskdict::bind_pursuit(module);
    taskdict::bind_learn(module);
    taskdict::bind_images(module);
    module.def(
        "instruction_set", [] { return std::string(taskdict::instruction_set().name); },
        "Return the name of the instruction set that the kernels use on this processor.");
    module.def(
        "instruction_sets",
        [] {
            std::vector<std::string> names;
            for (const taskdict::InstructionSet* set : taskdict::instruction_sets()) names.push_back(set->name);
            return names;
        },
        "Return the names of the instruction sets that this processor has. The environment variable TASKDICT_ISA selects one of them.");
}
