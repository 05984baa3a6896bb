"""What every public estimator promises, as contracts that are written once.

A :class:`Case` is an estimator that is quick to fit, with data. A contract is a function of a case and an empty folder
that raises if the case breaks the promise. `CASES` has every public estimator; `CONTRACTS` has the contracts, each with
a condition that says which cases it is for. A front for another framework adds its estimators to a table like this one
and runs the same contracts, see test_contracts.py.
"""

from __future__ import annotations

import copy
import inspect
import pickle
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags

import taskdict as td
from helpers import random_problem
from taskdict._common.validation import is_fitted
from taskdict._files import persistent, storage
from taskdict._files.checkpoint import FinishedTrainingWarning
from taskdict._files.values import NOT_IN_FILES


@dataclass(frozen=True)
class Case:
    """An estimator, and what the contracts need to know of it."""

    estimator: Any
    data: tuple[Any, ...]  # arguments of fit
    use: Callable[[Any], Any]  # returns numbers that depend on all that a fitted model has learned
    bad_parameters: dict[str, Any]  # each is an error by itself
    bad_data: tuple[tuple[str, tuple[Any, ...]], ...]  # a pattern of the error, and arguments of fit
    keywords: dict[str, Any] = field(default_factory=dict)  # of fit
    inner: str = ""  # prefix of the parameters of the learner, which may be inside
    warm: bool = True  # whether warm_start, if there is such a parameter, resumes a training

    def takes(self, name: str) -> bool:
        """Whether the learner has a parameter."""
        return f"{self.inner}{name}" in self.estimator.get_params()

    def make(self, **parameters: Any) -> Any:
        """Return a new estimator, with parameters of the learner."""
        return set_inner(self, clone(self.estimator), **parameters)

    def fit(self, **parameters: Any) -> Any:
        """Return a new fitted estimator."""
        return self.make(**parameters).fit(*self.data, **self.keywords)

    @cached_property
    def whole(self) -> Any:
        """A fitted estimator, which no contract may change."""
        return self.fit()


def set_inner(case: Case, model: Any, **parameters: Any) -> Any:
    """Set parameters of the learner of a model."""
    return model.set_params(**{f"{case.inner}{name}": value for name, value in parameters.items()})


def assert_same(case: Case, model: Any, expected: Any) -> None:
    """Assert that two models give the same numbers, to the last bit."""
    one, other = case.use(model), case.use(expected)
    assert one.dtype == other.dtype
    np.testing.assert_array_equal(one, other)


def assert_learned_the_same(case: Case, model: Any, expected: Any) -> None:
    """Assert that two trainings are the same, to the last bit, in all batches."""
    assert_same(case, model, expected)
    inner, others = (getattr(each, "classifier_", each) for each in (model, expected))
    assert getattr(inner, "history_", None) == getattr(others, "history_", None)


# Persistent ----------------------------------------------------------------------------------------------------------


def model_file(case: Case, folder: Path) -> None:
    """`save` and `load` give the same model, which is saved in the same way, and which can be fitted again."""
    model = case.whole
    model.save(folder / "model")
    loaded = td.load(str(folder / "model"))
    assert type(loaded) is type(model)
    assert_same(case, loaded, model)
    defaults, parameters = type(model)().get_params(deep=False), loaded.get_params(deep=False)
    for name, value in model.get_params(deep=False).items():
        wanted = defaults[name] if name in NOT_IN_FILES else value
        assert repr(parameters[name]) == repr(wanted)
    loaded.save(folder / "again")
    (arrays, document), (others, other) = storage.read(folder / "model"), storage.read(folder / "again")
    assert document == other
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, others[name])
    assert_same(case, loaded.fit(*case.data, **case.keywords), model)


