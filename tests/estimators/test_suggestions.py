import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import taskdict as td
from helpers import random_problem


def test_grid_goes_with_the_size_of_the_signals():
    X = random_problem(2000, 20, 1)[0]
    one, many = td.suggest_parameters(X), td.suggest_parameters(100 * X)
    np.testing.assert_allclose(one["lambda1"], [0.075, 0.1, 0.125, 0.15, 0.175, 0.2, 0.225])
    np.testing.assert_allclose(many["lambda1"], 100 * np.array(one["lambda1"]))
    np.testing.assert_allclose(one["nu"], [5e-4, 5e-5, 5e-6])
    np.testing.assert_allclose(many["nu"], 1e4 * np.array(one["nu"]))
    assert one["n_components"] == [50, 100, 200, 400]
    np.testing.assert_allclose(td.suggest_parameters(sp.csr_array(X))["lambda1"], one["lambda1"])


def test_grid_goes_with_the_number_of_samples():
    X = random_problem(300, 20, 1)[0]
    labels = np.where(np.arange(300) < 30, np.arange(300) % 3, -1)
    assert td.suggest_parameters(X)["n_components"] == [50]
    np.testing.assert_allclose(td.suggest_parameters(X, labels)["nu"], [1 / 30, 0.1 / 30, 0.01 / 30])
    assert td.suggest_parameters(X[:20])["n_components"] == [5]
    assert len(td.suggest_parameters(np.ones((100_000, 2)))["nu"]) == 1


def test_grid_fits_an_estimator():
    grid = td.suggest_parameters(random_problem(100, 5, 1)[0], prefix="x__")
    assert set(grid) == {"x__n_components", "x__lambda1", "x__nu"}
    model = td.TaskDrivenClassifier()
    for name in grid:
        clone(model).set_params(**{name.removeprefix("x__"): grid[name][0]})


def test_bad_input():
    with pytest.raises(ValueError, match="not zero"):
        td.suggest_parameters(np.zeros((5, 3)))
    with pytest.raises(ValueError, match="y has 4 targets"):
        td.suggest_parameters(np.ones((5, 3)), np.zeros(4))
    with pytest.raises(ValueError, match="at least one signal"):
        td.suggest_parameters(np.zeros((0, 3)))
    with pytest.raises(ValueError, match="NaN"):
        td.suggest_parameters(np.full((5, 3), np.nan))
