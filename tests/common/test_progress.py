import io

import pytest
from sklearn.datasets import load_digits

import taskdict as td
from helpers import random_problem
from taskdict._common.progress import Reporter, StatusLine


class Terminal(io.StringIO):
    def isatty(self):
        return True


def progress(n_iter, **changes):
    values = {
        "objective": 0.25,
        "nonzeros": 3.0,
        "signals_per_second": 1234.5,
        "seconds_left": 3725.0,
        "done": n_iter == 100,
    }
    return td.Progress(None, n_iter, 100, 10 * n_iter, **{**values, **changes})


def test_line_is_rewritten_on_a_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    file = Terminal()
    line = td.ProgressLine(file)
    line(progress(1))
    line(progress(2))  # too soon
    line(progress(100, signals_per_second=5.0))
    first, second = file.getvalue().split("\r")[1:]
    assert first == "batch 1/100  objective 0.25000  nonzeros 3.0  1,234 signals/s  1:02:05 left"
    assert second == "batch 100/100  objective 0.25000  nonzeros 3.0  5 signals/s  done".ljust(len(first)) + "\n"


def test_line_fits_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    file = Terminal()
    td.ProgressLine(file)(progress(1))
    assert len(file.getvalue()) == 1 + 39


def test_a_result_is_shown_in_full(monkeypatch):
    """It may be longer than a terminal is wide."""
    monkeypatch.setenv("COLUMNS", "40")
    file, text = Terminal(), "accuracy " + 20 * "and more "
    line = td.ProgressLine(file)
    line(progress(1))
    line.conclude(text)
    assert file.getvalue().endswith(f"\n{text}\n")


def test_lines_elsewhere():
    file = io.StringIO()
    line = td.ProgressLine(file)
    for n_iter in (1, 2, 3, 100):
        line(progress(n_iter))
    assert [text.split("/")[0] for text in file.getvalue().splitlines()] == ["batch 1", "batch 100"]


def test_close_shows_the_last_batch_and_ends_the_line():
    file = Terminal()
    line = td.ProgressLine(file)
    line.close()
    assert file.getvalue() == ""
    line(progress(1))
    line(progress(2))
    line.close()
    line.close()
    assert "batch 2/100" in file.getvalue()
    assert file.getvalue().count("\n") == 1
    assert file.getvalue().endswith("\n")


def test_a_status_line_that_is_silent_elsewhere():
    for file, shown in ((io.StringIO(), ""), (Terminal(), "\rhalf\rall \n")):
        line = StatusLine(file, seconds=None)
        for text in ("half", "more", "all"):
            line.show(text)
        line.close()
        assert file.getvalue() == shown


def test_a_status_line_can_be_cleared(monkeypatch):
    monkeypatch.setenv("COLUMNS", "5")
    file = Terminal()
    line = StatusLine(file)
    line.show("longer than the terminal")
    line.show("forgotten")
    line.clear()
    line.close()
    assert file.getvalue() == "\rlong\r    \r"


@pytest.mark.parametrize("there", [False, True])
def test_without_a_file_nothing_is_shown(there, monkeypatch):
    file = io.StringIO()
    file.close()
    monkeypatch.setattr("sys.stderr", file if there else None)
    line = StatusLine()
    line.show("text", now=True)
    line.close()
    line.clear()


class Minimal:
    """A replacement of standard error as some programs make it: it can write, and nothing else."""

    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text


class Broken(io.StringIO):
    """A pipe whose reader is gone."""

    def write(self, text):
        raise BrokenPipeError


@pytest.mark.parametrize("file", [Minimal(), Broken()])
def test_a_file_that_can_do_little_does_not_end_a_fit(file, monkeypatch):
    monkeypatch.setattr("sys.stderr", file)
    X, _ = random_problem(60, 6, 1)
    for model in (td.DictionaryLearning(4, lambda1=0.1, max_iter=3, verbose=1), task(max_iter=3, verbose=1)):
        model.fit(X, X[:, 0] > 0)
    assert not isinstance(file, Minimal) or "batch 3/3" in file.text


def task(**parameters):
    return td.TaskDrivenClassifier(4, random_state=0, **parameters)


def test_a_fit_says_what_it_does_before_the_first_batch(monkeypatch):
    file = Terminal()
    monkeypatch.setattr("sys.stderr", file)
    X, y = load_digits(return_X_y=True)
    said = []
    monkeypatch.setattr(StatusLine, "show", lambda self, text, **_: said.append(text))
    td.TaskDrivenClassifier(random_state=0, verbose=1).fit(X, y)
    first = next(k for k, text in enumerate(said) if text.startswith("batch "))
    assert said[:first] == [
        "reading the signals",
        "learning a dictionary without targets, and choosing what is left open",
        "trying it on a part of the samples",
        *[f"trying it on a part of the samples: batch {t}/86" for t in range(1, 87)],
        "fitting the first model",
    ]


def test_the_estimate_follows_the_speed(monkeypatch):
    """What is left is estimated from the last seconds: neither the start nor a pause counts for long."""
    now = [0.0]
    monkeypatch.setattr("taskdict._common.progress.time.monotonic", lambda: now[0])
    seen = []
    reporter = Reporter(None, 100, seen.append, 0)
    now[0] = 500.0  # a long start
    with reporter:
        for t in range(1, 41):
            now[0] += 10.0 if t <= 5 else 1.0  # the first batches are slow
            reporter.report(n_iter=t, n_signals=10 * t, batch=10, objective=0.0, nonzeros=None, done=False)
    assert seen[0].seconds_left == pytest.approx(990)
    assert seen[-1].seconds_left == pytest.approx(60)
    assert seen[-1].signals_per_second == pytest.approx(10)


def test_no_limit():
    file = io.StringIO()
    td.ProgressLine(file)(td.Progress(None, 3, None, 30, 0.25, 3.0, 10.0, None, False))
    assert file.getvalue() == "batch 3  objective 0.25000  nonzeros 3.0  10 signals/s\n"


def test_verbose(capfd):
    X, _ = random_problem(60, 6, 1)
    td.DictionaryLearning(4, lambda1=0.1, max_iter=3).fit(X)
    assert capfd.readouterr() == ("", "")
    td.DictionaryLearning(4, lambda1=0.1, max_iter=3, verbose=2).fit(X)
    out, err = capfd.readouterr()
    assert out == ""
    assert "batch 3/3" in err


def test_an_early_end_is_shown(capfd):
    X, _ = random_problem(60, 6, 1)
    model = td.DictionaryLearning(4, lambda1=0.1, tol=0.1, verbose=1).fit(X)
    assert model.n_iter_ < model.max_iter
    last = capfd.readouterr().err.splitlines()[-1]
    assert last.startswith(f"batch {model.n_iter_}/1000")
    assert last.endswith("done early")

    def interrupt(progress):
        if progress.n_iter == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.set_params(callbacks=interrupt).fit(X)
    assert "batch 7/1000" in capfd.readouterr().err.splitlines()[-1]
