"""Model files: what is in them, and how damage is noticed."""

import json
import os
import pickle
from fractions import Fraction

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save as save_safetensors

import taskdict as td
from helpers import DTYPES, random_problem
from taskdict._files import storage


@pytest.fixture
def model():
    X, _ = random_problem(60, 8, 1)
    return td.DictionaryLearning(5, lambda1=0.1, lambda2=0.01, random_state=0, max_iter=4).fit(X)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_loaded_dictionary_learns_on_to_the_same_bits(tmp_path, dtype):
    X, _ = random_problem(60, 8, 1, dtype=dtype)
    model = td.DictionaryLearning(5, lambda1=0.1, random_state=0, max_iter=4).fit(X)
    model.save(tmp_path / "model")
    loaded = td.load(str(tmp_path / "model"))
    assert loaded.components_.dtype == dtype
    assert (loaded.n_iter_, loaded.objective_, loaded.history_) == (model.n_iter_, model.objective_, model.history_)
    np.testing.assert_array_equal(loaded.partial_fit(X).components_, model.partial_fit(X).components_)


def test_functions_and_generators_are_left_out(tmp_path):
    X, _ = random_problem(60, 8, 1)
    rng = np.random.RandomState(0)
    td.DictionaryLearning(5, lambda1=0.1, max_iter=2, random_state=rng, callbacks=len and (lambda _: None)).fit(X).save(
        tmp_path / "model"
    )
    loaded = td.load(tmp_path / "model")
    assert loaded.callbacks is None
    assert loaded.random_state is None


def test_file_is_plain_safetensors(tmp_path, model):
    model.save(tmp_path / "model")
    with safe_open(tmp_path / "model", "numpy") as file:
        document = json.loads(file.metadata()["taskdict"])
    assert document["format"] == storage.FORMAT
    assert document["class"] == "DictionaryLearning"
    assert document["taskdict"] == td.__version__
    assert document["parameters"]["lambda1"] == 0.1


def test_every_cut_is_noticed(tmp_path, model):
    path = tmp_path / "model"
    model.save(path)
    content = path.read_bytes()
    for length in [*range(0, 40), *range(40, len(content), 97), len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(td.ModelFileError, match="not a model file of taskdict, or it was cut short"):
            td.load(path)


def test_every_changed_bit_is_noticed(tmp_path, model):
    path = tmp_path / "model"
    model.save(path)
    content = bytearray(path.read_bytes())
    for position in range(0, len(content), 31):
        changed = content.copy()
        changed[position] ^= 4
        path.write_bytes(changed)
        with pytest.raises(td.ModelFileError):
            td.load(path)


def rewrite(path, change):
    """Change the document and the arrays of a file, with a digest that fits: an attack, not an accident."""
    arrays, document = storage.read(path)
    change(arrays, document)
    text = json.dumps(document)
    path.write_bytes(save_safetensors(arrays, {"taskdict": text, "digest": storage._digest(text, arrays)}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a, d: d.update(format=2), "format number 2, written by taskdict"),
        (lambda a, d: d.update({"class": "os.system"}), "holds a 'os.system'"),
        (lambda a, d: d.update({"class": ["SparseCoder"]}), "holds a"),
        (lambda a, d: d["parameters"].update(surprise=1), "surprise"),
        (lambda a, d: d["parameters"].pop("lambda1") and d["learned"].pop("lambda1"), "lambda1"),
        (lambda a, d: d["parameters"].pop("lambda1") and d["learned"].update(lambda1=-1), "lambda1 must be finite"),
        (lambda a, d: d["parameters"].pop("lambda1") and d["learned"].update(lambda1="a"), "lambda1 must be a real"),
        (lambda a, d: d["parameters"].update(lambda1="0.1"), "lambda1 must be a real number"),
        (lambda a, d: d.pop("learned"), "learned"),
        (lambda a, d: d.update(parameters=3), "not a sound model"),
        (lambda a, d: d["learned"].update(n_batches=3), "do not fit"),
        (lambda a, d: a.update(A=a["A"][:2]), "do not fit"),
        (lambda a, d: a.update(B=a["B"].astype(np.float32)), "do not fit"),
        (lambda a, d: a.update(last_used=a["last_used"][:1]), "do not fit"),
        (lambda a, d: a.update(dictionary=a["dictionary"][0]), "not a sound model"),
        (lambda a, d: a.pop("dictionary"), "dictionary"),
        (lambda a, d: d.update(n_features_in=3), "number of features"),
        (lambda a, d: d["learned"].update(n_signals=float("inf")), "not a sound model"),
        (lambda a, d: d["learned"].update(n_signals=-5), "counts make no sense"),
        (lambda a, d: d["learned"].update(n_signals=2**70), "counts make no sense"),
        (lambda a, d: a["history replaced"].fill(np.inf), "not a sound model"),
        (lambda a, d: a["dictionary"].fill(np.nan), "not finite"),
        (lambda a, d: a["A"].fill(np.inf), "not finite"),
        (lambda a, d: d.update(feature_names_in=["a"]), "names of the features"),
        (lambda a, d: d.update(feature_names_in="abcdefgh"), "names of the features"),
    ],
)
def test_crafted_files(tmp_path, model, change, message):
    model.save(tmp_path / "model")
    rewrite(tmp_path / "model", change)
    with pytest.raises(td.ModelFileError, match=message):
        td.load(tmp_path / "model")