def features_in_files(case: Case, folder: Path) -> None:
    """A loaded model knows how many features there are, and their names."""
    names = [f"feature {k}" for k in range(case.data[0].shape[1])]
    frame = pd.DataFrame(case.data[0], columns=names)
    model = clone(case.estimator).fit(frame, *case.data[1:])
    model.save(folder / "model")
    loaded = td.load(folder / "model")
    assert loaded.n_features_in_ == len(names)
    assert list(loaded.feature_names_in_) == names
    use = next(getattr(loaded, name) for name in ("predict", "transform", "sense") if hasattr(loaded, name))
    use(frame)
    with pytest.raises(ValueError, match="feature names should match those that were passed during fit"):
        use(frame[names[::-1]])


def pickles(case: Case, folder: Path) -> None:
    """Pickles, files of joblib and deep copies give the same model, and leave the one that they are made of."""
    model = case.whole
    before = dict(vars(model))
    joblib.dump(model, folder / "model")
    for other in (pickle.loads(pickle.dumps(model)), joblib.load(folder / "model"), copy.deepcopy(model)):
        assert vars(other).keys() == before.keys()
        assert_same(case, other, model)
    assert vars(model) == before


def pickles_of_other_versions(case: Case, folder: Path) -> None:
    """A pickle of another version is loaded with a warning that names both."""
    model, name = case.whole, type(case.estimator).__name__
    for theirs in ("0.0.1", "9.9", None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(persistent, "version", lambda _, theirs=theirs: theirs)
            if theirs is None:  # of a version that named none
                patch.setattr(persistent.PersistentEstimator, "__getstate__", lambda self: dict(vars(self)))
            pickled = pickle.dumps(model)
        origin = "an earlier version of taskdict" if theirs is None else f"taskdict {theirs}"
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            other = pickle.loads(pickled)
        assert {warning.category for warning in caught} == {td.VersionWarning}
        assert f"this {name} was pickled by {origin}, but this is taskdict {td.__version__}" in str(caught[-1].message)
        assert_same(case, pickle.loads(pickle.dumps(other)), model)  # of this version: without a warning


def nothing_before_fit(case: Case, folder: Path) -> None:
    """A model that was not fitted can be neither saved nor used, and says so."""
    model = clone(case.estimator)
    for call in (lambda: model.save(folder / "model"), lambda: case.use(model)):
        with pytest.raises(NotFittedError, match=rf"This {type(model).__name__} instance is not fitted yet"):
            call()
    assert not list(folder.iterdir())


# Resumable -----------------------------------------------------------------------------------------------------------


class Interrupt:
    """A callback that raises KeyboardInterrupt when it is called for the n-th time."""

    def __init__(self, n: int) -> None:
        self.left = n

    def __call__(self, progress: Any) -> None:
        """Count."""
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt

    def __deepcopy__(self, memo: Any) -> Interrupt:
        return self  # so that clones count together


def interrupted(case: Case, n: int, **parameters: Any) -> Any:
    """Return a model whose training was interrupted after n batches; it can be used."""
    model = case.make(callbacks=Interrupt(n), **parameters)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*case.data, **case.keywords)
    assert np.isfinite(case.use(model)).all()
    return model


