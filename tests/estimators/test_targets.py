"""Targets of a task: the models that they need, the sources that they open, and their part of a model file."""

import numpy as np
import pytest

import taskdict as td
from taskdict._learning.task_settings import TaskSettings
from taskdict.estimators.task_driven.targets import ClassTargets, ColumnTargets, Request
from taskdict.losses import LogisticLoss, SoftmaxLoss, SquaredLoss
from taskdict.streams.pairs import ArrayPairs, StreamPairs

X = np.random.default_rng(0).standard_normal((30, 4))
Y = np.arange(30) % 3


def classes(labels=None, **parameters):
    parameters = {"multi_class": "ovr", **parameters}
    settings = TaskSettings.parse(td.TaskDrivenClassifier(**parameters).get_params(), ("logistic", "squared"))
    return ClassTargets(settings, None if labels is None else np.array(labels))


def columns(**parameters):
    return ColumnTargets(TaskSettings.parse(td.TaskDrivenRegressor(**parameters).get_params(), ("squared",)))


def request(X=X, y=Y, sample_weight=None, **parameters):
    return Request(X, y, sample_weight, **{"validation": lambda n: 0.0, "seed": 0, **parameters})


@pytest.mark.parametrize(
    ("multi_class", "labels", "n_models", "n_outputs", "loss", "batch_factor"),
    [
        ("ovr", "abc", 3, 1, LogisticLoss, 1),
        ("ovr", "ab", 1, 1, LogisticLoss, 1),
        ("ovo", "abcd", 6, 1, LogisticLoss, 2),
        ("ovo", "ab", 1, 1, LogisticLoss, 1),
        ("softmax", "abc", 1, 3, SoftmaxLoss, 1),
        ("softmax", "ab", 1, 2, SoftmaxLoss, 1),
        ("onehot", "abc", 1, 3, SquaredLoss, 1),
        ("auto", "abc", 1, 3, SoftmaxLoss, 1),
        ("auto", "ab", 1, 1, LogisticLoss, 1),
    ],
)
def test_models_of_classes(multi_class, labels, n_models, n_outputs, loss, batch_factor):
    targets = classes(list(labels), multi_class=multi_class)
    assert (len(targets.selects), targets.n_outputs, targets.batch_factor) == (n_models, n_outputs, batch_factor)
    assert type(targets.loss) is loss
    assert targets.scaling(Y, True) == ((1.0,), (0.0,))


def test_samples_of_each_model():
    y = np.array([0, 1, 2, 1])
    second = classes([5, 6, 7]).selects[1](y)
    assert second[0] is None  # all rows
    assert second[1].tolist() == [[-1], [1], [-1], [1]]
    rows, signs = classes([5, 6, 7], multi_class="ovo").selects[2](y)  # of the classes 1 and 2
    assert rows.tolist() == [1, 2, 3]
    assert signs.tolist() == [[1], [-1], [1]]
    assert classes([5, 6, 7], multi_class="onehot").selects[0](y)[1].tolist()[2] == [0, 0, 1]
    assert classes([5, 6, 7], multi_class="softmax").selects[0](y)[1] is y
    (everything,) = columns().selects
    assert everything(y) == (None, y)


def test_classes_open_an_array():
    source, found = classes().open(request(y=np.array(list("cab"))[Y]))
    assert isinstance(source, ArrayPairs)
    assert found.classes.tolist() == ["a", "b", "c"]
    batch = source.take(30)
    rows = [int(np.flatnonzero((signal == X).all(axis=1))[0]) for signal in batch.X]
    np.testing.assert_array_equal(batch.y, np.array([2, 0, 1])[Y[rows]])
    _, given = classes().open(request(classes=[0, 1, 2, 9]))
    assert given.classes.tolist() == [0, 1, 2, 9]
    _, known = classes([0, 1, 2, 3]).open(request())
    assert known.classes.tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="y has the label 2, which is not among the classes"):
        classes([0, 1]).open(request())
    weights = (Y != 2).astype(float)
    _, weighted = classes().open(request(sample_weight=weights))
    assert weighted.classes.tolist() == [0, 1]  # samples of weight zero do not count


def test_classes_open_a_stream():
    source, found = classes().open(request(td.stream(X, Y, random_state=0), None))
    assert isinstance(source, StreamPairs)
    assert found.classes.tolist() == [0, 1, 2]
    pairs = td.stream(lambda: iter([(X, Y)]), "pairs")
    with pytest.raises(ValueError, match="classes must be passed"):
        classes().open(request(pairs, None))
    _, given = classes().open(request(pairs, None, classes=[2, 1, 0]))
    assert given.classes.tolist() == [0, 1, 2]
    for wrong, message in (
        (request(td.stream(X), None), r"X is a stream of signals only: taskdict.stream\(source, y\) .* with labels"),
        (request(td.stream(X, Y), Y), "y and sample_weight must be None for a stream"),
        (request(td.stream(X, Y), None, np.ones(30)), "y and sample_weight must be None for a stream"),
    ):
        with pytest.raises(TypeError, match=message):
            classes().open(wrong)


