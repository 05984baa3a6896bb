// Long calls of the core: without the GIL, and stopped by Ctrl-C.
#pragma once

#include <nanobind/nanobind.h>

#include "system/interrupt.hpp"
#include "system/threads.hpp"

namespace taskdict {

// Asks Python whether a signal handler wants this call to end. The call also ends in a child process that the handler has forked.
inline bool user_interrupts(int generation) {
    const nanobind::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) return true;
    if (fork_generation() == generation) return false;
    PyErr_SetString(PyExc_RuntimeError,
                    "this process was forked by a signal handler during a call of taskdict, whose threads are in the parent process only: "
                    "the call cannot be finished here. Leave the child from within the handler (os._exit), or make the call again.");
    return true;
}

// Runs `body(interrupt)` without the GIL; an interrupt becomes a Python exception.
template <class Body>
void interruptible(Body body) {
    try {
        const nanobind::gil_scoped_release release;
        Interrupt interrupt([generation = fork_generation()] { return user_interrupts(generation); });
        body(interrupt);
    } catch (const Interrupted&) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "a call of taskdict was stopped for an unknown reason: please report this.");
        nanobind::raise_python_error();
    }
}

}  // namespace taskdict
