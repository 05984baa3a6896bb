"""Parameters, names and random numbers between one fit and the next."""

import numpy as np
import pandas as pd
import pytest

import taskdict as td

rng = np.random.default_rng(0)
X = rng.standard_normal((120, 8))
LABELS = (X[:, 0] > 0).astype(int)
TARGETS = X @ rng.standard_normal((8, 2))
QUICK = {"max_iter": 6, "batch_size": 20, "random_state": 0}


@pytest.mark.parametrize("changed", [{"lambda2": 0.5}, {"positive_code": True}, {"n_components": [2, 4]}])
def test_a_file_holds_the_model_as_it_was_fitted(changed, tmp_path):
    model = td.TaskDrivenRegressor(6, **QUICK).fit(X, TARGETS).set_params(**changed)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(td.load(tmp_path / "model").predict(X), model.predict(X))


def test_a_file_has_as_many_atoms_as_were_learned(tmp_path):
    model = td.DictionaryLearning(6, max_iter=6, random_state=0).fit(X).set_params(n_components=3)
    model.save(tmp_path / "model")
    loaded = td.load(tmp_path / "model")
    assert loaded.n_components == 6
    np.testing.assert_array_equal(loaded.components_, model.components_)


def test_the_sizes_of_several_dictionaries_are_kept(tmp_path):
    views = [slice(0, 4), slice(4, 8)]
    model = td.TaskDrivenClassifier([3, 7], views=views, **QUICK).fit(X, LABELS).set_params(n_components=None)
    model.save(tmp_path / "model")
    found = td.load(tmp_path / "model").decision_function(X)
    np.testing.assert_array_equal(found, model.decision_function(X))
    atoms = model.set_params(warm_start=True, max_iter=8).fit(X, LABELS).components_
    assert not atoms[:3, 4:].any()
    assert not atoms[3:, :4].any()


def test_a_resumed_training_draws_no_random_numbers():
    seeds, same = np.random.RandomState(0), np.random.RandomState(0)
    model = td.TaskDrivenRegressor(6, **{**QUICK, "random_state": seeds})
    for _ in range(3):
        model.partial_fit(X, TARGETS)
    same.randint(2**31 - 1)
    assert seeds.randint(1000) == same.randint(1000)


@pytest.mark.parametrize("model", [td.DictionaryLearning(5, lambda1=0.2, **QUICK), td.TaskDrivenRegressor(5, **QUICK)])
def test_a_resumed_stream_keeps_the_names_of_features(model):
    frame = pd.DataFrame(X, columns=list("abcdefgh"))
    model.fit(frame, TARGETS).set_params(max_iter=8, warm_start=True)
    model.fit(td.stream(X, TARGETS, random_state=3) if hasattr(model, "predict") else td.stream(X, random_state=3))
    assert list(model.feature_names_in_) == list("abcdefgh")


def test_a_checkpoint_of_another_class_is_named(tmp_path):
    td.DictionaryLearning(5, lambda1=0.2, max_iter=2).fit(X).save(tmp_path / "other")
    with pytest.raises(ValueError, match="belongs to a DictionaryLearning"):
        td.CompressedSensing(3, 6, max_iter=2, checkpoint=tmp_path / "other").fit(X)


def test_scores_name_bad_rows_and_streams():
    model = td.DictionaryLearning(3, lambda1=0.1, max_iter=2).fit(X)
    with pytest.raises(ValueError, match="X must be finite, but row 0"):
        model.score(np.full((2, 8), np.nan))
    with pytest.raises(TypeError, match="got a stream"):
        model.score(td.stream(X))


def test_signals_that_are_all_zero_give_no_penalty_of_zero():
    assert td.SparseCoder(np.eye(8), lambda1=None).fit(0 * X).lambda1_ == 0.15
