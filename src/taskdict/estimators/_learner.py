"""What estimators that learn from batches share: taking signals in, and failing without a trace."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from typing import Any

from taskdict.estimators._signals import validated
from taskdict.streams import ArrayStream, Stream


def warn_finished(n_iter: int, max_iter: Any, remedy: str) -> None:
    """Warn that `fit` with `warm_start` has learned nothing, since the training was complete before."""
    warnings.warn(
        f"warm_start=True resumes a training that is complete after {n_iter} batches (max_iter={max_iter}): nothing "
        f"was learned now. To learn more, {remedy}.",
        UserWarning,
        stacklevel=6,
    )


class LearnerMixin:
    """For estimators that keep what they learn in one attribute, set when there is something to use."""

    _LEARNED = "_learner"  # its name
    _IN_STEP: tuple[str, ...] = ("n_features_in_", "feature_names_in_")  # attributes that belong to it

    n_components: int
    dictionary_init: Any
    random_state: Any

    def _open(self, X: Any, reset: bool) -> Stream:
        """Return X as a stream with enough signals."""
        if isinstance(X, Stream):
            stream = X
            if reset and hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
        else:
            stream = ArrayStream(self._check_signals(X, reset), random_state=self.random_state)
        few = stream.n_signals is not None and stream.n_signals < self.n_components
        if few and self.dictionary_init is None and stream.preprocess is None:
            raise ValueError(
                f"X has fewer signals than there are atoms (n_samples={stream.n_signals}, "
                f"n_components={self.n_components}): lower n_components or bring more signals."
            )
        return stream

    def _check_signals(self, X: Any, reset: bool) -> Any:
        if isinstance(X, (str, os.PathLike, Iterator)) or (
            isinstance(X, (list, tuple)) and len(X) > 0 and isinstance(X[0], (str, os.PathLike))
        ):
            raise TypeError(
                f"X must be an array or a stream, got {type(X).__name__}: fit(taskdict.stream(X)) reads it."
            )
        # Batches are converted, and checked for NaN and infinity, as they come.
        return validated(self, X, accept_sparse="csr", dtype="numeric", ensure_all_finite=False, reset=reset)

    @contextlib.contextmanager
    def _keeps_in_step(self) -> Iterator[None]:
        """Keep what is known of features and targets in step with what was learned, also if learning fails early."""
        before, learned = {k: v for k, v in vars(self).items() if k in self._IN_STEP}, vars(self).get(self._LEARNED)
        try:
            yield
        except BaseException:
            if vars(self).get(self._LEARNED) is learned:
                for name in self._IN_STEP:
                    if name in before:
                        setattr(self, name, before[name])
                    elif name in vars(self):
                        delattr(self, name)
            raise
