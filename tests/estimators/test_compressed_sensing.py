"""Compressed sensing: what is learned reconstructs, from any start, and goes to files and back."""

import csv

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV

import taskdict as td
from taskdict._common.normalise import unit_norm
from taskdict._files import storage
from taskdict._files.integers import quantise


@pytest.fixture(scope="module")
def digits():
    X = unit_norm(load_digits().data)
    return X[:1400], X[1400:]


def linear_error(train, test, r):
    """The mean squared error of the best linear reconstruction."""
    _, vectors = np.linalg.eigh(train.T @ train)
    rest = test - test @ vectors[:, -r:] @ vectors[:, -r:].T
    return np.square(rest).sum(axis=1).mean()


def model(r=8, p=80, **parameters):
    return td.CompressedSensing(r, p, **{"lambda1": 0.01, "lambda2": 0.01, "max_iter": 400, **parameters})


@pytest.fixture(scope="module")
def learned(digits):
    return model(random_state=0).fit(digits[0])


def test_better_than_linear(digits, learned):
    assert -learned.score(digits[1]) < 0.95 * linear_error(*digits, 8)


def test_more_that_is_learned_is_better(digits):
    """The paper's Table 3 in small: what is learned for the reconstruction has the lower error."""
    errors = {}
    for init in ("random", "pca"):
        for learn, kind in ((False, "unsupervised"), (False, "learned"), (True, "learned")):
            each = model(transform_init=init, learn_transform=learn, dictionary=kind, max_iter=800, random_state=1)
            errors[init, learn, kind] = -each.fit(digits[0]).score(digits[1])
    assert errors["random", True, "learned"] < 0.8 * errors["random", False, "learned"]
    assert errors["random", True, "learned"] < linear_error(*digits, 8)  # not stuck at the start
    assert errors["pca", True, "learned"] < errors["pca", False, "learned"] < errors["pca", False, "unsupervised"]


def test_cosines_as_a_dictionary(digits):
    n = np.arange(8)
    waves = np.cos(np.pi * np.outer(n + 0.5, n) / 8)
    atoms = np.kron(waves, waves).T
    fixed = model(p=64, dictionary=atoms, random_state=0).fit(digits[0])
    directions = fixed.components_ * np.linalg.norm(atoms @ fixed.transform_.T, axis=1, keepdims=True)
    np.testing.assert_allclose(directions, atoms @ fixed.transform_.T, atol=1e-10)
    assert -fixed.score(digits[1]) < 1.2 * linear_error(*digits, 8)
    assert fixed.n_iter_ == 0


def test_score_is_that_of_what_is_reconstructed(digits, learned):
    codes = td.sparse_encode(learned.sense(digits[1]), learned.components_, lambda1=0.01, lambda2=0.01)
    error = np.square(digits[1] - codes @ learned.coef_.T).sum(axis=1).mean()
    assert -learned.score(digits[1]) == pytest.approx(error, rel=1e-10)
    np.testing.assert_allclose(learned.sense(digits[1]), digits[1] @ learned.transform_.T)
    np.testing.assert_allclose(learned.reconstruct(learned.sense(digits[1])), codes @ learned.coef_.T, atol=1e-12)


def test_w_is_the_best_for_a_dictionary_that_is_given(digits):
    each = model(dictionary="unsupervised", random_state=0).fit(digits[0])
    codes = td.sparse_encode(each.sense(digits[0]), each.components_, lambda1=0.01, lambda2=0.01)
    slope = codes.T @ (codes @ each.coef_.T - digits[0]) / len(digits[0])
    assert np.abs(slope).max() < 1e-9


def test_clean_from_noisy(digits):
    rng = np.random.default_rng(0)
    noisy = [X + 0.1 * rng.standard_normal(X.shape) for X in digits]
    aware = model(random_state=0).fit(noisy[0], digits[0])
    blind = model(random_state=0).fit(noisy[0])
    assert aware.score(noisy[1], digits[1]) > blind.score(noisy[1], digits[1])
    assert aware.coef_.shape == (64, 80)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_is_kept(digits, dtype):
    each = model(max_iter=20, random_state=0).fit(digits[0].astype(dtype))
    assert {array.dtype for array in (each.transform_, each.components_, each.coef_)} == {np.dtype(dtype)}
    assert each.reconstruct(each.sense(digits[1].astype(dtype))).dtype == dtype


