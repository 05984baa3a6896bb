"""Signals that are made."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import taskdict as td


def test_waveforms():
    X, y = td.datasets.make_waveforms(500, 64, random_state=0)
    assert (X.shape, y.shape) == ((500, 64), (500,))
    assert X.dtype == np.float64
    assert (np.bincount(y) > 90).all()
    again, labels = td.datasets.make_waveforms(500, 64, random_state=0)
    np.testing.assert_array_equal(again, X)
    np.testing.assert_array_equal(labels, y)
    assert not np.array_equal(td.datasets.make_waveforms(500, 64, random_state=1)[0], X)


def test_pulses_have_norm_one_and_either_sign():
    X, y = td.datasets.make_waveforms(400, noise=0.0, random_state=0)
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1)
    bumps = X[y == 0]
    up = bumps[np.arange(len(bumps)), np.abs(bumps).argmax(axis=1)] > 0
    assert 0.35 < up.mean() < 0.65


def test_a_linear_model_is_no_better_than_chance():
    X, y = td.datasets.make_waveforms(1000, 64, random_state=0)
    assert LogisticRegression().fit(X[:700], y[:700]).score(X[700:], y[700:]) < 0.4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_samples": 0}, "n_samples must be a positive integer"),
        ({"n_features": 15}, "n_features must be at least 16, got 15"),
        ({"noise": -1}, "noise must be finite and at least 0"),
    ],
)
def test_what_cannot_be_made(arguments, message):
    with pytest.raises(ValueError, match=message):
        td.datasets.make_waveforms(**arguments)
