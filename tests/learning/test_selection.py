"""The choice of λ1, of the model and of ν before a training."""

import numpy as np
import pytest

from helpers import random_problem
from taskdict._coding.coded_batch import Coding
from taskdict._learning.models import Columns
from taskdict._learning.selection import LIKELIHOOD_SHARE, NUS, choose

N, M, P = 150, 12, 20
X, D = random_problem(N, M, P)
LAMBDA1S = (0.1, 0.05)


class Learner:
    """Gives always the same dictionary, and notes what it was asked for."""

    def __init__(self, dictionary=D):
        self.dictionary = dictionary
        self.asked = []

    def __call__(self, coding, first):
        self.asked.append((coding.lambda1, None if first is None else len(first)))
        return self.dictionary


def chosen(targets, X=X, learner=None, **changed):
    settings = {
        "lambda1s": LAMBDA1S,
        "decisions": ("split", "joint"),
        "columns": Columns.of(X),
        "quadratic": True,
        "fit_intercept": True,
        "n_threads": 1,
        **changed,
    }
    return choose(X, targets, None, learner or Learner(), Coding(0.0, 0.05), (), **settings)


def noise(n=N):
    return 0.01 * np.random.default_rng(1).standard_normal((n, 1))


def test_a_linear_task_needs_the_signals():
    assert chosen(X @ np.ones((M, 1)) + noise()).decision == "joint"


def test_a_task_that_is_even_in_the_signal_needs_their_codes_only():
    rng = np.random.default_rng(0)
    atoms = rng.integers(0, P, N)
    signals = rng.choice([-1.0, 1.0], (N, 1)) * D[atoms] + 0.02 * rng.standard_normal((N, M))
    choice = chosen((atoms % 2)[:, None] + noise(), X=signals)
    assert choice.decision == "split"


def test_the_penalty_grows_with_the_noise():
    clean = X @ np.ones((M, 1))
    noisy = clean + 3 * np.random.default_rng(0).standard_normal((N, 1))
    assert chosen(noisy).nu > chosen(clean + noise()).nu
    assert chosen(noisy, quadratic=False).nu == pytest.approx(LIKELIHOOD_SHARE * chosen(noisy).nu)
    assert chosen(noisy).nu in NUS


def test_the_second_dictionary_starts_from_the_first():
    learner = Learner()
    choice = chosen(X[:, :2], learner=learner)
    assert learner.asked == [(0.1, None), (0.05, P)]
    assert choice.lambda1 in LAMBDA1S
    np.testing.assert_array_equal(choice.dictionary, D)
    only = Learner()
    assert chosen(X[:, :2], learner=only, lambda1s=[0.3]).lambda1 == 0.3  # what was given stays
    assert only.asked == [(0.3, None)]


def test_what_samples_weigh():
    targets = X @ np.ones((M, 1))
    targets[::2] = np.random.default_rng(0).standard_normal((N // 2, 1)) * 10
    weights = np.tile([0.0, 2.0], N // 2)
    columns = Columns.of(X)
    with_weights = choose(
        X,
        targets,
        weights,
        Learner(),
        Coding(0.0, 0.05),
        (),
        lambda1s=LAMBDA1S,
        decisions=("split", "joint"),
        columns=columns,
        quadratic=True,
        fit_intercept=True,
        n_threads=1,
    )
    assert with_weights.decision == "joint"
    assert with_weights.nu < chosen(targets).nu


def test_few_samples_are_not_compared():
    choice = chosen(X[:9, :1], X=X[:9])
    assert (choice.lambda1, choice.decision, choice.nu) == (0.1, "split", 1.0)


def test_codes_that_are_all_zero():
    assert np.isfinite(chosen(X[:, :1], learner=Learner(0 * D)).nu)