def test_streams_are_as_arrays(digits):
    many = td.stream(digits[0], random_state=0)
    each = model(max_iter=50, random_state=0).fit(many)
    assert -each.score(digits[1]) < 1.3 * linear_error(*digits, 8)
    pairs = td.stream(digits[0], digits[0][:, :10], random_state=0)
    assert model(max_iter=50, random_state=0).fit(pairs).coef_.shape == (10, 80)
    endless = td.stream(lambda: iter(np.array_split(digits[0], 10)))
    assert model(max_iter=50, random_state=0).fit(endless).n_iter_ == 50
    with pytest.raises(TypeError, match="y must be None for a stream"):
        model().fit(many, digits[0])


def test_partial_fit(digits):
    each = model(random_state=0)
    for start in range(0, 1400, 200):
        each.partial_fit(digits[0][start : start + 200])
    assert each.n_iter_ == 7
    assert -each.score(digits[1]) < 1.5 * linear_error(*digits, 8)
    after_fit = model(max_iter=10, random_state=0).fit(digits[0]).partial_fit(digits[0])
    assert after_fit.n_iter_ == 11
    with pytest.raises(ValueError, match="partial_fit needs dictionary='learned'"):
        model(dictionary="unsupervised").partial_fit(digits[0])


def test_files(digits, learned, tmp_path):
    learned.save(tmp_path / "model.safetensors")
    other = td.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(
        other.reconstruct(other.sense(digits[1])), learned.reconstruct(learned.sense(digits[1]))
    )
    assert other.get_params() == learned.get_params()
    with pytest.raises(ValueError, match="not with a model from a file"):
        other.partial_fit(digits[0])
    given = model(transform_init=learned.transform_, learn_transform=False, dictionary=np.eye(64), p=64).fit(digits[0])
    given.save(tmp_path / "given.safetensors")
    other = td.load(tmp_path / "given.safetensors")
    assert other.score(digits[1]) == given.score(digits[1])
    np.testing.assert_array_equal(other.dictionary, np.eye(64))
    np.testing.assert_array_equal(other.transform_init, learned.transform_)


@pytest.mark.parametrize("bits", [2, 8, 12, 16])
def test_export(learned, digits, bits, tmp_path):
    integers, shift = learned.export(tmp_path / "z.csv", bits)
    assert np.abs(integers).max() < 2 ** (bits - 1)
    assert np.abs(integers).max() >= 2 ** (bits - 2) - 1  # no bit is wasted
    np.testing.assert_allclose(integers / 2.0**shift, learned.transform_, atol=0.5 / 2.0**shift)
    with open(tmp_path / "z.csv") as file:
        np.testing.assert_array_equal(np.array(list(csv.reader(file)), int), integers)
    if bits >= 8:
        measured = digits[1] @ integers.T / 2.0**shift
        error = np.square(digits[1] - learned.reconstruct(measured)).sum(axis=1).mean()
        assert error < -1.05 * learned.score(digits[1])


