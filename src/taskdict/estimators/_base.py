"""What all estimators with a dictionary share: coding, decoding, and files."""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from taskdict import storage
from taskdict._validation import check_signals
from taskdict.coding import sparse_encode
from taskdict.estimators._parameters import can_be_written, from_json, of_model, to_json
from taskdict.estimators._signals import validated
from taskdict.estimators._versions import VersionedEstimator
from taskdict.streams import Stream


class DictionaryEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, VersionedEstimator):
    """An estimator with atoms in `components_`, whose codes are its output, and which can be saved."""

    components_: NDArray[Any]

    @abstractmethod
    def _coding(self) -> dict[str, Any]:
        """Return the arguments of `sparse_encode` that are parameters of the estimator."""

    def transform(self, X: Any) -> sp.csr_array:
        """Encode signals.

        Parameters
        ----------
        X : array or sparse array of shape (n_samples, n_features)
            Signals.

        Returns
        -------
        codes : scipy.sparse.csr_array of shape (n_samples, n_components)
            Their codes, in the dtype of X.
        """
        check_is_fitted(self)
        if isinstance(X, Stream):
            raise TypeError("X must be an array, got a stream: pass stream.take(n), as often as you like.")
        # The encoder itself looks for values that are not finite.
        X = validated(self, X, accept_sparse="csr", dtype="numeric", ensure_all_finite=False, reset=False)
        return self._encode(X)

    def _encode(self, X: Any) -> sp.csr_array:
        """Return the codes of signals that were checked."""
        return sparse_encode(X, self.components_, **self._coding())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file, from which :func:`taskdict.load` reads it.

        The file is in the safetensors format: arrays and a JSON text with the class, the parameters and the version.
        An existing file is replaced only when the new one is complete. Some parameters are not written, and the loaded
        model has their defaults: functions, random generators, and those that say how a training runs (`checkpoint`,
        `warm_start`, `n_threads`, `verbose`, callbacks).

        Parameters
        ----------
        path : str or path
            Name of the file.
        """
        storage.write(path, type(self).__name__, *self._to_file())

    def _to_file(self) -> tuple[storage.Arrays, dict[str, Any]]:
        """Return the model as arrays and as what JSON can hold."""
        check_is_fitted(self)
        parameters: dict[str, Any] = {}
        arrays, learned = self._learned()
        for name, value in of_model(self.get_params(deep=False)).items():
            if hasattr(value, "__array__") and np.ndim(value) > 0 and np.asarray(value).dtype != object:
                arrays[f"parameter {name}"] = np.asarray(value)
            elif can_be_written(value):
                parameters[name] = to_json(value)
        names = getattr(self, "feature_names_in_", None)
        document = {
            "parameters": parameters,
            "learned": learned,
            "n_features_in": int(self.n_features_in_),
            "feature_names_in": None if names is None else [str(name) for name in names],
        }
        try:  # a file that could not be loaded must not replace one that can
            self._from_file(*storage.as_read(arrays, document))
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"the model cannot be saved with these parameters: {error}") from None
        return arrays, document

    @classmethod
    def _from_file(cls, arrays: storage.Arrays, document: dict[str, Any]) -> Self:
        """Make the model that `save` has written; raises ValueError, TypeError or KeyError for anything else."""
        prefix = "parameter "
        parameters = {name: from_json(value) for name, value in document["parameters"].items()}
        parameters.update({key.removeprefix(prefix): arrays[key] for key in arrays if key.startswith(prefix)})
        model = cls(**of_model(parameters))
        model._set_learned({key: arrays[key] for key in arrays if not key.startswith(prefix)}, document["learned"])
        if model._n_features_seen() != document["n_features_in"]:
            raise ValueError("the dictionary does not fit the number of features")
        model.n_features_in_ = model._n_features_seen()
        names = document["feature_names_in"]
        if names is not None:
            if not isinstance(names, list) or [type(name) for name in names] != [str] * model.n_features_in_:
                raise ValueError("the names of the features do not fit their number")
            model.feature_names_in_ = np.array(names, dtype=object)
        return model

    def _learned(self) -> tuple[storage.Arrays, dict[str, Any]]:
        """Return what was learned as arrays and as what JSON can hold."""
        return {"components": self.components_}, {}

    def _set_learned(self, arrays: storage.Arrays, learned: dict[str, Any]) -> None:
        """Take what `_learned` has returned."""
        self.components_ = arrays["components"]

    def _n_features_seen(self) -> int:
        """Return the number of features of the signals that this model was fitted on."""
        return int(self.components_.shape[1])

    def __sklearn_is_fitted__(self) -> bool:
        """Tell scikit-learn whether there is a dictionary."""
        return hasattr(self, "components_")

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that sparse input is welcome and the dtype is kept."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class DictionaryTransformer(DictionaryEstimator):
    """An estimator whose codes stand for signals, so that they can be turned back."""

    def inverse_transform(self, codes: Any) -> NDArray[Any]:
        """Return the signals that the codes stand for, Dα.

        Parameters
        ----------
        codes : array or sparse array of shape (n_samples, n_components)
            Codes, as `transform` returns them.

        Returns
        -------
        X : array of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        codes = check_signals(codes.tocsr() if sp.issparse(codes) else codes, "codes")
        if codes.shape[1] != self._n_features_out:
            raise ValueError(f"codes must have {self._n_features_out} columns, one per atom, got {codes.shape[1]}.")
        dtype = np.float32 if codes.dtype == np.float32 else np.float64
        signals: NDArray[Any] = codes @ self.components_.astype(dtype, copy=False)
        return signals
