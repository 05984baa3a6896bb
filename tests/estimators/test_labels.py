"""Labels of classes: which there are, their numbers, their weights."""

import numpy as np
import pytest

from taskdict.estimators.task_driven.labels import (
    class_numbers,
    class_weigher,
    different_labels,
    find_classes,
    one_label_each,
)


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        ([2, 0, 2, 5], [0, 2, 5]),
        ([2, -1, 0, -1], [0, 2]),  # -1 is no label
        ([1, -1, 1], [-1, 1]),  # unless 1 is the only other
        ([1.0, -1.0, 2.0], [1, 2]),
        (["b", "a", "-1"], ["-1", "a", "b"]),  # a word is a word
        ([True, False], [False, True]),
        (np.array([3, 255], np.uint8), [3, 255]),
        (np.array(["x", "y"], object), ["x", "y"]),
    ],
)
def test_find_classes(y, classes):
    assert find_classes(y, None).tolist() == classes
    assert find_classes(None, y).tolist() == classes
    assert find_classes([7, 8], y).tolist() == classes  # those that are given count


@pytest.mark.parametrize(
    ("y", "given", "message"),
    [
        (None, None, "classes must be passed to fit a stream whose labels are not known before"),
        ([3, 3], None, r"y must have at least two classes, got 1 class \(3\)"),
        ([-1, -1], None, r"y must have at least two classes, got 0 class \(\)"),
        ([-1, 4], None, r"at least two classes, got 1 class \(4\).*Unlabelled signals \(-1\) do not count"),
        ([0, 1], ["a"], r"classes must have at least two classes, got 1 class \(a\)"),
        ([[0, 1]], None, r"y must have one dimension, got shape \(1, 2\)"),
        ([0, 1], [[0, 1]], r"classes must have one dimension, got shape \(1, 2\)"),
        ([0.0, np.nan], None, "y must be finite, but row 1 contains NaN"),
    ],
)
def test_classes_that_make_no_sense(y, given, message):
    with pytest.raises(ValueError, match=message):
        find_classes(y, given)


def test_different_labels_name_their_argument():
    with pytest.raises(TypeError, match="labels must hold numbers or strings, got dtype complex128"):
        different_labels([1j, 2], "labels")


def test_class_numbers():
    classes = np.array([0, 2, 5])
    assert class_numbers([5, 0, 2, -1, 5], classes).tolist() == [2, 0, 1, -1, 2]
    assert class_numbers([5.0, -1.0], classes).tolist() == [2, -1]
    assert class_numbers(np.array([2, 5], np.uint8), classes).tolist() == [1, 2]
    assert class_numbers([-1, 1], np.array([-1, 1])).tolist() == [0, 1]  # where -1 is a class
    assert class_numbers(["b", "a"], np.array(["a", "b"])).tolist() == [1, 0]
    assert class_numbers([], classes).tolist() == []


def test_words_and_minus_one():
    """In an array of objects the number −1 is no label, as it is in semi-supervised learning with scikit-learn."""
    y = np.array(["b", -1, "a", "-1"], object)
    assert find_classes(y, None).tolist() == ["-1", "a", "b"]
    assert class_numbers(y, np.array(["-1", "a", "b"])).tolist() == [2, -1, 1, 0]
    assert one_label_each(y, 4, "signals").tolist() == ["b", -1, "a", "-1"]


def test_labels_of_samples_that_do_not_count():
    classes, weights = np.array([0, 2]), np.array([1.0, 0.0, 1.0])
    assert class_numbers([2, 77, 0], classes, weights).tolist() == [1, -1, 0]
    with pytest.raises(ValueError, match=r"y has the label 77, which is not among the classes \[0, 2\]"):
        class_numbers([2, 77, 0], classes)


@pytest.mark.parametrize(
    ("y", "classes", "message"),
    [
        ([9], [0, 2], r"y has the label 9, which is not among the classes \[0, 2\]"),
        ([1], [0, 2], r"y has the label 1, which is not"),
        (["0"], [0, 2], r"y has labels of dtype <U1, but the classes are \[0, 2\]"),
        ([0], ["0", "2"], r"y has labels of dtype int64, but the classes are \['0', '2'\]"),
        ([[0], [2]], [0, 2], r"y must have one label for each signal, got shape \(2, 1\)"),
    ],
)
def test_labels_of_other_classes(y, classes, message):
    with pytest.raises(ValueError, match=message):
        class_numbers(y, np.array(classes))


def test_one_label_each():
    assert one_label_each([0, 1, 1], 3, "images").tolist() == [0, 1, 1]
    with pytest.warns(UserWarning, match="column-vector"):
        assert one_label_each([[0], [1]], 2, "images").tolist() == [0, 1]
    with pytest.raises(ValueError, match="labels has 2 entries, but there are 3 images"):
        one_label_each([0, 1], 3, "images", "labels")
    with pytest.raises(ValueError, match=r"y must have one dimension, got shape \(2, 2\)"):
        one_label_each([[0, 1], [1, 0]], 2, "images")
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        one_label_each([0.5, 1.7, 2.2], 3, "images")


def test_weights_of_classes():
    classes = np.array(["a", "b", "c"])
    assert class_weigher(None, classes) is None
    weigh = class_weigher({"a": 2, "c": 0.5}, classes)
    assert weigh(np.array([0, 1, 2, 2])).tolist() == [2, 1, 0.5, 0.5]


def test_balanced_weights_are_those_of_the_first_samples():
    weigh = class_weigher("balanced", np.array([3, 4, 5]))
    first = weigh(np.array([0, 0, 0, 1, -1]))  # four labels of two classes
    np.testing.assert_allclose(first[:4], [4 / 6, 4 / 6, 4 / 6, 2])
    np.testing.assert_allclose(weigh(np.array([1, 1, 1, 2])), [2, 2, 2, 1])  # a class that was not there has one


@pytest.mark.parametrize("weights", [{0: -1}, {0: np.nan}, {0: 0, 1: 0}, {1: np.inf}])
def test_weights_that_make_no_sense(weights):
    weigh = class_weigher(weights, np.array([0, 1]))
    with pytest.raises(ValueError, match="class_weight must be finite, not negative and not all zero"):
        weigh(np.array([0, 1]))
