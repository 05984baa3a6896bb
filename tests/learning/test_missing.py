"""Learning from signals with missing values."""

import numpy as np
import pytest
from test_window import pattern_of

import reference as _reference
from helpers import DTYPES, random_problem
from taskdict import _native
from taskdict._learning import statistics
from taskdict._learning.online import DictionaryProblem, OnlineLearner, OnlineState, fading
from taskdict._learning.statistics import WindowStatistics
from taskdict.constraints import UnitBall

TOLERANCE = {np.float32: 2e-3, np.float64: 1e-9}


def learner(D, lambda1=0.1, lambda2=0.0, positive=False, n_threads=1):
    problem = DictionaryProblem(lambda1, lambda2, False, UnitBall(positive), missing=True)
    return OnlineLearner(problem, OnlineState.start(D, WindowStatistics.start(D, missing=True)), n_threads)


def window_of(n, m, p, positive, dtype=np.float64, observed_share=0.4):
    """Return a dictionary and what is in a window, as arguments of the update."""
    rng = np.random.default_rng(n + m + p)
    D = UnitBall(positive).project(rng.standard_normal((p, m))).astype(dtype)
    codes = rng.standard_normal((n, p)) * (rng.random((n, p)) < 0.3)
    observed = (rng.random((n, m)) < observed_share).astype(np.uint8)
    X, weights = rng.standard_normal((n, m)) * observed, rng.random(n)
    targets, curvatures = rng.standard_normal((p, m)), rng.random((p, m)) * 10.0 ** rng.integers(-4, 1, (p, m))
    hardly = rng.random((p, m)) < 0.3  # features of an atom that no earlier signal has shown
    targets[hardly] = curvatures[hardly] = 0
    codes[:, -1] = curvatures[-1] = targets[-1] = 0  # an atom that is not used stays
    return D, codes.astype(dtype), observed, *(a.astype(dtype) for a in (X, weights, targets, curvatures))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize(("n", "m", "p"), [(1, 1, 2), (9, 3, 5), (50, 17, 24), (200, 64, 40), (70, 300, 21), (0, 4, 3)])
def test_update_is_that_of_the_reference(n, m, p, positive, dtype):
    D, codes, observed, X, weights, targets, curvatures = window_of(n, m, p, positive, dtype)
    wide = [a.astype(float) for a in (D.T, codes.T, X.T, observed.T, weights, targets.T, curvatures.T)]
    expected = _reference.update_atoms_on_masked_window(*wide, positive).T
    pattern = pattern_of(codes)
    results = []
    for n_threads in (1, 2, 5):
        updated = D.copy()
        _native.update_atoms_on_window(
            updated, pattern, pattern.values, weights, X, targets, curvatures, positive, n_threads, observed
        )
        results.append(updated)
    np.testing.assert_allclose(results[0], expected, atol=TOLERANCE[dtype])
    np.testing.assert_array_equal(results[0][-1], D[-1])
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("positive", [False, True])
def test_the_objective_on_a_window_never_rises(positive, dtype):
    D, codes, observed, X, weights, targets, curvatures = window_of(60, 20, 30, positive, dtype)
    wide_codes, wide_X, wide_weights, t, a = (v.astype(float) for v in (codes, X, weights, targets, curvatures))

    def objective(atoms):
        d = atoms.astype(float)
        errors = observed * (wide_X - wide_codes @ d)
        return 0.5 * wide_weights @ np.square(errors).sum(axis=1) + (0.5 * a * d * d - t * d).sum()

    pattern, before = pattern_of(codes), objective(D)
    for sweep in range(30):
        _native.update_atoms_on_window(
            D, pattern, pattern.values, weights, X, targets, curvatures, positive, 1, observed
        )
        after = objective(D)
        assert after <= before + (1e-12 if dtype == np.float64 else 1e-4) * abs(before)
        assert sweep > 0 or after < 0.9 * before or after < before - 1
        assert np.linalg.norm(D.astype(float), axis=1).max() <= 1 + (1e-12 if dtype == np.float64 else 1e-6)
        assert not positive or D.min() >= 0
        before = after


def test_an_unseen_feature_gives_way_to_seen_ones():
    """An entry without curvature stays while there is room in the ball, and is the first to shrink."""
    codes, observed = np.array([[1.0]]), np.array([[1, 0]], np.uint8)
    pattern = pattern_of(codes)
    for seen, expected in ((0.5, [0.5, 0.6]), (0.96, [0.96, 0.28]), (3.0, [1.0, 0.0])):
        D = np.array([[0.1, 0.6]])
        X = np.array([[seen, 0.0]])
        _native.update_atoms_on_window(
            D, pattern, pattern.values, np.ones(1), X, np.zeros((1, 2)), np.zeros((1, 2)), False, 1, observed
        )
        np.testing.assert_allclose(D, [expected], atol=1e-12)


@pytest.mark.parametrize("positive", [False, True])
def test_nothing_missing_is_the_complete_window(positive):
    """Equal curvatures make the projection a rescaling."""
    D, codes, observed, X, weights, targets, _ = window_of(60, 20, 30, positive, observed_share=2.0)
    curvatures = np.random.default_rng(0).random(30)
    pattern, masked, complete = pattern_of(codes), D.copy(), D.copy()
    wide = np.repeat(curvatures[:, None], 20, axis=1)
    _native.update_atoms_on_window(masked, pattern, pattern.values, weights, X, targets, wide, positive, 1, observed)
    _native.update_atoms_on_window(complete, pattern, pattern.values, weights, X, targets, curvatures, positive, 1)
    np.testing.assert_allclose(masked, complete, atol=1e-12)


