"""One place decides the number of threads; the codes do not depend on it."""

import concurrent.futures
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from threadpoolctl import threadpool_info, threadpool_limits

import taskdict as td
from helpers import DTYPES, random_problem
from taskdict import _core
from taskdict._common.threads import available_threads, one_blas_thread, resolve_threads


def encode(X, D, n_threads=None):
    return td.sparse_encode(X, D, lambda1=0.1, n_threads=n_threads)


def assert_same_bits(a, b):
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(a, part), getattr(b, part))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 7, 1000])
def test_same_bits_for_every_number_of_threads(dtype, n):
    X, D = random_problem(n, 20, 45, dtype=dtype)
    one = encode(X, D, 1)
    for n_threads in (2, 3, 8):
        assert_same_bits(encode(X, D, n_threads), one)


@pytest.mark.parametrize("dtype", DTYPES)
def test_same_bits_for_every_grouping_of_signals(dtype):
    X, D = random_problem(333, 20, 45, dtype=dtype)
    whole = encode(X, D)
    for row in (0, 100, 332):
        assert_same_bits(encode(X[row : row + 1], D), whole[row : row + 1])


def test_default_respects_affinity_and_environment(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cores = available_threads()
    assert 1 <= cores <= len(os.sched_getaffinity(0))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert available_threads() == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "4,2")
    assert available_threads() == min(cores, 4)
    for nonsense in ("many", "-1", "0", ""):
        monkeypatch.setenv("OMP_NUM_THREADS", nonsense)
        assert available_threads() == cores
    assert resolve_threads(3) == 3


def test_affinity_of_the_process():
    script = """if True:
        import os
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        from taskdict._common.threads import available_threads
        print(available_threads())
    """
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "1"


def test_several_python_threads_at_once():
    """Enough work for helpers, which come and go as the calls share the cores."""
    X, D = random_problem(5000, 20, 45)
    expected = encode(X, D, 1)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for codes in pool.map(lambda _: encode(X, D, 3), range(40)):
            assert_same_bits(codes, expected)


@pytest.mark.parametrize("backend", ["loky", "threading", "multiprocessing"])
def test_inside_joblib_workers(backend):
    X, D = random_problem(300, 20, 45)
    expected = encode(X, D)
    with joblib.parallel_config(backend=backend, n_jobs=2):
        for codes in joblib.Parallel()(joblib.delayed(encode)(X, D) for _ in range(4)):
            assert_same_bits(codes, expected)


@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_after_fork():
    X, D = random_problem(2000, 20, 45)
    expected = encode(X, D, 2)  # threads have run before the fork
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for codes in pool.starmap(encode, [(X, D, 2)] * 4):
            assert_same_bits(codes, expected)


FORK_SCRIPT = """
import os, signal, sys
import numpy as np
import taskdict as td

way = sys.argv[1]
rng = np.random.default_rng(0)
D, X = rng.standard_normal((100, 50)), rng.standard_normal((20_000, 50))
few = X[:2000]
expected = td.sparse_encode(few, D, lambda1=1.0, n_threads=2)

def encodes_as_before():
    codes = td.sparse_encode(few, D, lambda1=1.0, n_threads=2)
    return all((getattr(codes, part) == getattr(expected, part)).all() for part in ("data", "indices", "indptr"))

parent, children = os.getpid(), []

def fork(*_):
    child = os.fork()
    if child:
        children.append(child)
    elif way == "encodes in the handler":
        os._exit(0 if encodes_as_before() else 1)
    elif way == "leaves by an exception":
        raise SystemExit
    else:
        assert way == "returns"

signal.signal(signal.SIGALRM, fork)
signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    while not children:  # until the handler has run, which it does during a call
        td.sparse_encode(X, D, lambda1=0.5, n_threads=2)
except SystemExit:
    assert os.getpid() != parent and way == "leaves by an exception"
except RuntimeError as error:
    assert os.getpid() != parent and way == "returns" and "forked by a signal handler" in str(error)
if os.getpid() != parent:
    os._exit(0 if encodes_as_before() else 1)
print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children], encodes_as_before())
"""


@pytest.mark.parametrize("way", ["encodes in the handler", "leaves by an exception", "returns"])
def test_child_forked_by_a_signal_handler(way):
    """The threads that help the interrupted call are in the parent only; a child that waits for them never ends."""
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", FORK_SCRIPT, way], capture_output=True, text=True)
    assert run.stdout == "[0] True\n", run.stderr


FORK_AMONG_THREADS_SCRIPT = """
import os, threading
import numpy as np
import taskdict as td
from taskdict._common import threads as _threads

rng = np.random.default_rng(0)
X = rng.standard_normal((600, 30))
y = X[:, 0]
model = td.TaskDrivenRegressor(10, lambda1=1.0, dictionary_init=X[:10], max_iter=3, random_state=0, n_threads=2)
expected = model.fit(X, y).components_
stop = threading.Event()

def about_to_limit_blas():
    with _threads._blas_lock:
        stop.wait()

learning = threading.Event()

def wait(progress):
    if threading.current_thread() is not threading.main_thread():
        learning.set()
        stop.wait()

other = td.DictionaryLearning(10, lambda1=1.0, max_iter=3, random_state=0, callbacks=wait)

def busy():
    D = rng.standard_normal((60, 30))
    while not stop.is_set():
        td.sparse_encode(X, D, lambda1=0.1, n_threads=2)

for target in (busy, busy, about_to_limit_blas, lambda: other.fit(X)):
    threading.Thread(target=target).start()
learning.wait()
results = []
for _ in range(5):
    child = os.fork()
    if child == 0:
        other.fit(X)
        os._exit(0 if (model.fit(X, y).components_ == expected).all() else 1)
    results.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
stop.set()
print(results)
"""


