import io

import pytest

import taskdict as td
from helpers import random_problem


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


def test_line_is_rewritten_on_a_terminal():
    file = Terminal()
    line = td.ProgressLine(file)
    line(progress(1))
    line(progress(2))  # too soon
    line(progress(100, signals_per_second=5.0, seconds_left=0.0))
    first, second = file.getvalue().split("\r")[1:]
    assert first.startswith("1/100 batches  10 signals  objective 0.25000  nonzeros 3.0  1,234 signals/s  1:02:05 left")
    assert second.startswith("100/100 batches")
    assert second.endswith("5 signals/s  0:00 left  \n")  # covers the longer line before


def test_lines_elsewhere():
    file = io.StringIO()
    line = td.ProgressLine(file)
    for n_iter in (1, 2, 3, 100):
        line(progress(n_iter))
    lines = file.getvalue().splitlines()
    assert [text.split("/")[0] for text in lines] == ["1", "100"]


def test_close_ends_the_line():
    file = Terminal()
    line = td.ProgressLine(file)
    line.close()
    assert file.getvalue() == ""
    line(progress(1))
    line.close()
    line.close()
    assert file.getvalue().endswith("left\n")


def test_verbose(capfd):
    X, _ = random_problem(60, 6, 1)
    td.DictionaryLearning(4, lambda1=0.1, max_iter=3).fit(X)
    assert capfd.readouterr() == ("", "")
    td.DictionaryLearning(4, lambda1=0.1, max_iter=3, verbose=1).fit(X)
    out, err = capfd.readouterr()
    assert out == ""
    assert "3/3 batches  180 signals" in err
    with pytest.raises(ValueError, match="verbose must be 0 or 1, got 2"):
        td.DictionaryLearning(4, lambda1=0.1, verbose=2).fit(X)


def test_an_early_end_is_shown(capfd):
    X, _ = random_problem(60, 6, 1)
    model = td.DictionaryLearning(4, lambda1=0.1, tol=0.1, verbose=1).fit(X)
    assert model.n_iter_ < model.max_iter
    assert f"{model.n_iter_}/1000 batches" in capfd.readouterr().err