def with_another_last(data: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return data of which the last signal or image is another."""
    changed = np.array(data[0])
    changed[-1] *= 0.5
    return changed, *data[1:]


def resumes_a_checkpoint(case: Case, folder: Path) -> None:
    """A training that was interrupted at any batch ends with the bits of one that was not."""
    for n in (1, 5):
        path = folder / str(n)
        interrupted(case, n, checkpoint=path)
        assert_learned_the_same(case, case.fit(checkpoint=path), case.whole)


def keeps_a_finished_checkpoint(case: Case, folder: Path) -> None:
    """Nothing is learned twice: there is one warning. The checkpoint of other data is refused, and stays."""
    path = folder / "state"
    whole = case.fit(checkpoint=path)
    assert_learned_the_same(case, whole, case.whole)
    files = {file.name: file.read_bytes() for file in folder.iterdir()}
    with pytest.warns(FinishedTrainingWarning, match=r"checkpoint '.*' is of a finished training") as caught:
        again = case.fit(checkpoint=path)
    assert len(caught) == 1
    assert_same(case, again, whole)
    with pytest.raises(ValueError, match=r"checkpoint .* belongs to a "):
        case.make(checkpoint=path).fit(*with_another_last(case.data), **case.keywords)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == files


def resumes_in_memory(case: Case, folder: Path) -> None:
    """With warm_start, `fit` ends with the bits of one that was not interrupted, also by way of a file."""
    for n in (1, 5):
        model = interrupted(case, n, warm_start=True)
        model.save(folder / "model")
        for each in (td.load(folder / "model"), model):
            set_inner(case, each, warm_start=True, callbacks=None)
            assert_learned_the_same(case, each.fit(*case.data, **case.keywords), case.whole)
    with pytest.warns(FinishedTrainingWarning, match="nothing was learned now"):
        assert_learned_the_same(case, model.fit(*case.data, **case.keywords), case.whole)


def refuses_checkpoints_that_are_no_files(case: Case, folder: Path) -> None:
    """Before anything is read: a directory, a device that does not end."""
    for path, kind in ((folder, "directory"), ("/dev/zero", "device")):
        model = case.make(checkpoint=path)
        with pytest.raises(OSError, match=f"checkpoint must be the path of a regular file, but .* is a {kind}"):
            model.fit(*case.data, **case.keywords)
        assert not is_fitted(model)


# Deterministic -------------------------------------------------------------------------------------------------------


def follows_from_the_seed(case: Case, folder: Path) -> None:
    """The same seed gives the same bits, also in a second `fit`; another seed gives others."""
    model = case.fit()
    assert_learned_the_same(case, model, case.whole)
    assert_learned_the_same(case, model.fit(*case.data, **case.keywords), case.whole)
    seeds = [key for key in model.get_params() if key.endswith("random_state")]
    if seeds:
        other = clone(model).set_params(**dict.fromkeys(seeds, 1)).fit(*case.data, **case.keywords)
        assert not np.array_equal(case.use(other), case.use(model))


def does_not_depend_on_threads(case: Case, folder: Path) -> None:
    """Neither what is learned nor what comes of its use."""
    for n_threads in (1, 2, 5):
        assert_learned_the_same(case, case.fit(n_threads=n_threads), case.whole)


# Bad input -----------------------------------------------------------------------------------------------------------


def names_bad_parameters(case: Case, folder: Path) -> None:
    """An error names the parameter; an earlier model is not lost, and none is made."""
    for name, value in case.bad_parameters.items():
        refuses(case, rf"\b{name}\b", {name: value}, case.data)


def names_bad_data(case: Case, folder: Path) -> None:
    """An error names the argument; an earlier model is not lost, and none is made."""
    for argument, data in case.bad_data:
        refuses(case, argument, {}, data)


def refuses(case: Case, message: str, parameters: dict[str, Any], data: tuple[Any, ...]) -> None:
    """Assert that a fit raises with this message, and changes nothing."""
    new, used = clone(case.estimator), copy.deepcopy(case.whole)
    for model, before in ((new, clone(new)), (used, case.whole)):
        with pytest.raises((TypeError, ValueError), match=message):
            model.set_params(**parameters).fit(*data, **case.keywords)
        assert vars(model).keys() == vars(before).keys()
    assert_same(case, used.set_params(**case.whole.get_params(deep=False)), case.whole)


# Between fits --------------------------------------------------------------------------------------------------------

OF_THE_USE = {"n_threads", "verbose", "sparse_output", "overlap", "pool", "stride"}  # take effect at once


def stays_as_it_was_fitted(case: Case, folder: Path) -> None:
    """Parameters of what was learned take effect in the next `fit`, whatever they are; a model is used as it was."""
    model = copy.deepcopy(case.whole)
    changed = set(model.get_params(deep=False)) - OF_THE_USE
    model.set_params(**dict.fromkeys(changed, object()))
    assert_same(case, model, case.whole)


# Conventions ---------------------------------------------------------------------------------------------------------


def is_displayed(case: Case, folder: Path) -> None:
    """The text and the HTML of a fitted model say what was learned; those of a new one do not."""
    new, model = clone(case.estimator), case.whole
    assert repr(new).startswith(f"{type(new).__name__}(")
    assert "# fitted: " not in repr(new)
    assert "fitted: " not in new._repr_mimebundle_()["text/html"]
    summary = repr(model).removeprefix(repr(new)).strip()
    assert re.fullmatch(r"# fitted: .*\d+ .*", summary)
    assert f"<p>{summary.removeprefix('# ')}</p>" in model._repr_mimebundle_()["text/html"]


def follows_scikit_learn(case: Case, folder: Path) -> None:
    """Parameters are kept as they were given; a clone has them and nothing else; `fit` changes none."""
    model = clone(case.estimator)
    parameters = model.get_params(deep=False)
    assert list(parameters) == sorted(inspect.signature(type(model)).parameters)
    assert all(vars(model)[name] is value for name, value in parameters.items())
    assert vars(model).keys() == parameters.keys()
    assert model.fit(*case.data, **case.keywords) is model
    assert all(vars(model)[name] is value for name, value in parameters.items())
    copied = clone(model)
    assert vars(copied).keys() == parameters.keys()
    assert repr(copied) == repr(clone(case.estimator))


CONTRACTS: dict[Callable[[Case, Path], None], Callable[[Case], bool]] = {
    model_file: lambda case: True,
    features_in_files: lambda case: np.ndim(case.data[0]) == 2,
    pickles: lambda case: True,
    pickles_of_other_versions: lambda case: True,
    nothing_before_fit: lambda case: get_tags(case.estimator).requires_fit,
    resumes_a_checkpoint: lambda case: case.takes("checkpoint"),
    keeps_a_finished_checkpoint: lambda case: case.takes("checkpoint"),
    refuses_checkpoints_that_are_no_files: lambda case: case.takes("checkpoint"),
    resumes_in_memory: lambda case: case.takes("warm_start") and case.warm,
    follows_from_the_seed: lambda case: True,
    does_not_depend_on_threads: lambda case: case.takes("n_threads"),
    names_bad_parameters: lambda case: True,
    names_bad_data: lambda case: True,
    is_displayed: lambda case: get_tags(case.estimator).requires_fit,
    stays_as_it_was_fitted: lambda case: get_tags(case.estimator).requires_fit,
    follows_scikit_learn: lambda case: True,
}


# The estimators ------------------------------------------------------------------------------------------------------


def frozen(array: Any) -> Any:
    """Return a read-only array: no estimator may write to its data."""
    array = np.array(array)
    array.setflags(write=False)
    return array


X, D = (frozen(array) for array in random_problem(120, 16, 8))
LABELS = frozen(np.digitize(X[:, 0], [-0.1, 0.1]))
IMAGES = frozen(np.random.default_rng(0).random((6, 12, 12)))
SIDES = frozen(["a", "b"] * 3)
QUICK = {"max_iter": 6, "batch_size": 30, "random_state": 0, "lambda1": 0.1}


def bad_signals(*rest: Any) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield signals that make no sense, with the other arguments of fit."""
    for signals in (X * np.nan, np.abs(X) * np.inf, np.ma.masked_array(X), "X.npy", X.astype("datetime64[D]")):
        yield r"\bX\b", (signals, *rest)
    # scikit-learn's own messages do not name X
    yield "Complex data not supported", (X.astype(complex), *rest)
    yield "0 sample", (X[:0], *rest)
    yield "2D array, got 1D array instead", (X[0], *rest)


def bad_targets(first: Any, y: Any, name: str = "y") -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield targets that make no sense, beside the first argument of fit."""
    for targets in (None, y[:-1], y.astype("datetime64[D]") if y.dtype.kind == "i" else y[:0], np.ma.masked_array(y)):
        yield rf"\b{name}\b", (first, targets)


def bad_images(name: str, *rest: Any) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield images that make no sense, with the other arguments of fit."""
    for images in (IMAGES * np.nan, IMAGES[:0], IMAGES[0, 0], np.ma.masked_array(IMAGES), None):
        yield rf"\b{name}\b", (images, *rest)


def task() -> td.TaskDrivenClassifier:
    return td.TaskDrivenClassifier(5, **QUICK)


CASES = {
    "SparseCoder": Case(
        td.SparseCoder(D, lambda1=0.1, method="homotopy"),
        (X,),
        lambda model: model.transform(X).toarray(),
        {"dictionary": D[0], "lambda1": -1.0, "lambda2": "a", "positive_code": 1, "method": "lars", "n_threads": 0},
        tuple(bad_signals()),
    ),
    "UnitNorm": Case(
        td.UnitNorm(),
        (X,),
        lambda model: model.transform(X),
        {"center": 3},
        (*bad_signals(), ("sparse signals cannot be centred", (sp.csr_array(X),))),
    ),
    "DictionaryLearning": Case(
        td.DictionaryLearning(5, **QUICK),
        (X,),
        lambda model: model.transform(X).toarray(),
        {"n_components": 0, "lambda1": -1, "batch_size": 0.5, "max_iter": 0, "tol": -1, "warm_start": 1, "verbose": -1},
        tuple(bad_signals()),
    ),
    "TaskDrivenClassifier": Case(
        task(),
        (X, LABELS),
        lambda model: model.decision_function(X),
        {"n_components": 0, "mu": 2, "loss": "hinge", "multi_class": "all", "class_weight": 3, "learning_rate": -1},
        (*bad_signals(LABELS), *bad_targets(X, LABELS)),
    ),
    "TaskDrivenRegressor": Case(
        td.TaskDrivenRegressor(5, **QUICK),
        (X, frozen(X[:, :2])),
        lambda model: model.predict(X),
        {"n_components": 0, "nu": -1, "loss": "hinge", "decision": "cubic", "views": 3, "callbacks": 3},
        (*bad_signals(X[:, 0]), *bad_targets(X, X[:, 0])),
    ),
    "CompressedSensing": Case(
        td.CompressedSensing(4, 5, **QUICK),
        (X,),
        lambda model: model.reconstruct(model.sense(X)),
        {"n_measurements": 16, "n_components": 0, "lambda2": 0.0, "dictionary": "a", "transform_init": "b"},
        (*bad_signals(), ("y", (X, X[:3])), ("y", (X, np.ma.masked_array(X)))),
    ),
    "ImageClassifier": Case(
        td.ImageClassifier(task(), pool=4, random_state=0),
        (IMAGES, SIDES),
        lambda model: model.decision_function(IMAGES),
        {"classifier": 3, "bend": -1, "n_directions": 0, "shifts": 5, "pool": "a"},
        (*bad_images("X", SIDES), *bad_targets(IMAGES, SIDES)),
        inner="classifier__",
    ),
    "ImageRestorer": Case(
        td.ImageRestorer(4, 5, **QUICK),
        (IMAGES,),
        lambda model: model.restore(IMAGES[0]),
        {"patch_size": 0, "n_components": 0, "lambda1": -1, "overlap": "a", "refine": -1, "upscale": 0},
        tuple(bad_images("images?")),
        {"degrade": td.images.degrade.floyd_steinberg},
    ),
    "ImageRestorer, refined": Case(
        td.ImageRestorer(4, 5, refine=0.05, **{**QUICK, "max_iter": 4}),
        (IMAGES[:2],),
        lambda model: model.restore(IMAGES[0]),
        {},
        (),
        {"degrade": td.images.degrade.floyd_steinberg},
    ),
    "PatchVotingClassifier": Case(
        td.PatchVotingClassifier(task(), patch_size=4, n_patches=50, random_state=0),
        (IMAGES, SIDES),
        lambda model: np.append(model.votes(IMAGES), model.classifier_.components_),
        {"patch_size": 0, "normalise": 1, "n_patches": 0, "stride": 0},
        (*bad_images("images?", SIDES), *bad_targets(IMAGES, SIDES, "labels")),
        inner="classifier__",
        warm=False,  # a fit begins with a new classifier
    ),
}