def test_other_files(tmp_path, model):
    path = tmp_path / "model"
    path.write_bytes(save_safetensors({"x": np.zeros(3)}))
    with pytest.raises(td.ModelFileError, match="not one that taskdict wrote"):
        td.load(path)
    path.write_bytes(pickle.dumps(model))
    with pytest.raises(td.ModelFileError, match="not a model file"):
        td.load(path)
    with pytest.raises(FileNotFoundError):
        td.load(tmp_path / "absent")
    os.mkfifo(tmp_path / "pipe")
    for bad, kind in ((tmp_path, "directory"), (tmp_path / "pipe", "FIFO"), ("/dev/zero", "device")):
        for use in (model.save, td.load):
            with pytest.raises(OSError, match=f"path must be the path of a regular file, but .* is a {kind}"):
                use(bad)
    with pytest.raises(FileNotFoundError, match=r"there is no '.*absent'"):
        model.save(tmp_path / "absent" / "model")


def test_a_failed_save_keeps_the_old_file(tmp_path, model, monkeypatch):
    path = tmp_path / "model"
    model.save(path)
    before = path.read_bytes()

    def fail(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk is full"):
        model.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_parameters_of_all_kinds(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, D = random_problem(60, 8, 5)
    for init in (D.tolist(), pandas.DataFrame(D), D.astype(">f8"), np.asfortranarray(D), D[::-1][::-1]):
        model = td.DictionaryLearning(
            5, lambda1=np.array(0.1), lambda2=Fraction(1, 8), dictionary_init=init, max_iter=2
        )
        model.fit(X).save(tmp_path / "model")
        loaded = td.load(tmp_path / "model")
        np.testing.assert_array_equal(loaded.dictionary_init, D)
        assert (loaded.lambda1, loaded.lambda2) == (0.1, 0.125)
    td.SparseCoder(pandas.DataFrame(D)).fit(X).save(tmp_path / "coder")
    np.testing.assert_array_equal(td.load(tmp_path / "coder").dictionary, D)


@pytest.mark.parametrize("changes", [{"max_iter": -9}, {"batch_size": 0}, {"tol": float("inf")}, {"batch_size": "a"}])
def test_what_could_not_be_loaded_is_not_saved(tmp_path, model, changes):
    model.save(tmp_path / "model")
    before = (tmp_path / "model").read_bytes()
    with pytest.raises(ValueError, match="the model cannot be saved"):
        model.set_params(**changes).save(tmp_path / "model")
    assert (tmp_path / "model").read_bytes() == before


def test_links_names_and_modes(tmp_path, model):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    model.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    (tmp_path / "file").chmod(0o600)
    model.save(tmp_path / "file")
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
    model.save(tmp_path / ("x" * 250))
    assert td.load(tmp_path / ("x" * 250)).n_iter_ == model.n_iter_