def test_child_forked_while_other_threads_encode():
    command = [sys.executable, "-W", "ignore", "-c", FORK_AMONG_THREADS_SCRIPT]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.stdout == f"{[0] * 5}\n", run.stderr


INTERRUPT_SCRIPT = """
import signal
import numpy as np
import taskdict as td

rng = np.random.default_rng(0)
D = rng.standard_normal((2000, 400))
X = rng.standard_normal((200_000, 400))
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells may have it ignored
print("ready", flush=True)
try:
    td.sparse_encode(X, D, lambda1=0.1, lambda2=0.1, n_threads=2)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_interrupts_a_long_encode():
    """This work would take many minutes."""
    with subprocess.Popen([sys.executable, "-c", INTERRUPT_SCRIPT], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "interrupted\n"
        assert process.wait() == 0


@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx512"])
def test_every_instruction_set(isa):
    """Exactness with the kernels of all processors that this one can stand for."""
    if isa not in _core.instruction_sets():
        pytest.skip(f"this processor has no {isa}")
    environment = {**os.environ, "TASKDICT_ISA": isa}
    script = "from taskdict import _core; print(_core.instruction_set())"
    used = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert used.stdout.strip() == isa
    chosen = "hard_cases or twins or layouts or sparse_signals"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "tests/coding",
        "-k",
        chosen,
    ]
    root = Path(__file__).parents[2]
    run = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout


ISA_SCRIPT = """
import sys
import numpy as np, scipy.sparse as sp, taskdict as td

given = np.load(sys.argv[1])
sp.save_npz(sys.argv[2], td.sparse_encode(given["X"], given["D"], lambda1=0.1, lambda2=0.01))
"""


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("p", [15, 100])
def test_instruction_sets_agree(dtype, p, tmp_path):
    """Codes are the same to the promise: with λ2 > 0 a violation of Lemma 1 bounds the distance from the optimum."""
    X, D = random_problem(300, 37, p, dtype=dtype)
    np.savez(tmp_path / "given.npz", X=X, D=D)
    promise = 1e-4 if dtype == np.float32 else 1e-10
    found = []
    for isa in _core.instruction_sets():
        command = [sys.executable, "-c", ISA_SCRIPT, str(tmp_path / "given.npz"), str(tmp_path / f"{isa}.npz")]
        subprocess.run(command, env={**os.environ, "TASKDICT_ISA": isa}, check=True)
        found.append(sp.load_npz(tmp_path / f"{isa}.npz").toarray().astype(np.float64))
    scale = np.maximum(0.1, np.abs(X @ D.T).max(axis=1)).astype(np.float64)
    for codes in found[1:]:
        # The objective is strongly convex: ‖α − α'‖ ≤ ‖g − g'‖/λ2 for subgradients g, g' of size ≤ promise · scale.
        assert (np.linalg.norm(codes - found[0], axis=1) <= 2 * promise * scale * np.sqrt(p) / 0.01).all()
        assert np.mean((codes != 0) == (found[0] != 0)) > 0.999


def test_an_instruction_set_that_is_not_there():
    """It is refused, rather than replaced by another, and the error names those that are there."""
    script = "import taskdict; taskdict.sparse_encode([[1.0]], [[1.0]], lambda1=0.1)"
    environment = {**os.environ, "TASKDICT_ISA": "avx1024"}
    run = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert run.returncode != 0
    assert "ValueError: TASKDICT_ISA is 'avx1024'" in run.stderr
    assert ", ".join(_core.instruction_sets()) in run.stderr


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_order_of_signals_changes_no_bit_of_large_supports(dtype):
    """Their memory grows as they do, and a pass that has to wait for it must find all as it was."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        D = rng.standard_normal((99, 61)).astype(dtype)
        X = rng.choice([-1.0, 1.0], (31, 61)).astype(dtype)
        forward = td.sparse_encode(X, D, lambda1=0.0, n_threads=1).toarray()
        back = td.sparse_encode(X[::-1], D, lambda1=0.0, n_threads=1).toarray()[::-1]
        assert forward.tobytes() == np.ascontiguousarray(back).tobytes()


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def in_thread(function):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


def test_blas_is_limited_from_any_thread():
    """From threadpoolctl 3.8 on, limits of other threads than the first are ignored, unless one asks for it."""
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()

    def limited():
        with one_blas_thread():
            return blas_threads()

    ones = [1] * len(before)
    for _ in range(2):
        assert limited() == ones
        assert in_thread(limited) == ones
    with one_blas_thread():
        assert in_thread(limited) == ones
        assert blas_threads() == ones  # the other one has not lifted the limit


def test_the_last_thread_lifts_the_limit():
    before = blas_threads()
    entered, left = threading.Event(), threading.Event()

    def other():
        with one_blas_thread():
            entered.set()
            left.wait()
        return blas_threads()

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with one_blas_thread():
            running = pool.submit(other)
            entered.wait()
        assert blas_threads() == [1] * len(before)
        left.set()
        assert running.result() == before
    assert blas_threads() == before


def test_a_training_in_another_thread_has_the_same_bits():
    X, _ = random_problem(120, 16, 1)
    y = np.digitize(X[:, 0], [-0.1, 0.1])

    def learned():
        return td.TaskDrivenClassifier(5, max_iter=6, decision="joint", random_state=0).fit(X, y).decision_function(X)

    np.testing.assert_array_equal(in_thread(learned), learned())
