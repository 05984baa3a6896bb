"""The record of a training, through a file: every part of the state, and what is refused."""

import itertools
import json

import numpy as np
import pytest

from helpers import DTYPES
from taskdict._learning.comparison import LINEAR, NAMES, TASK_DRIVEN, UNSUPERVISED, Comparison
from taskdict._learning.models import MODELS, BilinearModel, Columns, LinearModel, model_named
from taskdict._learning.objective import Weights
from taskdict._learning.scaling import Scaling
from taskdict._learning.state import State, Step
from taskdict._learning.training import Training

P, M, R, Q = 3, 5, 2, 2


def weights(seed=0, model=None, transform=False, dtype=np.float64):
    rng = np.random.default_rng(seed)
    width = R if transform else M
    shape = (model or LinearModel()).shape(Q, P, width)
    Z = rng.standard_normal((R, M)).astype(dtype) if transform else None
    arrays = rng.standard_normal((P, width)), rng.standard_normal(shape), rng.standard_normal(Q)
    return Weights(*(array.astype(dtype) for array in arrays), Z)


def record(n_members=2, moments=False, mean=False, best=False, before=False, limits=False, **kind):
    each = tuple(weights(k, **kind) for k in range(n_members))
    parts = {
        "moments": tuple(w.squares() for w in each) if moments else None,
        "mean": tuple(weights(10 + k, **kind) for k in range(n_members)) if mean else None,
        "best": tuple(weights(20 + k, **kind) for k in range(n_members)) if best else None,
        "before": tuple(weights(30 + k, **kind) for k in range(n_members)) if before else None,
        "limits": tuple(100.0 + k for k in range(n_members)) if limits else None,
    }
    state = State(
        each,
        tuple(0.1 * (k + 1) for k in range(n_members)),
        t=7,
        position={"kind": "arrays", "place": 3},
        best_value=0.25 if best else np.inf,
        stale=2,
        **parts,
    )
    model = kind.get("model") or LinearModel()
    scaling = Scaling(2.0, (0.5, 0.25), (1.0, -1.0), model.degree, getattr(model, "columns", None))
    steps = [Step(0.5), Step(np.nan, 0.75), Step(0.25, 0.5)]
    decision = next(name for name, kind in MODELS.items() if isinstance(model, kind))
    return Training(scaling, 0.15, 0.01, 42, state, steps, "sha256:abc", decision, 50)


def columns(dtype=np.float64):
    return Columns(np.arange(M, dtype=dtype), np.linspace(0, 1, M, dtype=dtype))


def through_a_file(training, decision="auto"):
    arrays, document = training.to_file()
    return Training.from_file(arrays, json.loads(json.dumps(document)), decision, P)


def assert_same_weights(one, other):
    assert (one is None) == (other is None)
    for mine, theirs in zip(one or (), other or (), strict=True):
        for name, array in vars(mine).items():
            found = getattr(theirs, name)
            assert (array is None) == (found is None)
            if array is not None:
                assert array.dtype == found.dtype
                np.testing.assert_array_equal(array, found)


PARTS = ("moments", "mean", "best", "before", "limits")


@pytest.mark.parametrize("parts", [*itertools.combinations(PARTS, 1), PARTS, ()], ids="+".join)
@pytest.mark.parametrize("transform", [False, True])
def test_every_part(parts, transform):
    training = record(transform=transform, **dict.fromkeys(parts, True))
    again = through_a_file(training)
    for name in ("weights", "moments", "mean", "best", "before"):
        assert_same_weights(getattr(training.state, name), getattr(again.state, name))
    for name in ("rhos", "t", "position", "limits", "best_value", "stale", "stopped"):
        assert getattr(again.state, name) == getattr(training.state, name)
    for name in ("scaling", "lambda1", "nu", "seed", "fingerprint", "decision", "max_iter", "comparison"):
        assert getattr(again, name) == getattr(training, name)
    assert [step.validation for step in again.steps] == [None, 0.75, 0.5]
    np.testing.assert_array_equal([step.objective for step in again.steps], [0.5, np.nan, 0.25])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", MODELS)
def test_every_model_and_dtype(kind, dtype):
    model = model_named(kind, columns(dtype))
    training = record(model=model, dtype=dtype, moments=True, best=True)
    again = through_a_file(training)
    assert again.decision == kind
    assert_same_weights(again.state.chosen, training.state.chosen)
    assert_same_weights(again.state.moments, training.state.moments)
    assert again.scaling.degree == model.degree
    found, given = again.scaling.columns, training.scaling.columns
    assert (found is None) == (given is None) == (kind != "joint")
    if found is not None:
        for name in ("mean", "factor"):
            np.testing.assert_array_equal(getattr(found, name), getattr(given, name))


