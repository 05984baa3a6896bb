"""scikit-learn's own checks of every estimator that takes arrays, and its conventions that they do not check."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import taskdict as td
from helpers import random_problem
from taskdict._learning.selection import LAMBDA1S


class AnyWidth(td.SparseCoder):
    """scikit-learn's checks bring data of any width: this SparseCoder makes a dictionary for it."""

    def __init__(
        self,
        dictionary=None,
        *,
        lambda1=0.15,
        lambda2=0.0,
        positive_code=False,
        method="auto",
        n_threads=None,
        sparse_output=True,
    ):
        super().__init__(
            dictionary,
            lambda1=lambda1,
            lambda2=lambda2,
            positive_code=positive_code,
            method=method,
            n_threads=n_threads,
            sparse_output=sparse_output,
        )

    def fit(self, X, y=None):
        shape = X.shape if sp.issparse(X) else np.asarray(X).shape
        width = shape[1] if len(shape) == 2 else 1
        given, self.dictionary = self.dictionary, np.random.default_rng(0).standard_normal((7, max(width, 1)))
        try:
            return super().fit(X, y)
        finally:
            self.dictionary = given


ESTIMATORS = [
    td.UnitNorm(),
    td.UnitNorm(center=False),
    AnyWidth(lambda1=None, sparse_output=False),
    AnyWidth(positive_code=True, lambda2=0.1),
    td.DictionaryLearning(max_iter=5, sparse_output=False),
    td.DictionaryLearning(2, lambda1=0.05, lambda2=0.1, positive_code=True, batch_size=7, max_iter=9, tol=0),
    td.TaskDrivenClassifier(5, max_iter=30, random_state=0),
    td.TaskDrivenClassifier(
        None, max_iter=20, multi_class="softmax", decision="bilinear", positive_code=True, sparse_output=False
    ),
    td.TaskDrivenRegressor(5, max_iter=30, random_state=0),
    td.CompressedSensing(1, None, lambda1=None, max_iter=5),
]
STOCHASTIC = (
    "batches are drawn at random: a weight is not a repetition of the sample, as in scikit-learn's SGDClassifier"
)


def expected_failed_checks(estimator):
    if isinstance(estimator, td.TaskDrivenClassifier | td.TaskDrivenRegressor):
        names = ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data")
        return dict.fromkeys(names, STOCHASTIC)
    return {}


@pytest.mark.filterwarnings("ignore:The mean of the signals is")  # of checks with signals around 100
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failed_checks)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


X, D = random_problem(60, 6, 4)
FRAME = pd.DataFrame(X, columns=list("abcdef"), index=range(100, 160))
CODERS = {
    "SparseCoder": td.SparseCoder(D),
    "DictionaryLearning": td.DictionaryLearning(4, lambda1=0.1, max_iter=2, random_state=0),
    "TaskDrivenClassifier": td.TaskDrivenClassifier(4, max_iter=2, random_state=0),
    "TaskDrivenRegressor": td.TaskDrivenRegressor(4, max_iter=2, random_state=0),
}
Y = np.arange(60) % 2


@pytest.mark.parametrize("name", CODERS)
def test_codes_as_a_data_frame(name):
    """Dense codes become a DataFrame; sparse ones say what to do."""
    model = clone(CODERS[name]).fit(FRAME, Y)
    codes = model.transform(FRAME)
    assert isinstance(codes, sp.csr_array)
    dense = model.set_params(sparse_output=False).transform(FRAME)
    assert isinstance(dense, np.ndarray)
    np.testing.assert_array_equal(dense, codes.toarray())
    frame = model.set_output(transform="pandas").transform(FRAME)
    assert list(frame.columns) == [f"{name.lower()}{k}" for k in range(4)]
    assert list(frame.index) == list(FRAME.index)
    np.testing.assert_array_equal(frame.to_numpy(), dense)
    with pytest.raises(ValueError, match="Try to set the transformer output to a dense array"):
        model.set_params(sparse_output=True).transform(FRAME)
    with pytest.raises(TypeError, match="sparse_output must be True or False, got 1"):
        model.set_params(sparse_output=1).transform(FRAME)


def test_signals_as_a_data_frame():
    frame = td.UnitNorm().set_output(transform="pandas").fit_transform(FRAME)
    assert list(frame.columns) == list(FRAME.columns)
    np.testing.assert_array_equal(frame.to_numpy(), td.UnitNorm().fit_transform(X))


@pytest.mark.parametrize("size", [1.0, 1e3])
@pytest.mark.parametrize("n", [3, 400])
def test_parameters_that_are_left_open(size, n):
    """Without targets as many atoms as features, at most 256 and as many as signals; λ1 goes with their size."""
    signals = size * random_problem(n, 300, 1)[0]
    y = np.arange(n) % 2
    expected = min(n, 256)
    learner = td.DictionaryLearning(max_iter=1, random_state=0).fit(signals)
    assert learner.components_.shape == (expected, 300)
    assert learner.lambda1_ == pytest.approx(0.15 * size)
    around_mean = np.sqrt(np.square(signals - signals.mean(axis=0)).sum(axis=1).mean())
    for model in (td.TaskDrivenClassifier(), td.TaskDrivenRegressor()):
        model.set_params(max_iter=1, random_state=0).fit(signals, y)
        assert model.components_.shape == (1 if n == 3 else 100, 300)
        share = model.lambda1_ / around_mean
        assert min(abs(share - tried) for tried in LAMBDA1S) < 1e-9
        assert model.set_params(decision="linear", lambda1=0.1 * size).fit(signals, y).lambda1_ == 0.1 * size
        assert model.nu_ == pytest.approx(0.1 * size**2 / n)
    sensing = td.CompressedSensing(2, None, lambda1=None, max_iter=1, random_state=0).fit(signals)
    assert sensing.components_.shape == (expected, 2)
    coder = td.SparseCoder(signals[:3], lambda1=None)
    assert coder.fit(signals).lambda1_ == pytest.approx(0.15 * size)
    assert coder.fit(sp.csr_array(signals)).lambda1_ == pytest.approx(0.15 * size)
    np.testing.assert_array_equal(
        coder.transform(signals).toarray(),
        td.sparse_encode(signals, signals[:3], lambda1=coder.lambda1_).toarray(),
    )
