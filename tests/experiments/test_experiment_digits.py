"""The experiments on handwritten digits, from the command line and in parts."""

import json
import os
import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import taskdict as td
from helpers import data_folder
from taskdict import cli, datasets
from taskdict._learning.descent import DivergedError
from taskdict.experiments import digits, frame, runner, semi_supervised
from taskdict.experiments.digits import DigitsSettings, procedure
from taskdict.experiments.figures import mosaic, most_used
from taskdict.experiments.markdown import mean_and_deviation, mean_and_range
from taskdict.experiments.record import write_json
from taskdict.experiments.runner import Run, RunError
from taskdict.experiments.semi_supervised import SemiSupervisedSettings
from taskdict.experiments.semi_supervised import procedure as semi_supervised_procedure

SMALL = ["--data-set", "bundled", "--sizes", "20", "--iterations", "60", "--lambda1", "0.1", "0.15", "--nu", "1e-5"]
SMALL += ["--selection-iterations", "10"]
FEW_MUS = (1.0, 0.6, 0.3, 0.1, 0.0)


@pytest.fixture(autouse=True, scope="module")
def few_batches():
    """Unsupervised dictionaries are learned from few batches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(procedure, "UNSUPERVISED_BATCHES", 5)
        yield


def reproduce(folder, *arguments):
    return cli.main(["reproduce", "digits", "--output", str(folder), "--threads", "1", *arguments])


def reproduce_digits(settings, folder, data=None):
    return frame.reproduce(digits.EXPERIMENT, settings, folder, data=data, n_threads=1)


def size(path):
    with Image.open(path) as image:
        return image.size


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
    X, y, held, y_held = procedure.training_and_test(bundled, "validation", None)
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


def test_images_and_table(done):
    assert size(done / "atoms-p20.png") == (20 * 9 + 1, 10 * 9 + 1)
    table = (done / "table.md").read_text()
    assert "| test error in percent | p = 20 |" in table
    assert "supervised, measured, test-time augmentation" in table


def test_the_same_command_again_does_nothing_twice(done, monkeypatch, capsys):
    before = (done / "record.json").read_text()
    monkeypatch.setattr(procedure, "supervised", None)
    monkeypatch.setattr(procedure, "unsupervised", None)
    assert reproduce(done, *SMALL, "--recipe", "ours", "--bend", "0.3") == 0
    after = json.loads((done / "record.json").read_text())
    assert after == json.loads(before)
    assert "table.md" in capsys.readouterr().out


def test_other_settings_in_the_same_folder(done, capsys):
    other = [argument if argument != "60" else "61" for argument in SMALL]
    assert reproduce(done, *other, "--recipe", "ours", "--bend", "0.3") == 1
    assert "other settings: give another --output" in capsys.readouterr().err


def test_another_experiment_in_the_same_folder(done, capsys):
    assert reproduce(done, "--semi-supervised", "--data-set", "bundled") == 1
    assert "has another experiment: give another --output" in capsys.readouterr().err


def test_a_model_that_was_removed(done, capsys):
    path = done / "models" / "supervised-p20-seed0.safetensors"
    path.rename(path.with_suffix(".kept"))
    try:
        assert reproduce(done, *SMALL, "--recipe", "ours", "--bend", "0.3") == 0  # its image is there
        (done / "atoms-p20.png").unlink()
        assert reproduce(done, *SMALL, "--recipe", "ours", "--bend", "0.3") == 1
        assert "supervised-p20-seed0.json' too to learn it again" in capsys.readouterr().err
    finally:
        path.with_suffix(".kept").rename(path)
        assert reproduce(done, *SMALL, "--recipe", "ours", "--bend", "0.3") == 0


def test_the_unsupervised_models_heed_all_settings():
    bundled = datasets.load_bundled()
    arrays = (bundled.images[:100], bundled.labels[:100], bundled.test_images, bundled.test_labels)
    common = {
        "start": "halves",
        "bend": 0.0,
        "seed": 0,
        "p": 10,
        "lambda1": 0.1,
        "lambda2": 0.0,
        "nu": 1e-2,
        "multi_class": "ovr",
    }
    losses = [
        procedure.unsupervised({**common, **other}, *arrays, 1, lambda done, total: None)["loss"]
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


def test_a_path_in_mu_is_resumed(tmp_path, monkeypatch):
    """Killed at the end of a value of μ, or when all is done but written: the same errors in the end."""
    settings = SemiSupervisedSettings("bundled", labels=(50,), draws=(0,), size=5, iterations=2, limit=100)

    def learn(name):
        return frame.reproduce(semi_supervised.EXPERIMENT, settings, tmp_path / name, n_threads=1)

    monkeypatch.setattr(semi_supervised_procedure, "MUS", FEW_MUS)
    whole = learn("whole")
    count = [0]

    def broken(path, content):
        count[0] += 1
        if count[0] == 2 or path.parent.name == "runs":
            raise KeyboardInterrupt
        write_json(path, content)

    with monkeypatch.context() as patch:
        for module in (runner, semi_supervised_procedure):
            patch.setattr(module, "write_json", broken)
        patch.setattr("taskdict._learning.training_run.CHECKPOINT_SECONDS", 0.0)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                learn("part")
    resumed = learn("part")
    assert resumed["results"][0]["errors"] == whole["results"][0]["errors"]
    assert list((tmp_path / "part" / "checkpoints").iterdir()) == []


def test_a_run_is_resumed(tmp_path, monkeypatch):
    settings = DigitsSettings(
        "bundled", sizes=(10,), iterations=8, lambda1=(0.15,), nu=(1e-2,), rho=(1.0,), starts=("halves",), limit=100
    )
    whole = reproduce_digits(settings, tmp_path / "whole")
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
        reproduce_digits(settings, tmp_path / "part")
    monkeypatch.undo()
    resumed = reproduce_digits(settings, tmp_path / "part")
    assert resumed["results"][0]["loss"] == whole["results"][0]["loss"]
    models = [td.load(tmp_path / name / "models" / "supervised-p10-seed0.safetensors") for name in ("whole", "part")]
    np.testing.assert_array_equal(models[0].classifier_.components_, models[1].classifier_.components_)


def test_changed_data_are_noticed(tmp_path, monkeypatch):
    worker = frame.Worker(digits.EXPERIMENT, DigitsSettings("bundled"), None)
    run = Run("a", {"sha256": worker.data_set.sha256})
    changed = replace(datasets.load_bundled(), labels=np.zeros(1200, int))
    monkeypatch.setattr(procedure, "load", lambda settings, data: changed)
    other_process = pickle.loads(pickle.dumps(worker))
    with pytest.raises(datasets.DataError, match="the data have changed"):
        other_process(run, tmp_path / "checkpoints" / "a", 1, lambda done, total: None)


def test_choices_are_made_one_after_the_other(tmp_path):
    class Judge:
        """Measures nothing, and prefers ρ = 5, λ1 = 0.2 and ν = 0.01."""

        def __call__(self, runs):
            self.names = [*getattr(self, "names", []), *(run.name for run in runs)]
            return [self.result(run.settings) for run in runs]

        def result(self, settings):
            error = abs(settings["lambda1"] - 0.2) + (settings["nu"] != 0.01) + (settings.get("start") == "halves")
            error += settings["learning_rate"] != 5
            return {"settings": settings, "error": error, "loss": 0.0}

    judge = Judge()
    chosen, start, tried = procedure.select(DigitsSettings(), {}, {}, judge)
    assert chosen == {"learning_rate": 5.0, "lambda1": 0.2, "nu": 0.01, "bend": 0.0}
    assert start == "mixed"
    assert len(judge.names) == len(digits.RHO_GRID) + len(digits.LAMBDA1_GRID) + len(digits.NU_GRID) + len(
        digits.STARTS
    )
    assert len(tried) == len(judge.names) - 2  # two of them count twice


def test_a_learning_rate_that_diverges_is_not_chosen(tmp_path, monkeypatch):
    settings = DigitsSettings(
        "bundled",
        sizes=(10,),
        iterations=5,
        lambda1=(0.1,),
        nu=(1e-2,),
        rho=(1.0, 2.0),
        selection_size=10,
        selection_iterations=5,
        limit=100,
    )
    learn = procedure.supervised

    def diverges(task, *arguments):
        if task.settings["learning_rate"] == 1.0:
            raise DivergedError
        return learn(task, *arguments)

    monkeypatch.setattr(procedure, "supervised", diverges)
    record = reproduce_digits(settings, tmp_path)
    assert record["chosen"]["learning_rate"] == 2.0
    assert [run.get("diverged") for run in record["selection"][:2]] == [True, None]
    starts = {run["settings"]["start"]: run["error"] for run in record["selection"][2:]}
    assert set(starts) == set(digits.STARTS)
    assert record["chosen"]["start"] == min(starts, key=starts.get)
    with pytest.raises(DivergedError):
        reproduce_digits(replace(settings, rho=(1.0,), starts=("halves",)), tmp_path / "other")


def test_defaults_are_the_papers():
    settings = DigitsSettings()
    assert settings.lambda1 == (0.075, 0.1, 0.125, 0.15, 0.175, 0.2, 0.225)
    np.testing.assert_allclose(settings.nu, [1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6])
    assert (settings.sizes, settings.iterations, settings.batch_size) == ((50, 100, 200, 300), 40_000, 200)
    few = SemiSupervisedSettings()
    assert (few.size, few.lambda1, few.nu, few.iterations) == (300, 0.075, 1e-5, 10_000)
    assert semi_supervised.MUS == (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0)


@pytest.fixture(scope="module")
def few_labels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("digits") / "few"
    arguments = ["--semi-supervised", "--data-set", "bundled", "--sizes", "10", "--iterations", "2", "--recipe", "ours"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(semi_supervised_procedure, "MUS", FEW_MUS)
        assert reproduce(folder, *arguments, "--labels", "50", "--seeds", "0", "1") == 0
    return folder


def test_semi_supervised(few_labels):
    record = json.loads((few_labels / "record.json").read_text())
    assert len(record["results"]) == 2
    for run in record["results"]:
        assert list(run["errors"]) == [f"{mu:g}" for mu in FEW_MUS]
        values = np.array([list(at.values()) for at in run["errors"].values()])
        assert np.isfinite(values).all()
        assert len(set(values[:, 1])) > 3  # the model changes with μ
        assert run["chosen_mu"] == FEW_MUS[int(np.argmin(values[:, 0]))]
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
    rows = semi_supervised_procedure.balanced(labels, 100, seed=0)
    assert (np.bincount(labels[rows]) == 10).all()
    assert len(set(rows)) == 100
    assert set(rows) != set(semi_supervised_procedure.balanced(labels, 100, seed=1))
    with pytest.raises(ValueError, match="--labels must be multiples of 10"):
        semi_supervised_procedure.balanced(labels, 55, 0)
    with pytest.raises(ValueError, match="--labels 2000 is more than the data set has"):
        semi_supervised_procedure.balanced(labels, 2000, 0)


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
def test_options_that_do_not_fit(arguments, message, tmp_path, monkeypatch, capsys):
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


def test_quick_on_real_digits(tmp_path, monkeypatch):
    """The quick version on MNIST, cut further: it runs, and tuning the dictionaries helps."""
    data = data_folder("mnist").parent
    settings = replace(DigitsSettings().quick(), iterations=30, lambda1=(0.1,), nu=(1e-4,), sizes=(20,), limit=1000)
    mnist = datasets.load_mnist(data)
    few_tests = replace(mnist, test_images=mnist.test_images[:1000], test_labels=mnist.test_labels[:1000])
    monkeypatch.setattr(procedure, "load", lambda settings, data: few_tests)
    record = reproduce_digits(settings, tmp_path)
    supervised, unsupervised = record["results"]
    assert supervised["error"] < unsupervised["error"] < 20


def test_tables_and_mosaics():
    assert mean_and_range([]) == ""
    assert mean_and_range([1.0]) == mean_and_deviation([1.0]) == "1.00"
    assert mean_and_range([1.0, 2.0]) == "1.50 (1.00 to 2.00)"
    assert mean_and_deviation([1.0, 3.0]) == "2.00 ± 1.41"
    atoms = np.array([[0.0, 1.0], [0.0, -1.0], [0.0, 0.5]])
    image = mosaic(atoms, (1, 2), columns=2, zoom=1)
    line = [255] * 7
    shown = [line, [255, 128, 255, 255, 128, 0, 255], line, [255, 128, 255, 255, 255, 255, 255], line]
    assert image.tolist() == shown
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

    monkeypatch.setattr(frame, "reproduce", fail)
    assert reproduce(tmp_path / "out", *SMALL) == 1
    assert "taskdict: the run 'x' failed" in capsys.readouterr().err