def test_a_record_from_before_there_was_a_choice():
    """Files of taskdict 0.1.0 name neither the model nor the number of batches: those are parameters."""
    arrays, document = record(model=BilinearModel()).to_file()
    del document["decision"], document["max_iter"]
    document["scaling"] = [2.0, 0.5, [1.0, -1.0]]  # one size of all targets
    again = Training.from_file(arrays, document, "bilinear", P)
    assert (again.decision, again.max_iter, again.comparison) == ("bilinear", 0, None)
    assert (again.scaling.c, again.scaling.s, again.scaling.offset) == (2.0, (0.5,), (1.0, -1.0))
    with pytest.raises(ValueError, match="its model is unknown"):
        Training.from_file(arrays, document, "auto", P)


@pytest.mark.parametrize("complete", [False, True])
def test_a_comparison(complete):
    rng = np.random.default_rng(0)
    training = record()
    names = (LINEAR, UNSUPERVISED, TASK_DRIVEN)[: 3 if complete else 2]
    training.comparison = Comparison({name: rng.random(20) for name in names})
    assert training.is_concluded == complete
    again = through_a_file(training).comparison
    assert again.is_complete == complete
    assert again.scores == training.comparison.scores
    assert again.n_samples == 20


def test_a_training_without_steps_or_place():
    training = record(n_members=1)
    training.steps, training.state = [], State(training.state.weights, (0.5,))
    again = through_a_file(training)
    assert again.steps == []
    assert again.state.position is None
    assert again.state.best_value == np.inf


def test_arrays_of_a_file_are_not_shared():
    arrays, document = record().to_file()
    again = Training.from_file(arrays, document, "linear", P)
    arrays["D"][:] = 0
    assert again.state.weights[0].D.any()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a, d: a.update(D=a["D"][:1]), "arrays do not fit each other"),
        (lambda a, d: a.update(W=a["W"][:, :, 1:]), "arrays do not fit each other"),
        (lambda a, d: a.update(b=a["b"].astype(np.float32)), "arrays do not fit each other"),
        (lambda a, d: a.update(Z=a["Z"][:, 1:]), "arrays do not fit each other"),
        (lambda a, d: a.update(rhos=a["rhos"][:0]), "arrays do not fit each other"),
        (lambda a, d: a.update({"mean W": a["mean W"][:, :1], "mean b": a["mean b"][:, :1]}), "do not fit each other"),
        (lambda a, d: a["D"].fill(np.nan), "arrays are not finite"),
        (lambda a, d: a["best W"].fill(np.inf), "arrays are not finite"),
        (lambda a, d: a["before b"].fill(np.inf), "arrays are not finite"),
        (lambda a, d: a.update({"sizes D": -a["sizes D"]}), "sizes do not fit its weights"),
        (lambda a, d: a.update({"sizes W": a["sizes W"][:, 1:]}), "sizes do not fit its weights"),
        (lambda a, d: a.update(limits=a["limits"][:1]), "limits do not fit its models"),
        (lambda a, d: a.update(limits=-a["limits"]), "limits do not fit its models"),
        (lambda a, d: a.update({"history objective": a["history objective"][1:]}), "arrays do not fit each other"),
        (lambda a, d: d.update(t=-1), "counts make no sense"),
        (lambda a, d: d.update(stale=2**70), "counts make no sense"),
        (lambda a, d: d.update(seed=2**32), "counts make no sense"),
        (lambda a, d: d.update(position=3), "place in a stream makes no sense"),
        (lambda a, d: d.update(scaling=[0.0, [1.0], [0.0]]), "scaling makes no sense"),
        (lambda a, d: d.update(scaling=[1.0, [1.0, -1.0], [0.0, 0.0]]), "scaling makes no sense"),
        (lambda a, d: d.update(scaling=[1.0, [1.0], [0.0, 0.0, 0.0]]), "scaling makes no sense"),
        (lambda a, d: d.update(scaling=[1.0, [1.0, 1.0, 1.0], [0.0]]), "scaling makes no sense"),
        (lambda a, d: d.update(scaling=[1e-320, [1.0], [0.0]]), "scaling makes no sense"),
        (lambda a, d: d.update(decision="cubic"), "its model is unknown"),
        (lambda a, d: d.update(decision="split"), "arrays do not fit each other"),
        (lambda a, d: d.update(decision="joint"), "arrays do not fit each other"),
        (lambda a, d: d.update(max_iter=-1), "counts make no sense"),
        (lambda a, d: a.update({"held out linear": np.ones(3)}), "held-out errors make no sense"),
        (
            lambda a, d: a.update({"held out linear": np.ones(3), "held out unsupervised": np.ones(4)}),
            "held-out errors make no sense",
        ),
        (
            lambda a, d: a.update({f"held out {name}": np.full(3, np.nan) for name in NAMES}),
            "held-out errors make no sense",
        ),
        (lambda a, d: d.update(lambda1=-1), "lambda1 must be finite and at least 0"),
        (lambda a, d: d.update(nu="a"), "nu must be a real number"),
    ],
)
def test_records_that_make_no_sense(change, message):
    arrays, document = record(transform=True, **dict.fromkeys(PARTS, True)).to_file()
    change(arrays, document)
    with pytest.raises((ValueError, TypeError), match=message):
        Training.from_file(arrays, document, "linear", P)
