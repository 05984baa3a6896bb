"""One method at a time that changes an object: learning from two threads at once would mix two models."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

Object = TypeVar("Object")
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

# The objects that learn now, by their id, with the thread and the method. They are kept here and not in the objects,
# which are cloned, copied and pickled. There is no lock that a signal handler or a forked child could wait for.
_learning: dict[int, tuple[int, str]] = {}


def exclusive(
    method: Callable[Concatenate[Object, Arguments], Result],
) -> Callable[Concatenate[Object, Arguments], Result]:
    """Return the method as one that raises RuntimeError while it, or another exclusive one, runs on the same object."""

    @functools.wraps(method)
    def alone(self: Object, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        mine = threading.get_ident(), method.__name__
        theirs = _learning.setdefault(id(self), mine)  # atomic
        if theirs is not mine:
            where = "a callback or signal handler" if theirs[0] == mine[0] else "another thread"
            raise RuntimeError(
                f"{method.__name__} of this {type(self).__name__} was called from {where} while its {theirs[1]} runs: "
                "wait for it to end, or use a copy (sklearn.base.clone, copy.deepcopy) in each thread."
            )
        try:
            return method(self, *args, **kwargs)
        finally:
            del _learning[id(self)]

    return alone


def _forget_other_threads() -> None:
    """In a forked child, nothing is learned by threads of the parent."""
    for key, (thread, _) in list(_learning.items()):
        if thread != threading.get_ident():
            del _learning[key]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)
