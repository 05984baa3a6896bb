"""DictionaryLearning of signals with missing values."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import taskdict as td
from helpers import DTYPES


def planted(n=3000, m=20, p=12, missing=0.4, seed=0):
    """Return signals of few atoms each, the same with missing values, and the atoms."""
    rng = np.random.default_rng(seed)
    D = rng.standard_normal((p, m))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    X = (rng.standard_normal((n, p)) * (rng.random((n, p)) < 0.15)) @ D
    return X, np.where(rng.random(X.shape) < missing, np.nan, X), D


def new_model(**changes):
    settings = {"lambda1": 0.1, "missing": "ignore", "random_state": 0, "max_iter": 60, "tol": 0, "batch_size": 300}
    return td.DictionaryLearning(**{"n_components": 12, **settings, **changes})


@pytest.fixture(scope="module")
def learned():
    X, Y, D = planted()
    return X, Y, D, new_model().fit(Y)


@pytest.mark.filterwarnings("ignore")
@parametrize_with_checks([td.DictionaryLearning(max_iter=5, missing="ignore", sparse_output=False)])
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_nan_is_welcome_only_with_ignore():
    assert td.DictionaryLearning(missing="ignore").__sklearn_tags__().input_tags.allow_nan
    assert not td.DictionaryLearning().__sklearn_tags__().input_tags.allow_nan
    with pytest.raises(ValueError, match="missing must be 'error' or 'ignore', got 'skip'"):
        td.DictionaryLearning(missing="skip").fit(np.eye(3))
    _, Y, _ = planted(100)
    with pytest.raises(ValueError, match=r"row \d+ of the source contains NaN or infinity.*missing='ignore'"):
        new_model(missing="error").fit(Y)


def test_atoms_and_missing_values_are_found(learned):
    """The planted atoms come back, and what is filled in is near what was taken away."""
    X, Y, D, model = learned
    cosines = np.abs(model.components_ @ D.T) / np.linalg.norm(model.components_, axis=1)[:, None]
    assert cosines.max(axis=0).min() > 0.98
    filled, gone = model.inverse_transform(model.transform(Y)), np.isnan(Y)
    assert np.square(filled - X)[gone].sum() < 0.15 * np.square(X)[gone].sum()


def test_codes_and_score_are_of_what_was_observed(learned):
    _, Y, _, model = learned
    codes = model.transform(Y)
    expected = td.sparse_encode(Y, model.components_, lambda1=0.1, missing="ignore")
    np.testing.assert_array_equal(codes.toarray(), expected.toarray())
    errors = np.nan_to_num(Y - codes @ model.components_)
    objective = 0.5 * np.square(errors).sum() + 0.1 * np.abs(codes.data).sum()
    assert model.score(Y) == pytest.approx(-objective / len(Y), rel=1e-10)
    assert model.objective_ == pytest.approx(-model.score(Y), rel=0.1)


@pytest.mark.parametrize("rule", [{"n_nonzero": 3}, {"max_error": 0.02}, {"max_l1": 1.0}])
def test_rules(rule):
    _, Y, _ = planted(1000)
    model = new_model(lambda1=None, max_iter=20, **rule).fit(Y)
    codes = model.transform(Y)
    expected = td.sparse_encode(Y, model.components_, missing="ignore", **rule)
    np.testing.assert_array_equal(codes.toarray(), expected.toarray())
    errors = 0.5 * np.square(np.nan_to_num(Y - codes @ model.components_)).sum(axis=1)
    norms = abs(codes).sum(axis=1)
    assert model.score(Y) == pytest.approx(-(norms if "max_error" in rule else errors).mean(), rel=1e-8)
    first = clone(model).set_params(max_iter=1).fit(Y)
    assert model.objective_ < first.objective_


@pytest.mark.parametrize("dtype", DTYPES)
def test_complete_signals_give_nearly_the_same(dtype):
    X = planted()[0].astype(dtype)
    mine, other = (new_model(missing=missing).fit(X) for missing in ("ignore", "error"))
    assert mine.components_.dtype == dtype
    assert mine.score(X) == pytest.approx(other.score(X), rel=0.03)


def test_float32_is_kept():
    _, Y, _ = planted(500)
    model = new_model(max_iter=5).fit(Y.astype(np.float32))
    assert model.components_.dtype == np.float32
    assert model.transform(Y.astype(np.float32)).dtype == np.float32
    assert np.isfinite(model.components_).all()


def test_integers_have_nothing_missing():
    X = np.random.default_rng(0).integers(0, 9, (60, 5))
    model = td.DictionaryLearning(4, missing="ignore", max_iter=3, random_state=0).fit(X)
    assert np.isfinite(model.score(X))


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_infinity_is_an_error_that_names_its_row(method, learned):
    _, Y, _, model = learned
    bad = Y[:50].copy()
    bad[7, 3] = -np.inf
    with pytest.raises(ValueError, match=r"row 7 .*contains infinity.*replace it"):
        getattr(new_model(), method)(bad)
    with pytest.raises(ValueError, match="row 7 "):
        model.transform(bad)


def test_a_row_with_nothing_observed_has_the_code_zero(learned):
    _, Y, _, model = learned
    some = Y[:5].copy()
    some[2] = np.nan
    assert model.transform(some)[[2]].nnz == 0
    with_it = Y.copy()
    with_it[::10] = np.nan
    assert np.isfinite(new_model(max_iter=5).fit(with_it).components_).all()


def test_nothing_observed_at_all():
    with pytest.raises(ValueError, match="atoms need as many signals that are not zero"):
        new_model().fit(np.full((50, 6), np.nan))


def test_sparse_signals(learned):
    X, Y, _, model = learned
    np.testing.assert_allclose(model.transform(sp.csr_array(X)).toarray(), model.transform(X).toarray(), atol=1e-8)
    fits = [new_model(max_iter=3).fit(signals).components_ for signals in (X, sp.csr_array(X))]
    np.testing.assert_array_equal(*fits)
    bad = sp.csr_array(Y)
    row = int(np.argwhere(np.isnan(Y))[0][0])
    for use in (new_model().fit, new_model().partial_fit, model.transform, model.score):
        with pytest.raises(ValueError, match=rf"row {row} contains NaN: call X.toarray\(\)"):
            use(bad)


def test_streams_may_have_missing_values(tmp_path):
    _, Y, _ = planted(600)
    expected = new_model(max_iter=6).fit(Y)
    np.save(tmp_path / "Y.npy", Y)
    for source in (Y, tmp_path / "Y.npy"):
        other = new_model(max_iter=6).fit(td.stream(source, random_state=0))
        np.testing.assert_array_equal(other.components_, expected.components_)
    with pytest.raises(ValueError, match="contains NaN or infinity"):
        new_model(missing="error").fit(td.stream(Y))


def test_partial_fit_and_warm_start_go_on():
    _, Y, _ = planted(900)
    whole = new_model(max_iter=6).fit(Y)
    halves = new_model(max_iter=3).fit(Y).set_params(max_iter=6, warm_start=True).fit(Y)
    np.testing.assert_array_equal(halves.components_, whole.components_)
    model = new_model()
    for batch in np.split(Y, 3):
        model.partial_fit(batch)
    before = model.score(Y)
    assert model.n_iter_ == 3
    for batch in np.split(Y, 3):
        model.partial_fit(batch)
    assert model.score(Y) > before


@pytest.mark.parametrize(("first", "second"), [("ignore", "error"), ("error", "ignore")])
def test_missing_cannot_change_while_learning_continues(first, second):
    X, _, _ = planted(300)
    model = new_model(missing=first, max_iter=2).fit(X).set_params(missing=second, warm_start=True, max_iter=4)
    for method in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match=f"missing is '{second}'.*dictionary_init"):
            getattr(model, method)(X)
    assert model.n_iter_ == 2


def test_files_and_pickles_continue(tmp_path):
    _, Y, _ = planted(900)
    model = new_model(max_iter=3).fit(Y)
    model.save(tmp_path / "model")
    whole = new_model(max_iter=6).fit(Y)
    for other in (td.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert other.missing == "ignore"
        np.testing.assert_array_equal(other.transform(Y).toarray(), model.transform(Y).toarray())
        other.set_params(warm_start=True, max_iter=6, random_state=0).fit(Y)
        np.testing.assert_array_equal(other.components_, whole.components_)


def test_a_file_holds_what_the_model_was_fitted_with(tmp_path):
    X, _, _ = planted(300)
    model = new_model(max_iter=2, missing="error").fit(X).set_params(missing="ignore")
    model.save(tmp_path / "model")
    assert td.load(tmp_path / "model").missing == "error"


def test_the_same_bits_for_every_number_of_threads():
    _, Y, _ = planted(2000, 60, 100)
    fits = [new_model(n_components=100, max_iter=4, n_threads=n).fit(Y).components_ for n in (1, 2, 3)]
    np.testing.assert_array_equal(fits[0], fits[1])
    np.testing.assert_array_equal(fits[0], fits[2])
