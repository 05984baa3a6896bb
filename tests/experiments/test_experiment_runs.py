import io
import json
import os
import queue
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from taskdict.experiments.environment import environment
from taskdict.experiments.record import write_json
from taskdict.experiments.runner import Run, RunError, Runner, RunsLine, do

STEPS, HELD_AT, STEP_SECONDS = 40, 30, 0.05  # of a run that is interrupted


def squared(run, checkpoint, n_threads, report):
    """A run that leaves a note whenever it is done."""
    with (checkpoint.parent.parent / "log").open("a") as log:
        log.write(f"{run.settings['x']} {n_threads} {os.getpid()}\n")
    report(1, 2)
    return {"result": run.settings["x"] ** 2}


def helped(run, checkpoint, n_threads, report):
    """Another command does the last run while this one is at work."""
    folder = checkpoint.parent.parent
    last = Run("x3", {"x": 3})
    if run.settings["x"] == 0:
        do(squared, last, folder, 1, report)
    time.sleep(0.5)
    return squared(run, checkpoint, n_threads, report)


def failing(run, checkpoint, n_threads, report):
    if run.settings["x"] == 1:
        raise LookupError("one is not allowed")
    return {}


def dying(run, checkpoint, n_threads, report):
    time.sleep(1.2)
    report(1, 2)
    if run.settings["x"] == 1:
        os._exit(7)
    time.sleep(1.2)
    report(2, 2)
    return {}


def wrong(run, checkpoint, n_threads, report):
    raise ValueError("--labels must be even")


def counting(run, checkpoint, n_threads, report):
    """A run that resumes from its checkpoint; it stays at a step while there is a file that holds it."""
    folder = checkpoint.parent.parent
    count = int(checkpoint.read_text()) if checkpoint.exists() else 0
    (folder / f"process {run.name}").write_text(str(os.getpid()))
    starts = folder / f"starts {run.name}"
    starts.write_text(str(int(starts.read_text()) + 1) if starts.exists() else "1")
    while count < STEPS:
        if count < HELD_AT or not (folder / "hold").exists():
            count += 1
            part = checkpoint.with_name(f"{checkpoint.name}.part")  # at once or not at all: a kill may come between
            part.write_text(str(count))
            part.replace(checkpoint)
        report(count, STEPS)
        time.sleep(STEP_SECONDS)
    return {"starts": int(starts.read_text())}


def runs(count):
    return [Run(f"x{x}", {"x": x}) for x in range(count)]


@pytest.mark.parametrize("n_threads", [1, 2])
def test_each_run_is_done_once(tmp_path, n_threads):
    for count in (2, 3):
        results = Runner(tmp_path, squared, n_threads, io.StringIO()).results(runs(count))
        assert [result["result"] for result in results] == [x**2 for x in range(count)]
        assert all(result["seconds"] >= 0 for result in results)
    done = [line.split()[0] for line in (tmp_path / "log").read_text().splitlines()]
    assert sorted(done) == ["0", "1", "2"]
    assert list((tmp_path / "checkpoints").iterdir()) == []


@pytest.mark.parametrize("n_threads", [1, 2])
def test_what_another_command_has_done_is_not_done_again(tmp_path, n_threads):
    results = Runner(tmp_path, helped, n_threads, io.StringIO()).results(runs(4))
    assert [result["result"] for result in results] == [0, 1, 4, 9]
    done = [line.split()[0] for line in (tmp_path / "log").read_text().splitlines()]
    assert sorted(done) == ["0", "1", "2", "3"]


def test_cores_are_shared(tmp_path):
    Runner(tmp_path, squared, 4, io.StringIO()).results(runs(2))
    lines = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    assert {threads for _, threads, _ in lines} == {"2"}
    assert len({process for *_, process in lines} - {str(os.getpid())}) == 2


def test_results_of_other_settings_are_noticed(tmp_path):
    runner = Runner(tmp_path, squared, 1, io.StringIO())
    runner.results([Run("a", {"x": 1})])
    assert runner.results([Run("a", {"x": 1})])[0]["result"] == 1
    with pytest.raises(RunError, match="other settings: give another --output"):
        runner.results([Run("a", {"x": 2})])


def test_a_run_that_fails(tmp_path):
    with pytest.raises(LookupError):
        Runner(tmp_path, failing, 1, io.StringIO()).results(runs(2))
    with pytest.raises(RunError, match=r"(?s)'x1' failed:.*LookupError: one is not allowed"):
        Runner(tmp_path, failing, 2, io.StringIO()).results([*runs(2), Run("x5", {"x": 5})])


def test_a_run_that_dies(tmp_path):
    with pytest.raises(RunError, match=r"'x1' ended with status 7"):
        Runner(tmp_path, dying, 2, io.StringIO()).results(runs(3))