@pytest.mark.parametrize("stream", [False, True])
def test_unlabelled_signals_need_mu(stream):
    hidden = np.where(np.arange(30) % 2, -1, Y)
    asked = request(td.stream(X, hidden, random_state=0), None) if stream else request(y=hidden)
    with pytest.raises(ValueError, match=r"y has 15 labels -1, which stand for unlabelled signals, but mu is 0"):
        classes().open(asked)
    source, _ = classes(mu=0.5).open(asked)
    assert len(source.take(30).others) == 15
    with pytest.raises(ValueError, match="unlabelled"):
        classes(mu=0.5).open(request(y=np.full(30, -1), classes=[0, 1]))


def test_class_weights_multiply_sample_weights():
    weights = np.linspace(1, 2, 30)
    source, _ = classes(class_weight={0: 3, 1: 1, 2: 1}).open(request(sample_weight=weights))
    batch = source.take(30)
    rows = [int(np.flatnonzero((signal == X).all(axis=1))[0]) for signal in batch.X]
    expected = weights[rows] * np.where(Y[rows] == 0, 3, 1)
    np.testing.assert_allclose(batch.weights, expected / expected.mean())


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("stream", [False, True])
def test_columns_are_opened(flat, stream):
    y = X[:, 0] if flat else X[:, :2]
    asked = request(td.stream(X, y, random_state=0), None) if stream else request(y=y)
    source, found = columns().open(asked)
    assert (found.flat, found.n_columns, found.n_outputs) == (flat, y[0].size, y[0].size)
    batch = source.take(10)
    np.testing.assert_array_equal(batch.y, batch.X[:, : found.n_columns])
    assert columns().like(found) == found
    with pytest.raises(ValueError, match=rf"y has 3 columns \(shape .*\), but the model has {found.n_columns} outputs"):
        found.open(request(y=X[:, :3]))


def test_targets_that_do_not_fit():
    with pytest.raises(ValueError, match="y has 29 targets, but X has 30 signals"):
        columns().open(request(y=X[1:, 0]))
    for targets in (classes(), columns()):
        with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
            targets.open(request(y=None))
    with pytest.raises(ValueError, match="y has 29 entries, but there are 30 signals"):
        classes().open(request(y=Y[1:]))
    with pytest.raises(TypeError, match="with targets"):
        columns().open(request(td.stream(X), None))


def test_units_of_columns():
    y = np.array([[1.0, 10.0], [3.0, 10.0]])
    sizes, offset = columns().scaling(y, True)
    assert offset == (2.0, 10.0)
    assert sizes == (1.0, 1.0)  # the second column is constant and has no size
    sizes, offset = columns().scaling(y * [1, 1e6] + [[0, 3], [0, 5]], True)
    assert sizes == pytest.approx((np.sqrt(2), np.sqrt(2)))  # so that the rows are of size one, and the columns alike
    sizes, offset = columns().scaling(y, False)
    assert offset == (0.0, 0.0)
    assert sizes == pytest.approx((np.sqrt((101 + 109) / 2),))

    class Absolute:
        def evaluate(self, y, scores):
            raise NotImplementedError

    assert columns(loss=Absolute()).scaling(y, True) == ((1.0,), (0.0, 0.0))  # may not be scaled


def through_a_file(targets, n_models, n_outputs):
    arrays, document = targets.to_file()
    arrays = {**arrays, "rhos": np.ones(n_models), "b": np.zeros((n_models, n_outputs))}
    return type(targets).from_file(arrays, document, targets.settings)


@pytest.mark.parametrize(
    "labels",
    [[0, 1, 5], [-1.5, 0.0, 2.0], [False, True], ["a", "b", "cd"], np.array(["a", "b"], object), [np.uint8(3), 200]],
)
def test_classes_in_files(labels):
    targets = classes(labels)
    again = through_a_file(targets, len(targets.selects), 1)
    assert again.classes.dtype == targets.classes.dtype
    assert again.classes.tolist() == targets.classes.tolist()


def test_columns_in_files():
    for flat, n_columns in ((True, 1), (False, 1), (False, 4)):
        targets = ColumnTargets(columns().settings, flat, n_columns)
        assert through_a_file(targets, 1, n_columns) == targets
        with pytest.raises(ValueError, match="do not fit each other"):
            through_a_file(targets, 1, n_columns + 1)


def test_labels_that_no_file_holds():
    with pytest.raises(ValueError, match="a file can hold labels that are numbers or strings only"):
        classes(np.array([(1,), (2, 3)], object)).to_file()


@pytest.mark.parametrize(
    ("labels", "n_models", "n_outputs", "message"),
    [
        ([1, 0], 1, 1, "classes make no sense"),  # not sorted
        ([1, 1], 1, 1, "classes make no sense"),
        ([[0, 1]], 1, 1, "classes make no sense"),
        ([0, 1, 2], 1, 1, "do not fit its classes"),
        ([0, 1, 2], 3, 2, "do not fit its classes"),
        ([0, 1], 2, 1, "do not fit its classes"),
        (range(1000), 3, 1, "do not fit its classes"),
    ],
)
def test_classes_of_files_that_make_no_sense(labels, n_models, n_outputs, message):
    with pytest.raises(ValueError, match=message):
        through_a_file(classes(list(labels)), n_models, n_outputs)
