"""Encode, then decode: the map x ↦ Wα(x) + b of signals, where α(x) is the code of x on a dictionary."""

from __future__ import annotations

import numpy as np

from taskdict._common.arrays import SIGNALS_AT_ONCE, Floats
from taskdict._native import Encoded, Encoder, correlate_supports, decode


class CodedMap:
    """The map x ↦ Wα + b, with α the minimiser of ½‖x − Dα‖² + lambda1 ‖α‖₁ + lambda2/2 ‖α‖².

    The dictionary is prepared once. Signals are mapped in chunks, so memory does not grow with their number beside the
    result. The bits of a result depend neither on the chunks nor on the number of threads.

    Parameters
    ----------
    dictionary : array of shape (n_components, n_features)
        D, atoms as rows, contiguous, float32 or float64.
    coef : array of shape (n_outputs, n_components)
        W. With ``dictionary.T`` the map is the reconstruction Dα.
    intercept : array of shape (n_outputs,) or None
        b, None for zero.
    lambda1, lambda2 : float
        Penalties of the codes.
    positive : bool
        Whether codes are non-negative.
    refit : bool
        Whether the coefficients of the atoms in use are refit to the signal by least squares, with the penalty lambda2
        only, so that the ℓ1 norm selects atoms but does not shrink their coefficients (debiasing).
    n_threads : int
        Threads to use.
    """

    def __init__(
        self,
        dictionary: Floats,
        coef: Floats,
        intercept: Floats | None = None,
        *,
        lambda1: float,
        lambda2: float = 0.0,
        positive: bool = False,
        refit: bool = False,
        n_threads: int = 1,
    ) -> None:
        self._dictionary = dictionary
        self._table = np.ascontiguousarray(coef.T, dictionary.dtype)
        self._intercept = None if intercept is None else np.asarray(intercept, dictionary.dtype)
        self._refit, self._n_threads = refit, n_threads
        self._encoder = Encoder(
            dictionary,
            lambda1=lambda1,
            lambda2=lambda2,
            positive=positive,
            n_threads=n_threads,
            keep_factors=refit,
        )

    def __call__(self, X: Floats) -> Floats:
        """Return Wα + b for each signal.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Signals, which must be finite; they are converted to the dtype of the dictionary.

        Returns
        -------
        array of shape (n_samples, n_outputs)
        """
        outputs = np.empty((len(X), self._table.shape[1]), self._dictionary.dtype)
        for start in range(0, len(X), SIGNALS_AT_ONCE):
            chunk = slice(start, start + SIGNALS_AT_ONCE)
            self._map(np.ascontiguousarray(X[chunk], self._dictionary.dtype), outputs[chunk])
        if self._intercept is not None:
            outputs += self._intercept
        return outputs

    def _map(self, X: Floats, outputs: Floats) -> None:
        """Write Wα of some signals to `outputs`."""
        self._encoder.encode(X)
        encoded = self._encoder.release()
        values = self._refit_values(encoded, X) if self._refit else encoded.values
        decode(encoded, values, self._table, 0.0, outputs, outputs, self._n_threads)

    def _refit_values(self, encoded: Encoded, X: Floats) -> Floats:
        """Return the coefficients of least squares on the support of each code."""
        products = correlate_supports(encoded, self._dictionary, X, self._n_threads)
        return self._encoder.solve_adjoint(encoded, products)
