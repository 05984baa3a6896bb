"""Features of signals: their number and names, which a fit changes only when it has something to show."""

import json

import numpy as np
import pandas as pd
import pytest

import taskdict as td
from taskdict.estimators.features import Features, read_signals, validated

X = np.arange(6.0).reshape(2, 3)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])


def test_reading_leaves_the_estimator():
    model = td.UnitNorm()
    signals, features = read_signals(model, FRAME, reset=True)
    np.testing.assert_array_equal(signals, X)
    assert (features.count, list(features.names)) == (3, ["a", "b", "c"])
    assert set(vars(model)) == {"center"}
    features.publish(model)
    assert model.n_features_in_ == 3
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names should match"):
        read_signals(model, FRAME[["b", "a", "c"]], reset=False)
    with (
        pytest.raises(ValueError, match="X has 2 features, but UnitNorm is expecting 3 features"),
        pytest.warns(UserWarning, match="does not have valid feature names"),
    ):
        read_signals(model, X[:, :2], reset=False)
    read_signals(model, X[:, :2], reset=True)
    Features(2).publish(model)
    assert model.n_features_in_ == 2
    assert not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize("source", ["X.npy", ["X.npy"], iter(X)], ids=["path", "paths", "iterator"])
def test_sources_are_sent_to_stream(source):
    with pytest.raises(
        TypeError, match=r"X must be an array or a stream, got .*: fit\(taskdict.stream\(X\)\) reads it"
    ):
        read_signals(td.UnitNorm(), source, reset=True)


def test_masked_arrays_and_dates_are_refused():
    with pytest.raises(TypeError, match="X must not be a masked array"):
        validated(td.UnitNorm(), np.ma.masked_array(X))
    for dtype in ("datetime64[D]", "timedelta64[s]", "V4"):
        with pytest.raises(TypeError, match="X must hold real numbers, got dtype"):
            validated(td.UnitNorm(), np.zeros((2, 3), dtype))


def test_features_in_documents():
    for features in (Features(3), Features(3, np.array(["a", "b", "c"], object))):
        document = json.loads(json.dumps(features.to_document()))
        again = Features.from_document(document, 3)
        assert again.count == 3
        assert np.array_equal(again.names, features.names)
        with pytest.raises(ValueError, match="the dictionary does not fit the number of features"):
            Features.from_document(document, 4)
    for names in (["a", "b"], ["a", "b", 3], "abc", 5):
        with pytest.raises(ValueError, match="the names of the features do not fit their number"):
            Features.from_document({"n_features_in": 3, "feature_names_in": names}, 3)


def test_features_of_a_model():
    model = td.UnitNorm().fit(FRAME)
    assert Features.of(model).to_document() == {"n_features_in": 3, "feature_names_in": ["a", "b", "c"]}
    assert Features.of(td.UnitNorm().fit(X)).to_document() == {"n_features_in": 3, "feature_names_in": None}
