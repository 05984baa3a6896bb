"""Parameters, names and random numbers between one fit and the next."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

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


@pytest.mark.parametrize("changed", [{"lambda1": 0.5}, {"lambda2": 0.5}, {"positive_code": True}, {"lambda1": None}])
@pytest.mark.parametrize(
    "model", [td.SparseCoder(np.eye(8), lambda1=0.2), td.DictionaryLearning(6, lambda1=0.2, max_iter=3)]
)
def test_codes_are_those_of_the_fit(model, changed, tmp_path):
    """Parameters that change take effect in the next fit, not in the use of the model, nor in its file."""
    model = clone(model).fit(X)
    before = model.transform(X).toarray()
    model.set_params(**changed)
    np.testing.assert_array_equal(model.transform(X).toarray(), before)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(td.load(tmp_path / "model").transform(X).toarray(), before)
    assert not np.array_equal(model.fit(X).transform(X).toarray(), before)


def test_earlier_names_of_parameters(tmp_path):
    coder = td.SparseCoder(np.eye(8), lambda1=0.2, positive=True)
    with pytest.warns(FutureWarning, match="the parameter positive of SparseCoder is now positive_code") as caught:
        codes = coder.fit(X).transform(X)
    assert [warning.filename for warning in caught] == [__file__]
    expected = td.SparseCoder(np.eye(8), lambda1=0.2, positive_code=True).fit(X)
    np.testing.assert_array_equal(codes.toarray(), expected.transform(X).toarray())
    coder.save(tmp_path / "model")
    loaded = td.load(tmp_path / "model")
    assert (loaded.positive_code, loaded.positive) == (True, "deprecated")
    np.testing.assert_array_equal(loaded.fit(X).transform(X).toarray(), codes.toarray())
    seen = []
    with pytest.warns(
        FutureWarning, match="callback of DictionaryLearning is now callbacks; .* removed in taskdict 0.4"
    ):
        td.DictionaryLearning(4, max_iter=3, callback=lambda progress: seen.append(progress.n_iter)).fit(X)
    assert seen == [1, 2, 3]


def test_a_file_with_an_earlier_name(tmp_path):
    """Files of taskdict 0.1 call it positive."""
    model = td.SparseCoder(np.eye(8), lambda1=0.2, positive_code=True).fit(X)
    arrays, document = (*model._to_file(),)
    parameters = document["parameters"]
    del parameters["positive"]
    parameters["positive"] = parameters.pop("positive_code")
    loaded = td.SparseCoder._from_file(arrays, document)
    assert loaded.positive_code is True
    np.testing.assert_array_equal(loaded.transform(X).toarray(), model.transform(X).toarray())