def test_steps_are_those_of_the_reference(monkeypatch):
    monkeypatch.setattr(statistics, "MASKED_WINDOW", 20)
    X, D = random_problem(120, 6, 9)
    gone = np.random.default_rng(1).random(X.shape) < 0.4
    gone[5] = True  # nothing observed
    Y = np.where(gone, np.nan, X)
    mine = learner(D, lambda2=0.05)
    expected, targets, curvatures = D.T, np.zeros((6, 9)), np.zeros((6, 9))
    held = (np.zeros((6, 0)), np.zeros((6, 0)), np.zeros((9, 0)), np.zeros(0))
    seen = 0
    for batch in np.split(Y, [10, 40, 41, 50]):  # of unequal sizes; the last is larger than the window
        fade = fading(seen, seen + len(batch), 9) if seen else 0.0
        observed = (~np.isnan(batch)).astype(float)
        known = np.nan_to_num(batch)
        codes, objectives = [], []
        for x, o in zip(known, observed, strict=True):
            seen_atoms = expected * o[:, None]
            codes.append(_reference.active_set(x, seen_atoms, 0.1, 0.05) if o.any() else np.zeros(9))
            objectives.append(_reference.objective(x, seen_atoms, codes[-1], 0.1, 0.05))
        new = known.T, observed.T, np.stack(codes, axis=1), np.ones(len(batch))
        faded = (*held[:3], held[3] * fade)
        signals, masks, alphas, weights = (np.concatenate(pair, axis=-1) for pair in zip(faded, new, strict=True))
        leaving = max(0, len(weights) - 20)
        targets, curvatures = _reference.leave_masked_window(
            expected,
            alphas[:, :leaving],
            signals[:, :leaving],
            masks[:, :leaving],
            weights[:leaving],
            fade * targets,
            fade * curvatures,
        )
        held = signals[:, leaving:], masks[:, leaving:], alphas[:, leaving:], weights[leaving:]
        expected = _reference.update_atoms_on_masked_window(
            expected, held[2], held[0], held[1], held[3], targets, curvatures
        )
        step = mine.step(batch)
        seen += len(batch)
        assert step.objective == pytest.approx(np.mean(objectives), rel=1e-8)
        np.testing.assert_allclose(mine.state.dictionary, expected.T, atol=1e-8)
        np.testing.assert_allclose(mine.state.statistics.curvatures, curvatures.T, atol=1e-8)


def test_the_same_bits_for_every_number_of_threads():
    X, D = random_problem(3000, 200, 300, dtype=np.float32)
    X[np.random.default_rng(0).random(X.shape) < 0.5] = np.nan
    results = []
    for n_threads in (1, 2, 4):
        mine = learner(D, lambda1=0.15, n_threads=n_threads)
        for batch in np.split(X, 3):
            mine.step(batch)
        results.append(mine.state)
    for other in results[1:]:
        np.testing.assert_array_equal(other.dictionary, results[0].dictionary)
        for name, array in results[0].statistics.arrays().items():
            np.testing.assert_array_equal(other.statistics.arrays()[name], array, name)


def test_statistics_want_a_mask_exactly_if_values_may_be_missing():
    X, D = random_problem(20, 6, 9)
    problem = DictionaryProblem(0.1, 0.0, False, UnitBall(False))
    with pytest.raises(TypeError, match="observed must be given"):
        OnlineLearner(problem, OnlineState.start(D, WindowStatistics.start(D, missing=True)), 1).step(X)


def test_bindings_refuse_masks_of_other_shapes():
    D, codes, observed, X, weights, targets, curvatures = window_of(9, 3, 5, False)
    pattern = pattern_of(codes)
    for bad_curvatures, bad_observed, name in (
        (curvatures, observed[1:], "observed"),
        (curvatures[:, 1:], observed, "curvatures"),
    ):
        with pytest.raises(ValueError, match=f"{name} has shape"):
            _native.update_atoms_on_window(
                D.copy(), pattern, pattern.values, weights, X, targets, bad_curvatures, False, 1, bad_observed
            )


def test_replacements_are_filled_in(monkeypatch):
    """A badly coded signal becomes an atom with its observed values, and with the reconstruction elsewhere."""
    X, D = random_problem(40, 6, 9)
    D[4] = D[3]  # a duplicate is replaced
    X[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    mine = learner(D)
    wholes = []
    new_atoms = mine._new_atoms

    def spy(signals, *rest):
        wholes.append(signals.copy())
        return new_atoms(signals, *rest)

    monkeypatch.setattr(mine, "_new_atoms", spy)
    assert mine.step(X).n_replaced == 1
    (whole,) = wholes
    known = ~np.isnan(X)
    np.testing.assert_array_equal(whole[known], X[known])
    row = next(i for i in range(40) if 0 < known[i].sum() < 6)
    alpha = _reference.active_set(np.nan_to_num(X[row]), (D * known[row]).T, 0.1, 0.0)
    np.testing.assert_allclose((alpha @ D)[~known[row]], whole[row][~known[row]], atol=1e-8)