def test_export_for_c_and_numpy(learned, tmp_path):
    integers, shift = learned.export(tmp_path / "z.npy", 12)
    written = np.load(tmp_path / "z.npy")
    assert written.dtype == np.int16
    np.testing.assert_array_equal(written, integers)
    learned.export(tmp_path / "z.h")
    text = (tmp_path / "z.h").read_text()
    integers, shift = quantise(learned.transform_, 8)
    assert "static const int8_t Z[Z_ROWS][Z_COLUMNS]" in text
    assert f"Z_SHIFT = {shift}" in text
    assert ", ".join(map(str, integers[3].tolist())) in text
    with pytest.raises(ValueError, match=r"path must end in .h, .csv or .npy"):
        learned.export(tmp_path / "z.txt")
    with pytest.raises(ValueError, match="bits must be from 2 to 16"):
        learned.export(tmp_path / "z.h", 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["z.h", "z.npy"]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"lambda2": 0.0}, "lambda2 must be positive, got 0.0: with more atoms than measurements and without"),
        ({"lambda1": -1.0}, "lambda1 must be finite and at least 0"),
        ({"r": 64}, r"n_measurements=64 must be less than the number of entries of a signal \(n_features=64\)"),
        ({"r": 100}, "n_measurements=100 must be less than"),
        ({"transform_init": "dct"}, "transform_init must be 'pca' or 'random' or an array"),
        ({"transform_init": np.ones((3, 64))}, r"transform_init must have shape .* = \(8, 64\), got \(3, 64\)"),
        ({"dictionary": "dct"}, "dictionary must be 'learned' or 'unsupervised' or an array"),
        ({"dictionary": np.ones((3, 64))}, r"dictionary must have shape .* = \(80, 64\), got \(3, 64\)"),
    ],
)
def test_bad_parameters(digits, parameters, message):
    with pytest.raises(ValueError, match=message):
        model(**parameters).fit(digits[0])


def test_bad_inputs(digits, learned):
    with pytest.raises(ValueError, match=r"measurements must have shape \(n_samples, n_measurements=8\), got \(3, 7\)"):
        learned.reconstruct(np.ones((3, 7)))
    with pytest.raises(ValueError, match="measurements must be finite, but row 1"):
        learned.reconstruct(np.array([np.ones(8), np.full(8, np.nan)]))
    with pytest.raises(TypeError, match="measurements must be real numbers"):
        learned.reconstruct(np.full((2, 8), "a"))
    with pytest.raises(ValueError, match="y must have 1400 rows, as X has, got shape"):
        model().fit(digits[0], digits[0][:3])


def test_partial_fit_goes_on_gently(digits):
    each = model(random_state=0).fit(digits[0])
    before = -each.score(digits[1])
    for start in range(0, 1400, 200):
        each.partial_fit(digits[0][start : start + 200])
    assert -each.score(digits[1]) < 1.1 * before


def test_partial_fit_from_few_signals(digits):
    each = model(random_state=0).partial_fit(digits[0][:10])
    for start in range(0, 1400, 100):
        each.partial_fit(digits[0][start : start + 100])
    assert -each.score(digits[1]) < 1.5 * linear_error(*digits, 8)


def test_parameters_that_change_later_do_not_change_what_was_learned(digits, tmp_path):
    each = model(max_iter=50, random_state=0).fit(digits[0])
    score = each.score(digits[1])
    each.set_params(lambda1=0.5, lambda2=0.5)
    assert each.score(digits[1]) == score
    each.save(tmp_path / "model.safetensors")
    assert td.load(tmp_path / "model.safetensors").score(digits[1]) == score
    with pytest.raises(ValueError, match="n_components is 20, but the model has 80"):
        each.set_params(n_components=20).partial_fit(digits[0])


def test_failed_calls_leave_the_model(digits):
    each = model(max_iter=20, random_state=0).fit(digits[0])
    score = each.score(digits[1])
    for bad in (digits[0][:, :8], digits[0][:, :20], np.full((9, 64), np.nan)):
        with pytest.raises(ValueError, match=r"n_measurements|transform_init|NaN"):
            each.set_params(transform_init=np.ones((3, 64))).fit(bad)
        assert each.score(digits[1]) == score
    each.set_params(transform_init="pca").partial_fit(digits[0])
    assert each.n_iter_ == 21
    fresh = model(random_state=0)
    with pytest.raises(ValueError, match="y must have 100 rows"):
        fresh.partial_fit(digits[0][:100, :20], digits[0][:50])
    assert fresh.partial_fit(digits[0]).n_features_in_ == 64


