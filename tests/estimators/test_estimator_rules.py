"""Rules in `SparseCoder` and `DictionaryLearning`: codes, learning, files, and what replaces what."""

import numpy as np
import pytest
from sklearn.base import clone

import taskdict as td
from helpers import random_problem

RULES = [("n_nonzero", 4), ("max_error", 0.3), ("max_l1", 1.2)]
BY_NAME = pytest.mark.parametrize(("rule", "amount"), RULES)


@BY_NAME
def test_a_rule_replaces_lambda1(rule, amount):
    X, D = random_problem(30, 12, 20)
    coder = td.SparseCoder(D, **{rule: amount}, lambda1=5.0).fit(X)
    expected = td.sparse_encode(X, D, **{rule: amount})
    np.testing.assert_array_equal(coder.transform(X).toarray(), expected.toarray())
    assert coder.lambda1_ is None
    assert f"{rule} {amount}" in coder._summary()
    other = clone(coder).set_params(**{rule: None}, lambda1=0.2).fit(X)
    assert other.lambda1_ == 0.2
    np.testing.assert_array_equal(other.transform(X).toarray(), td.sparse_encode(X, D, lambda1=0.2).toarray())
    np.testing.assert_array_equal(coder.transform(X).toarray(), expected.toarray())


@BY_NAME
@pytest.mark.parametrize("lambda1", [None, 0.15])
def test_files_of_a_coder(rule, amount, lambda1, tmp_path):
    X, D = random_problem(30, 12, 20)
    coder = td.SparseCoder(D, **{rule: amount}, lambda1=lambda1).fit(X)
    expected = coder.transform(X).toarray()
    coder.set_params(**{rule: None})  # after the fit, so that the file does not hold it
    coder.save(tmp_path / "coder.safetensors")
    loaded = td.load(tmp_path / "coder.safetensors")
    assert loaded.get_params()[rule] == amount
    assert loaded.lambda1_ is None
    np.testing.assert_array_equal(loaded.transform(X).toarray(), expected)


@BY_NAME
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_learning_under_a_rule(rule, amount, dtype, tmp_path):
    X, _ = random_problem(600, 12, 1, dtype=dtype)
    model = td.DictionaryLearning(20, **{rule: amount}, batch_size=100, max_iter=40, tol=0, random_state=0).fit(X)
    codes = model.transform(X)
    direct = td.sparse_encode(X, model.components_, **{rule: amount})
    np.testing.assert_array_equal(codes.toarray(), direct.toarray())
    if rule == "max_error":
        value = np.abs(codes.toarray()).sum(axis=1).mean()
    else:
        value = 0.5 * ((X - codes @ model.components_) ** 2).sum(axis=1).mean()
    assert model.score(X) == pytest.approx(-value, rel=1e-4)
    objectives = model.history_["objective"]
    assert np.mean(objectives[-5:]) < np.mean(objectives[:5])
    assert model.objective_ == pytest.approx(value, rel=0.15)
    assert model.lambda1_ is None
    again = clone(model).set_params(n_threads=2).fit(X)
    np.testing.assert_array_equal(again.components_, model.components_)
    model.save(tmp_path / "model.safetensors")
    loaded = td.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.transform(X).toarray(), codes.toarray())
    loaded.partial_fit(X[:100])
    model.partial_fit(X[:100])
    np.testing.assert_array_equal(loaded.components_, model.components_)


def test_learning_ends_by_tol_under_a_rule():
    X, _ = random_problem(400, 6, 1)
    for rule, amount in RULES:
        model = td.DictionaryLearning(8, **{rule: amount}, batch_size=100, max_iter=3000, tol=0.05, random_state=0)
        assert 20 <= model.fit(X).n_iter_ < 3000


def test_the_squared_ridge_counts():
    X, _ = random_problem(300, 8, 1)
    model = td.DictionaryLearning(12, n_nonzero=3, lambda2=0.5, batch_size=100, max_iter=5, tol=0, random_state=0).fit(
        X
    )
    codes = model.transform(X).toarray()
    value = 0.5 * ((X - codes @ model.components_) ** 2).sum(axis=1) + 0.25 * (codes**2).sum(axis=1)
    assert model.score(X) == pytest.approx(-value.mean())


@pytest.mark.parametrize("make", [lambda **rules: td.SparseCoder(np.eye(3), **rules), td.DictionaryLearning])
def test_rules_that_make_no_sense(make):
    X = np.eye(3) + 1
    with pytest.raises(ValueError, match=r"exactly one of .* got n_nonzero=2 and max_l1=1.0: leave out all but one"):
        make(n_nonzero=2, max_l1=1.0).fit(X)
    with pytest.raises(ValueError, match=r"max_error must be finite and at least 0, .* got -1"):
        make(max_error=-1).fit(X)
    with pytest.raises(ValueError, match="n_nonzero must be at most the number of atoms, 3, got 4"):
        make(n_nonzero=4).fit(X)
    with pytest.raises(TypeError, match=r"n_nonzero must be an integer, .* got 2.5"):
        make(n_nonzero=2.5).fit(X)
    with pytest.raises(TypeError, match=r"max_l1 must be one number for all signals, .* taskdict.sparse_encode"):
        make(max_l1=np.ones(3)).fit(X)


def test_a_bound_that_no_signal_exceeds():
    with pytest.raises(ValueError, match=r"norm above 10 .*: lower n_components or max_error, or check the signals"):
        td.DictionaryLearning(3, max_error=100.0).fit(np.eye(3) + 1)