def test_a_dead_run_does_not_hide_behind_the_messages_of_others(tmp_path):
    """Each look finds a message of another run."""
    runner = Runner(tmp_path, squared, 2, io.StringIO())
    messages = queue.Queue()
    for _ in range(3):
        messages.put(("x1", 1, 2))

    class Process:
        exitcode = -9

        def start(self):
            pass

        terminate = join = start

    runner.context = SimpleNamespace(Queue=lambda: messages, Process=lambda **named: Process())
    runner.progress.begin(2, 0)
    with pytest.raises(RunError, match="ended with status -9"):
        runner._side_by_side(runs(2), 2)


def test_errors_of_the_user_come_without_a_traceback(tmp_path):
    with pytest.raises(RunError, match=r"^the run 'x.' failed: --labels must be even$"):
        Runner(tmp_path, wrong, 2, io.StringIO()).results(runs(2))


@pytest.mark.parametrize("content", ["{}", "{", "[]", "\x00"])
def test_a_damaged_result(tmp_path, content):
    runner = Runner(tmp_path, squared, 1, io.StringIO())
    runner.results(runs(1))
    (tmp_path / "runs" / "x0.json").write_text(content)
    with pytest.raises(RunError, match=r"x0\.json' is damaged"):
        runner.results(runs(1))


def is_running(process):
    try:
        return bool(Path(f"/proc/{process}/cmdline").read_bytes())  # empty if it has ended and nobody has asked
    except OSError:
        return False


def held(folder):
    """The checkpoints of the runs that are held and have stored their seconds."""
    paths = [path for path in folder.glob("checkpoints/?-????????") if path.with_name(f"{path.name}.seconds").exists()]
    return sorted(path for path in paths if path.read_text() == str(HELD_AT))


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_resumes_after_a_break(tmp_path, how):
    code = (
        "from pathlib import Path; import signal; import test_experiment_runs as t\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell in the background ignores it
        "if __name__ == '__main__': t.Runner(Path('.'), t.counting, 2).results([t.Run('a', {}), t.Run('b', {})])"
    )
    (tmp_path / "main.py").write_text(code)
    (tmp_path / "hold").touch()
    paths = [os.path.dirname(__file__), *filter(None, [os.environ.get("PYTHONPATH")])]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    process = subprocess.Popen([sys.executable, "main.py"], cwd=tmp_path, env=environ, stderr=subprocess.DEVNULL)
    while len(held(tmp_path)) < 2:
        assert process.poll() is None
        time.sleep(0.01)
    children = [path.read_text() for path in tmp_path.glob("process ?")]
    process.send_signal(how)
    process.wait()
    while any(map(is_running, children)):  # those that have lost their parent end soon
        time.sleep(0.01)
    checkpoints = held(tmp_path)
    assert len(checkpoints) == 2
    before = [float(path.with_name(f"{path.name}.seconds").read_text()) for path in checkpoints]
    assert min(before) >= 1
    (tmp_path / "hold").unlink()
    results = Runner(tmp_path, counting, 1, io.StringIO()).results([Run("a", {}), Run("b", {})])
    assert [result["starts"] for result in results] == [2, 2]
    for result, seconds in zip(results, before, strict=True):  # those before the break count too
        assert result["seconds"] > seconds + STEP_SECONDS * (STEPS - HELD_AT) - 0.1


def test_line_where_lines_stay(monkeypatch):
    file = io.StringIO()
    clock = [0.0]
    monkeypatch.setattr("taskdict.experiments.runner.time.monotonic", lambda: clock[0])
    line = RunsLine(file)
    line.begin(3, 1)
    for clock[0], done in ((10.0, 10), (61.0, 20), (100.0, 30), (130.0, 50)):
        line.show("a", done, 100)
    assert file.getvalue().splitlines() == [
        "1/3 runs",
        "1/3 runs  a 20 % (7 min left)",
        "1/3 runs  a 50 % (2 min left)",
    ]


def test_line_on_a_terminal():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    file = Terminal()
    line = RunsLine(file)
    line.begin(2, 0)
    line.show("first", 5, 100)
    line.finish("first")
    line.show("second", 50, 100)
    line.end()
    assert "\r0/2 runs  first 5 %" in file.getvalue()
    assert "\r1/2 runs  second 50 %" in file.getvalue()
    assert "\n" not in file.getvalue()
    assert file.getvalue().split("\r")[-2:] == [" " * len("1/2 runs  second 50 %"), ""]


def test_environment_can_be_written():
    assert {"taskdict", "numpy", "processor", "cores"} <= json.loads(json.dumps(environment())).keys()


def test_json_is_short_and_the_same(tmp_path):
    content = {
        "a": [1, -2.5, 3e-9],
        "b": [[1, 2], [3, 4]],
        "c": ["x  [ 1,  2 ]", "y"],
        "d": {"e": []},
        "f": [None, True],
    }
    write_json(tmp_path / "a.json", content)
    text = (tmp_path / "a.json").read_text()
    assert json.loads(text) == content
    assert '"a": [1, -2.5, 3e-09]' in text