def test_y_of_another_width(digits, learned):
    with pytest.raises(ValueError, match="y has 1 columns, but the model reconstructs 64"):
        learned.score(digits[1], digits[1][:, :1])
    narrow = model(max_iter=5, random_state=0).fit(digits[0], digits[0][:, :3])
    with pytest.raises(
        ValueError, match="X has 64 columns, but the model reconstructs 3: pass the signals to be reconstructed as y"
    ):
        narrow.score(digits[1])


def test_a_checkpoint_knows_where_z_started(digits, tmp_path):
    stop = {"callbacks": lambda progress: progress.n_iter >= 5}
    parameters = {"max_iter": 10, "checkpoint": tmp_path / "state"}
    model(**parameters, **stop, random_state=0).fit(digits[0])
    with pytest.raises(ValueError, match="transform_init"):
        model(**parameters, random_state=0, transform_init=np.eye(8, 64)).fit(digits[0])
    assert model(**parameters, random_state=0).fit(digits[0]).n_iter_ == 10


@pytest.mark.parametrize("init", ["pca", "random"])
def test_a_training_without_a_seed_goes_on(digits, tmp_path, init):
    parameters = {"max_iter": 10, "checkpoint": tmp_path / "state", "transform_init": init}
    model(**parameters, callbacks=lambda progress: progress.n_iter >= 5).fit(digits[0])
    assert model(**parameters).fit(digits[0]).n_iter_ == 10
    stream = td.stream(digits[0], random_state=0)
    parameters["checkpoint"] = tmp_path / "other"
    model(**parameters, callbacks=lambda progress: progress.n_iter >= 5, random_state=0).fit(stream)
    assert model(**parameters, random_state=0).fit(stream).n_iter_ == 10  # the same stream, where it is now


@pytest.mark.parametrize("kind", ["learned", "unsupervised"])
def test_iterators_that_end(digits, kind):
    blocks = (digits[0][k : k + 100] for k in range(0, 1400, 100))
    each = model(max_iter=7, dictionary=kind, random_state=0).fit(td.stream(blocks))
    assert each.n_iter_ == 7
    assert -each.score(digits[1]) < 1.5 * linear_error(*digits, 8)


def test_nu_means_the_same_if_a_stream_drops_signals(digits):
    atoms = np.random.default_rng(0).standard_normal((80, 64))
    for drop in (lambda batch: batch, lambda batch: batch[::5]):
        stream = td.stream(digits[0], random_state=0, preprocess=drop)
        each = model(dictionary=atoms, nu=0.01, random_state=0).fit(stream)
        stream = td.stream(digits[0], random_state=0, preprocess=drop)
        X = stream.take(1400)
        codes = td.sparse_encode(each.sense(X), each.components_, lambda1=0.01, lambda2=0.01).toarray()
        W = np.linalg.solve(codes.T @ codes / len(X) + 0.01 * np.eye(80), codes.T @ X / len(X)).T
        np.testing.assert_allclose(each.coef_, W, atol=1e-8)


def test_search_over_a_grid(digits):
    search = GridSearchCV(model(max_iter=50, random_state=0), {"lambda1": [0.01, 5.0]}, cv=2)
    with pytest.warns(UserWarning, match="the codes of all signals are zero"):
        search.fit(digits[0])
    assert search.best_params_ == {"lambda1": 0.01}


@pytest.mark.parametrize("parameters", [{"dictionary": 10**30}, {"transform_init": [0, "", 0]}, {"dictionary": [[]]}])
def test_files_with_parameters_that_make_no_sense(tmp_path, parameters):
    """They were loaded, and could not be saved again."""
    path = tmp_path / "model"
    model(3, 8, max_iter=2).fit(np.random.default_rng(0).standard_normal((60, 12))).save(path)
    arrays, document = storage.read(path)
    document["parameters"].update(parameters)
    storage.write(path, "CompressedSensing", arrays, {key: document[key] for key in ("parameters", "n_iter")})
    with pytest.raises(td.ModelFileError, match=f"{next(iter(parameters))} must be"):
        td.load(path)


def test_text_is_not_taken_for_numbers(digits):
    with pytest.raises(TypeError, match="X must hold real numbers, got dtype <U"):
        model().fit(digits[0].astype(str))
