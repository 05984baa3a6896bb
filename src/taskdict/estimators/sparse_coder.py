"""Sparse coding on a given dictionary, as a transformer."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from taskdict._coding.encode import PreparedDictionary
from taskdict._coding.rules import RULES, Rule
from taskdict._common.deprecation import DEPRECATED, renamed
from taskdict._common.validation import check_dictionary, check_flag, check_penalty
from taskdict._files import storage
from taskdict._files.persistent import PersistentEstimator, parameters_from_file
from taskdict._files.registry import register
from taskdict._learning.scaling import size_of, sparse_size
from taskdict._learning.task_settings import DEFAULT_LAMBDA1
from taskdict.estimators.codes import CodesMixin, decoded, model_file
from taskdict.estimators.features import Features, read_signals


@register
class SparseCoder(CodesMixin, PersistentEstimator):
    """Encode signals on a fixed dictionary with the elastic net.

    Each signal x becomes the minimiser of ½‖x − Dα‖² + lambda1 ‖α‖₁ + lambda2/2 ‖α‖², see
    :func:`taskdict.sparse_encode`, for use in pipelines and searches. One of the rules `n_nonzero`, `max_error` and
    `max_l1` may choose the weight of the ℓ1 norm for each signal instead. Weights, missing values, several dictionaries
    and one amount per signal belong to signals, not to a transformer: they are arguments of `sparse_encode` only.

    Parameters
    ----------
    dictionary : array of shape (n_components, n_features)
        One atom per row, of any norm. There is no default: None is an error in `fit`.
    lambda1 : float or None, default=0.15
        Weight of the ℓ1 norm; the default suits signals and atoms of unit norm. None is 0.15 times the root mean square
        norm of the signals in `fit`. Not used if one of the next three is given.
    n_nonzero : int or None, default=None
        Largest number of nonzeros of a code, see :func:`taskdict.sparse_encode`. A rule other than None replaces
        `lambda1`, whatever that is; two at once are an error. Set it to None again to return to `lambda1`.
    max_error : float or None, default=None
        Largest squared error ‖x − Dα‖² of a code, a rule as well.
    max_l1 : float or None, default=None
        Largest ℓ1 norm ‖α‖₁ of a code, a rule as well.
    lambda2 : float, default=0.0
        Weight of the squared ℓ2 norm.
    positive_code : bool, default=False
        Whether to require non-negative codes.
    method : {"auto", "active-set", "homotopy", "omp"}, default="auto"
        See :func:`taskdict.sparse_encode`; "omp" needs one of `n_nonzero` and `max_error`, and no `lambda2` or
        `positive_code`.
    n_threads : int or None, default=None
        Threads to use; None is every core this process may use.
    sparse_output : bool, default=True
        Whether `transform` returns sparse codes; dense ones are needed for ``set_output(transform="pandas")``.
    positive : bool
        The earlier name of `positive_code`, until taskdict 0.4.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The dictionary.
    lambda1_ : float or None
        The weight of the ℓ1 norm that is used, None with another rule.
    n_features_in_ : int
        Number of features per signal.
    feature_names_in_ : array of str
        Names of the features, if X in `fit` had names.

    Examples
    --------
    >>> import numpy as np
    >>> import taskdict as td
    >>> coder = td.SparseCoder(np.eye(3), lambda1=1.0)
    >>> coder.fit_transform([[3.0, -1.0, 0.5]]).toarray()
    array([[2., 0., 0.]])

    At most one nonzero, as by scikit-learn's ``SparseCoder(transform_algorithm="omp", transform_n_nonzero_coefs=1)``:

    >>> td.SparseCoder(np.eye(3), n_nonzero=1, method="omp").fit_transform([[3.0, -1.0, 0.5]]).toarray()
    array([[3., 0., 0.]])
    """

    _fitted: PreparedDictionary  # the parameters of the estimator may have changed since

    def __init__(
        self,
        dictionary: ArrayLike | None = None,
        *,
        lambda1: float | None = 0.15,
        n_nonzero: int | None = None,
        max_error: float | None = None,
        max_l1: float | None = None,
        lambda2: float = 0.0,
        positive_code: bool = False,
        method: str = "auto",
        n_threads: int | None = None,
        sparse_output: bool = True,
        positive: bool | str = DEPRECATED,
    ) -> None:
        self.dictionary = dictionary
        self.lambda1 = lambda1
        self.n_nonzero = n_nonzero
        self.max_error = max_error
        self.max_l1 = max_l1
        self.lambda2 = lambda2
        self.positive_code = positive_code
        self.method = method
        self.n_threads = n_threads
        self.sparse_output = sparse_output
        self.positive = positive

    def fit(self, X: Any, y: Any = None) -> Self:
        """Prepare the dictionary and check the parameters; nothing is learned but `lambda1_`.

        Parameters
        ----------
        X : array or sparse array of shape (n_samples, n_features)
            Signals.
        y : ignored
            Present for pipelines.

        Returns
        -------
        self : SparseCoder
        """
        if self.dictionary is None:
            raise ValueError("dictionary must be an array of shape (n_components, n_features), got None.")
        X, features = read_signals(self, X, reset=True, ensure_all_finite=True)
        single = getattr(self.dictionary, "dtype", None) == np.float32
        atoms = check_dictionary(self.dictionary, np.dtype(np.float32 if single else np.float64)).copy()
        rule = Rule.of_estimator(vars(self))
        if rule is None:
            lambda1 = self.lambda1
            if lambda1 is None:
                lambda1 = DEFAULT_LAMBDA1 * ((sparse_size(X) if sp.issparse(X) else size_of(X)) or 1.0)
            rule = Rule.parse({"lambda1": lambda1}, scalar=True)
        positive = check_flag("positive_code", renamed(self, "positive", "positive_code", removed_in="0.4"))
        if self.method == "omp":
            self._check_pursuit(rule, positive)
        fitted = PreparedDictionary(
            atoms, rule=rule, lambda2=self.lambda2, positive=positive, method=self.method, is_reused=True
        )
        fitted.codes(X[:1], self.n_threads)  # checks n_threads and the signals, and prepares the dictionary
        self._fitted = fitted
        features.publish(self)
        return self

    def _check_pursuit(self, rule: Rule, positive: bool) -> None:
        """Raise for parameters that a pursuit does not take, by the names that they have here."""
        if rule.name not in ("n_nonzero", "max_error"):
            got = "neither of them" if rule.name == "lambda1" else f"{rule.name}={rule.amount:g}"
            raise ValueError(
                f"n_nonzero or max_error must be given with method='omp', got {got}: for example n_nonzero=10."
            )
        if positive:
            raise ValueError(
                "positive_code must be False with method='omp', got True: leave out method, and "
                f"{rule.name} chooses a point of the path."
            )

    @property
    def components_(self) -> NDArray[Any]:
        """The dictionary."""
        components: NDArray[Any] = self._coder().dictionary
        return components

    @property
    def lambda1_(self) -> float | None:
        """The weight of the ℓ1 norm that is used, None with another rule."""
        rule = self._coder().rule
        return rule.amount if rule.name == "lambda1" else None

    def _coder(self) -> PreparedDictionary:
        check_is_fitted(self)
        return self._fitted

    def inverse_transform(self, codes: Any) -> NDArray[Any]:
        """Return the signals Dα of codes.

        Parameters
        ----------
        codes : array or sparse array of shape (n_samples, n_components)
            Codes, as `transform` returns them.

        Returns
        -------
        X : array of shape (n_samples, n_features)
        """
        return decoded(codes, self.components_)

    def _codes(self, X: Any) -> sp.csr_array:
        return self._coder().codes(X, self.n_threads)

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether there is a dictionary."""
        return "_fitted" in vars(self)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def _summary(self) -> str:
        n_atoms, width = self.components_.shape
        rule = self._coder().rule
        return f"{n_atoms} atoms of {width} features, {rule.name} {rule.amount:.3g}"

    def _to_file(self) -> tuple[storage.Arrays, dict[str, Any]]:
        fitted = self._coder()
        as_fitted: dict[str, Any] = {
            "lambda2": fitted.lambda2,
            "positive_code": fitted.positive,
            "method": fitted.method,
            "positive": DEPRECATED,
        }
        as_fitted |= {name: fitted.rule.parameter(name) for name in RULES[1:]}
        if self.lambda1 is not None and self.lambda1_ is not None:
            as_fitted["lambda1"] = self.lambda1_
        return model_file(self, {"components": fitted.dictionary}, {"lambda1": self.lambda1_}, as_fitted)

    @classmethod
    def _from_file(cls, arrays: storage.Arrays, document: dict[str, Any]) -> Self:
        parameters, arrays = parameters_from_file(arrays, document["parameters"])
        if parameters.get("positive", DEPRECATED) != DEPRECATED:  # of taskdict 0.1
            parameters["positive_code"] = parameters.pop("positive")
        model, atoms = cls(**parameters), arrays["components"]
        if atoms.dtype not in (np.float32, np.float64):
            raise ValueError("its dictionary must be float32 or float64")
        atoms = check_dictionary(atoms, atoms.dtype)
        check_flag("sparse_output", model.sparse_output)
        if model.lambda1 is not None:
            check_penalty("lambda1", model.lambda1)
        rule = Rule.of_estimator(vars(model))
        if rule is None:
            lambda1 = check_penalty("lambda1", document["learned"].get("lambda1", model.lambda1))
            rule = Rule.parse({"lambda1": lambda1}, scalar=True)
        rule.check_fits(0, len(atoms))
        coding: dict[str, Any] = {"lambda2": model.lambda2, "positive": model.positive_code, "method": model.method}
        model._fitted = PreparedDictionary(atoms, rule=rule, **coding, is_reused=True)
        Features.from_document(document, atoms.shape[1]).publish(model)
        return model
