"""The experiments on handwritten digits: from the command line, and what they make of their parts."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import taskdict as td
from helpers import data_folder
from taskdict import cli, datasets
from taskdict.descent import DivergedError
from taskdict.experiments import digits, semi_supervised, tables
from taskdict.experiments.pictures import mosaic, most_used
from taskdict.experiments.runs import RunError

SMALL = ["--data-set", "bundled", "--sizes", "20", "--iterations", "150", "--lambda1", "0.1", "0.15", "--nu", "1e-5"]


@pytest.fixture(autouse=True, scope="module")
def few_batches():
    """Unsupervised dictionaries are learned in a tenth of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digits, "BATCHES", 20)
        yield


def reproduce(folder, *arguments):
    return cli.main(["reproduce", "digits", "--output", str(folder), "--threads", "1", *arguments])


def size(path):
    with Image.open(path) as picture:
        return picture.size


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The folder of an experiment that is complete."""
    folder = tmp_path_factory.mktemp("digits") / "bundled"
    assert reproduce(folder, *SMALL, "--recipe", "ours", "--bend", "0.3") == 0
    return folder


def test_record(done):
    record = json.loads((done / "record.json").read_text())
    assert record["data"] == {"name": "bundled", "sha256": datasets.load_bundled().sha256}
    assert len(record["selection"]) == 2
    best = min(record["selection"], key=lambda run: (run["pooled_error"], run["loss"]))
    assert record["chosen"] == {
        "learning_rate": "adaptive",
        "lambda1": best["settings"]["lambda1"],
        "nu": 1e-5,
        "bend": 0.3,
        "start": "halves",
    }
    by_kind = {run["settings"]["kind"]: run for run in record["results"]}
    assert by_kind["unsupervised"]["settings"]["start"] == "halves"
    assert by_kind["supervised"]["settings"]["n_directions"] == 32
    assert by_kind["supervised"]["error"] < by_kind["unsupervised"]["error"] < 15
    for run in record["results"]:
        assert run["settings"]["part"] == "test"
        assert run["settings"]["lambda1"] == best["settings"]["lambda1"]
    assert record["seconds"] > 0
    assert record["environment"]["taskdict"] == td.__version__


def test_what_was_chosen_is_not_chosen_on_the_test_set(done):
    record = json.loads((done / "record.json").read_text())
    assert {run["settings"]["part"] for run in record["selection"]} == {"validation"}
    bundled = datasets.load_bundled()
    X, y, held, y_held = digits.parts(bundled, "validation", None)
    assert len(X) + len(held) == len(bundled.images)
    np.testing.assert_array_equal(held, bundled.images[len(X) :])
    np.testing.assert_array_equal(y_held, bundled.labels[len(y) :])


def test_the_model_is_the_one_in_the_table(done, tmp_path, capsys):
    record = json.loads((done / "record.json").read_text())
    test = datasets.load_bundled()
    np.save(tmp_path / "digits.npy", test.test_images)
    path = done / "models" / "supervised-p20-seed0.safetensors"
    assert cli.main(["predict", str(path), str(tmp_path / "digits.npy")]) == 0
    printed = np.array(capsys.readouterr().out.split(), int)
    error = 100 * float((printed != test.test_labels).mean())
    assert error == pytest.approx(record["results"][0]["pooled_error"], abs=1e-3)
    assert cli.main(["predict", str(path), str(tmp_path / "digits.npy"), "--output", str(tmp_path / "out.npy")]) == 0
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), printed)


def test_pictures_and_table(done):
    assert size(done / "atoms-p20.png") == (20 * 9 + 1, 10 * 9 + 1)
    table = (done / "table.md").read_text()
    assert "| test error in percent | p = 20 |" in table
    assert "supervised, measured, nine looks" in table


def test_the_same_command_again_does_nothing_twice(done, monkeypatch, capsys):
    before = (done / "record.json").read_text()
    monkeypatch.setattr(digits, "supervised", None)
    monkeypatch.setattr(digits, "unsupervised", None)
    assert reproduce(done, *SMALL, "--recipe", "ours", "--bend", "0.3") == 0
    after = json.loads((done / "record.json").read_text())
    assert after == json.loads(before)
    assert "table.md" in capsys.readouterr().out


def test_other_settings_in_the_same_folder(done, capsys):
    other = [argument if argument != "150" else "151" for argument in SMALL]
    assert reproduce(done, *other, "--recipe", "ours", "--bend", "0.3") == 1
    assert "other settings: give another --output" in capsys.readouterr().err


def test_another_experiment_in_the_same_folder(done, capsys):
    assert reproduce(done, "--semi-supervised", "--data-set", "bundled") == 1
    assert "has another experiment: give another --output" in capsys.readouterr().err


def test_a_model_that_is_gone(done, capsys):
    path = done / "models" / "supervised-p20-seed0.safetensors"
    path.rename(path.with_suffix(".kept"))
    try:
        assert reproduce(done, *SMALL, "--recipe", "ours", "--bend", "0.3") == 0  # its picture is there
        (done / "atoms-p20.png").unlink()
        assert reproduce(done, *SMALL, "--recipe", "ours", "--bend", "0.3") == 1
        assert "supervised-p20-seed0.json' to learn it again" in capsys.readouterr().err
    finally:
        path.with_suffix(".kept").rename(path)
        assert reproduce(done, *SMALL, "--recipe", "ours", "--bend", "0.3") == 0


def test_the_unsupervised_models_heed_all_settings():
    bundled = datasets.load_bundled()
    arrays = (bundled.images[:400], bundled.labels[:400], bundled.test_images, bundled.test_labels)
    common = {
        "start": "halves",
        "bend": 0.0,
        "seed": 0,
        "p": 20,
        "lambda1": 0.1,
        "lambda2": 0.0,
        "nu": 0.0,
        "multi_class": "ovr",
    }
    losses = [
        digits.unsupervised({**common, **other}, *arrays, 1, lambda done, total: None)["loss"]
        for other in (
            {},
            {"lambda2": 0.5},
            {"multi_class": "softmax"},
            {"nu": 1e-3},
            {"start": "class"},
            {"start": "mixed"},
        )
    ]
    assert len(set(losses)) == 6


def test_a_path_in_mu_goes_on(tmp_path, monkeypatch):
    """Killed at the end of a value of μ, or when all is done but written: the same errors in the end."""
    settings = semi_supervised.Settings("bundled", labels=(50,), draws=(0,), size=10, iterations=3, limit=200)
    whole = semi_supervised.reproduce(settings, tmp_path / "whole", n_threads=1)
    from taskdict.experiments import runs

    write, count = runs.write_json, [0]

    def broken(path, content):
        count[0] += 1
        if count[0] == 4 or path.parent.name == "runs":
            raise KeyboardInterrupt
        write(path, content)

    for module in (runs, semi_supervised):
        monkeypatch.setattr(module, "write_json", broken)
    monkeypatch.setattr("taskdict.estimators.task_driven.learning.CHECKPOINT_SECONDS", 0.0)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            semi_supervised.reproduce(settings, tmp_path / "part", n_threads=1)
    monkeypatch.undo()
    resumed = semi_supervised.reproduce(settings, tmp_path / "part", n_threads=1)
    assert resumed["results"][0]["errors"] == whole["results"][0]["errors"]
    assert list((tmp_path / "part" / "checkpoints").iterdir()) == []


def test_goes_on_within_a_run(tmp_path, monkeypatch):
    settings = digits.Settings(
        "bundled", sizes=(10,), iterations=12, lambda1=(0.15,), nu=(1e-5,), rho=(1.0,), starts=("halves",), limit=300
    )
    whole = digits.reproduce(settings, tmp_path / "whole", n_threads=1)
    fit = td.ImageClassifier.fit

    def broken(self, X, y):
        def stop(progress):
            if progress.n_iter == 5:
                progress.model.save(self.classifier.checkpoint)
                raise KeyboardInterrupt

        self.classifier.set_params(callbacks=stop)
        return fit(self, X, y)

    monkeypatch.setattr(td.ImageClassifier, "fit", broken)
    with pytest.raises(KeyboardInterrupt):
        digits.reproduce(settings, tmp_path / "part", n_threads=1)
    monkeypatch.undo()
    resumed = digits.reproduce(settings, tmp_path / "part", n_threads=1)
    assert resumed["results"][0]["loss"] == whole["results"][0]["loss"]
    models = [td.load(tmp_path / name / "models" / "supervised-p10-seed0.safetensors") for name in ("whole", "part")]
    np.testing.assert_array_equal(models[0].classifier_.components_, models[1].classifier_.components_)


def test_changed_data_are_noticed(tmp_path, monkeypatch):
    settings = digits.Settings("bundled", sizes=(10,), iterations=2, lambda1=(0.15,), nu=(1e-5,), limit=100)
    digests = iter("abcdef")
    monkeypatch.setattr(datasets.Digits, "sha256", property(lambda self: next(digests)))
    with pytest.raises(datasets.DataError, match="the data have changed"):
        digits.reproduce(settings, tmp_path, n_threads=1)


def test_choices_are_made_one_after_the_other(tmp_path):
    class Judge:
        """A runner that likes ρ = 5, λ1 = 0.2 and ν = 0.01 and does nothing."""

        def results(self, runs):
            self.names = [*getattr(self, "names", []), *(run.name for run in runs)]
            return [self.result(run.settings) for run in runs]

        def result(self, settings):
            error = abs(settings["lambda1"] - 0.2) + (settings["nu"] != 0.01) + (settings.get("start") == "halves")
            error += settings["learning_rate"] != 5
            return {"settings": settings, "error": error, "loss": 0.0}

    judge = Judge()
    chosen, start, tried = digits.select(digits.Settings(), {}, {}, {}, judge)
    assert chosen == {"learning_rate": 5.0, "lambda1": 0.2, "nu": 0.01, "bend": 0.0}
    assert start == "mixed"
    assert len(judge.names) == len(digits.RHO) + len(digits.LAMBDA1) + len(digits.NU) + len(digits.STARTS)
    assert len(tried) == len(judge.names) - 2  # two of them count twice


def test_a_learning_rate_that_diverges_is_not_chosen(tmp_path, monkeypatch):
    settings = digits.Settings(
        "bundled",
        sizes=(10,),
        iterations=5,
        lambda1=(0.1,),
        nu=(1e-5,),
        rho=(1.0, 2.0),
        selection_iterations=5,
        limit=200,
    )
    learn = digits.supervised

    def diverges(settings, *arguments):
        if settings["learning_rate"] == 1.0:
            raise DivergedError
        return learn(settings, *arguments)

    monkeypatch.setattr(digits, "supervised", diverges)
    record = digits.reproduce(settings, tmp_path, n_threads=1)
    assert record["chosen"]["learning_rate"] == 2.0
    assert [run.get("diverged") for run in record["selection"][:2]] == [True, None]
    starts = {run["settings"]["start"]: run["error"] for run in record["selection"][2:]}
    assert set(starts) == set(digits.STARTS)
    assert record["chosen"]["start"] == min(starts, key=starts.get)
    with pytest.raises(DivergedError):
        digits.reproduce(replace(settings, rho=(1.0,), starts=("halves",)), tmp_path / "other", n_threads=1)


def test_defaults_are_the_papers():
    settings = digits.Settings()
    assert settings.lambda1 == (0.075, 0.1, 0.125, 0.15, 0.175, 0.2, 0.225)
    np.testing.assert_allclose(settings.nu, [1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6])
    assert (settings.sizes, settings.iterations, settings.batch_size) == ((50, 100, 200, 300), 40_000, 200)
    few = semi_supervised.Settings()
    assert (few.size, few.lambda1, few.nu, few.iterations) == (300, 0.075, 1e-5, 10_000)
    assert semi_supervised.MUS == (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0)


@pytest.fixture(scope="module")
def few_labels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits") / "few"
    arguments = ["--semi-supervised", "--data-set", "bundled", "--sizes", "20", "--iterations", "4", "--recipe", "ours"]
    assert reproduce(folder, *arguments, "--labels", "50", "--seeds", "0", "1") == 0
    return folder


def test_semi_supervised(few_labels):
    record = json.loads((few_labels / "record.json").read_text())
    assert len(record["results"]) == 2
    for run in record["results"]:
        assert list(run["errors"]) == [f"{mu:g}" for mu in semi_supervised.MUS]
        values = np.array([list(at.values()) for at in run["errors"].values()])
        assert np.isfinite(values).all()
        assert len(set(values[:, 1])) > 3  # the model changes with μ
        assert run["chosen_mu"] == semi_supervised.MUS[int(np.argmin(values[:, 0]))]
        assert len(run["labelled"]) == run["settings"]["labels"]
        assert max(run["labelled"]) < 1080  # none of the digits that μ is chosen on
    one, other = (run["labelled"] for run in record["results"])
    assert one != other
    assert size(few_labels / "errors.png")[0] > 400
    table = (few_labels / "table.md").read_text()
    assert "best over μ, measured" in table
    assert " to " in table  # the range over the draws


def test_labels_are_balanced():
    labels = np.random.default_rng(0).integers(0, 10, 1000)
    rows = semi_supervised.balanced(labels, 100, seed=0)
    assert (np.bincount(labels[rows]) == 10).all()
    assert len(set(rows)) == 100
    assert set(rows) != set(semi_supervised.balanced(labels, 100, seed=1))
    with pytest.raises(ValueError, match="--labels must be multiples of 10"):
        semi_supervised.balanced(labels, 55, 0)
    with pytest.raises(ValueError, match="--labels 2000 is more than the data set has"):
        semi_supervised.balanced(labels, 2000, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--labels", "300"], "--labels is for --semi-supervised"),
        (["--bend", "1"], "--bend is for --recipe ours"),
        (["--recipe", "ours", "--rho", "1"], "--rho is for --recipe paper"),
        (["--semi-supervised", "--selection-iterations", "1"], "--selection-iterations is not for"),
        (["--semi-supervised", "--bend", "1"], "--bend is not for --semi-supervised"),
        (["--semi-supervised", "--sizes", "50", "100"], "--sizes must be one number"),
        (["--data", "/nowhere", "--data-set", "usps"], "No zip.train.gz in '/nowhere/usps'"),
        (["--semi-supervised", "--data-set", "bundled", "--labels", "15"], "--labels must be multiples of 10"),
    ],
)
def test_options_that_make_no_sense(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TASKDICT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(datasets.digits, "USPS_ADDRESSES", ())
    assert reproduce(tmp_path / "out", *arguments) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["--sizes", "1"], ["--nu", "-1"], ["--lambda1", "much"], ["--bend", "nan"], ["--seeds", "-1"]]
)
def test_numbers_that_make_no_sense(arguments, tmp_path, capsys):
    with pytest.raises(SystemExit):
        reproduce(tmp_path / "out", *arguments)
    assert f"argument {arguments[0]}: must be a" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_terminal_without_greek(tmp_path):
    command = [sys.executable, "-m", "taskdict.cli", "reproduce", "digits", "--help"]
    environ = {**os.environ, "PYTHONIOENCODING": "ascii"}
    run = subprocess.run(command, capture_output=True, env=environ)
    assert run.returncode == 0, run.stderr


def test_quick_on_real_digits(tmp_path):
    """The quick version on MNIST, cut further: it runs, and tuning the dictionaries helps."""
    data = data_folder("mnist").parent
    settings = replace(digits.Settings().quick(), iterations=30, lambda1=(0.1,), nu=(1e-5,), sizes=(20,), limit=3000)
    record = digits.reproduce(settings, tmp_path, data=str(data), n_threads=1)
    supervised, unsupervised = record["results"]
    assert supervised["error"] < unsupervised["error"] < 20


def test_tables_and_mosaics():
    assert tables.spread([]) == ""
    assert tables.spread([1.0]) == "1.00"
    assert tables.spread([1.0, 2.0]) == "1.50 (1.00 to 2.00)"
    atoms = np.array([[0.0, 1.0], [0.0, -1.0], [0.0, 0.5]])
    picture = mosaic(atoms, (1, 2), columns=2, zoom=1)
    line = [255] * 7
    shown = [line, [255, 128, 255, 255, 128, 0, 255], line, [255, 128, 255, 255, 255, 255, 255], line]
    assert picture.tolist() == shown
    assert most_used(np.array([[1.0, -5.0, 0.0], [1.0, 0.0, 3.0]]), 2).tolist() == [1, 2]


def test_predict_errors(tmp_path, capsys):
    model = td.DictionaryLearning(2, lambda1=0.1, random_state=0).fit(np.random.default_rng(0).standard_normal((20, 4)))
    model.save(tmp_path / "model")
    np.save(tmp_path / "signals.npy", np.ones((2, 4)))
    assert cli.main(["predict", str(tmp_path / "model"), str(tmp_path / "signals.npy")]) == 1
    assert "DictionaryLearning, which predicts nothing" in capsys.readouterr().err
    assert cli.main(["predict", str(tmp_path / "none"), str(tmp_path / "signals.npy")]) == 1
    assert "none" in capsys.readouterr().err
    (tmp_path / "bad.npy").write_text("hello")
    X = np.random.default_rng(0).standard_normal((20, 4))
    regressor = td.TaskDrivenRegressor(2, max_iter=2, random_state=0).fit(X, np.arange(20.0))
    regressor.save(tmp_path / "model")
    assert cli.main(["predict", str(tmp_path / "model"), str(tmp_path / "bad.npy")]) == 1
    assert "is not a .npy file of numbers" in capsys.readouterr().err
    for name in ("cut.npz", "two.npz"):
        (tmp_path / name).write_bytes(b"PK\3\4 cut short")
        if name == "two.npz":
            np.savez(tmp_path / name, a=np.ones(3))
        assert cli.main(["predict", str(tmp_path / "model"), str(tmp_path / name)]) == 1
        assert f"{name}' is not a .npy file of numbers" in capsys.readouterr().err
    arguments = ["predict", str(tmp_path / "model"), str(tmp_path / "signals.npy"), "--output"]
    for output in (str(tmp_path), str(tmp_path / "nowhere" / "out.npy")):
        assert cli.main([*arguments, output]) == 1
        assert "--output must be the name of a file in a folder that exists" in capsys.readouterr().err
    assert cli.main(["predict", str(tmp_path / "model"), str(tmp_path / "signals.npy")]) == 0
    np.testing.assert_allclose(np.array(capsys.readouterr().out.split(), float), regressor.predict(np.ones((2, 4))))


def test_errors_of_runs_reach_the_command_line(tmp_path, monkeypatch, capsys):
    def fail(*arguments, **more):
        raise RunError("the run 'x' failed")

    monkeypatch.setattr(digits, "reproduce", fail)
    assert reproduce(tmp_path / "out", *SMALL) == 1
    assert "taskdict: the run 'x' failed" in capsys.readouterr().err
