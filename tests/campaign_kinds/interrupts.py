"""Ctrl-C at a random moment of long work: KeyboardInterrupt within a second.

A child process works; SIGINT is sent, and the child says when it has caught KeyboardInterrupt. Since other processes
may hold the cores, the latency is the smaller of the time that has passed and of the CPU time that the child has used
since the signal.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np

from campaign_kinds.case import Kind, Outcome

ALLOWED = 1.0  # seconds
LONGEST = 40.0  # to wait for an answer

# Each defines work(), a call or a fit that takes long; it is repeated until the signal comes.
WORK = {
    "encode, Gaussian 250 × 500, λ1 = 1e-5 λmax": """
        X, D = normal(4, 250), unit(normal(500, 250))
        top = np.abs(X @ D.T).max()
        def work():
            td.sparse_encode(X, D, lambda1=1e-5 * top, n_threads=threads)
    """,
    "encode, Gaussian 500 × 1000, λ1 = 1e-6 λmax": """
        X, D = normal(1, 500), unit(normal(1000, 500))
        top = np.abs(X @ D.T).max()
        def work():
            td.sparse_encode(X, D, lambda1=1e-6 * top, n_threads=threads)
    """,
    "encode, homotopy, large": """
        X, D = normal(50, 600), unit(normal(1500, 600))
        def work():
            td.sparse_encode(X, D, lambda1=1e-3, method="homotopy", n_threads=threads)
    """,
    "encode, rules, Gaussian 250 × 500": """
        X, D = normal(4000, 250), unit(normal(500, 250))
        rule, amount = [("n_nonzero", 250), ("max_error", 1e-9), ("max_l1", 1e9)][rng.integers(3)]
        def work():
            td.sparse_encode(X, D, **{rule: amount}, n_threads=threads)
    """,
    "encode, one signal, 1000 × 2000": """
        X, D = normal(1, 1000), unit(normal(2000, 1000))
        def work():
            td.sparse_encode(X, D, lambda1=1e-4, method=str(rng.choice(["auto", "homotopy"])), n_threads=threads)
    """,
    "encode, dependent atoms": """
        D = normal(600, 40) @ normal(40, 300)
        X = normal(20, 300)
        def work():
            td.sparse_encode(X, D, lambda1=0.0, n_threads=threads)
    """,
    "encode, DCT 256 × 1024": """
        D = unit(np.cos(np.pi / 1024 * np.arange(1024)[:, None] * (np.arange(256) + 0.5)))
        X = normal(10, 256)
        def work():
            td.sparse_encode(X, D, lambda1=1e-6, n_threads=threads)
    """,
    "encode, entries over 300 decades": """
        D = normal(435, 8) * 10.0 ** rng.uniform(-150, 150, (435, 8))
        X = normal(20, 8)
        def work():
            td.sparse_encode(X, D, lambda1=0.0, n_threads=threads)
    """,
    "encode, sparse signals": """
        import scipy.sparse as sp
        X = sp.random_array((20_000, 2_000), density=0.05, rng=rng, format="csr")
        D = unit(normal(1000, 2_000))
        def work():
            td.sparse_encode(X, D, lambda1=0.05, n_threads=threads)
    """,
    "adjoint, 512 dependent active atoms": """
        from taskdict._native import Encoded, Encoder
        D = normal(512, 64)
        encoder = Encoder(D, lambda1=0.0, lambda2=0.0, positive=False, n_threads=threads, keep_factors=True)
        k, g = 512, normal(512)
        encoded = Encoded(
            normal(k), np.arange(k, dtype=np.int32), np.array([0, k]), np.zeros(1, np.uint8), np.zeros(1),
            np.zeros(1, np.int32), np.zeros(k * (k + 1) // 2),
        )
        def work():
            encoder.solve_adjoint(encoded, g)
    """,
    "regressor, overcomplete DCT, λ1 = 0": """
        D = unit(np.cos(np.pi / 128 * np.arange(128)[:, None] * (np.arange(64) + 0.5)))
        X, Y = normal(1000, 64), normal(1000, 3)
        def work():
            td.TaskDrivenRegressor(
                128, lambda1=0.0, dictionary_init=D, learning_rate=1.0, max_iter=50, random_state=0, n_threads=threads
            ).fit(X, Y)
    """,
    "classifier": """
        X, y = normal(5000, 200), np.arange(5000) % 7
        def work():
            td.TaskDrivenClassifier(150, max_iter=300, random_state=0, n_threads=threads).fit(X, y)
    """,
    "dictionary learning": """
        X = normal(20_000, 300)
        def work():
            td.DictionaryLearning(400, lambda1=0.3, max_iter=300, random_state=0, n_threads=threads).fit(X)
    """,
    "update of the atoms": """
        from taskdict._native import update_atoms
        codes = normal(3000, 2000) * (rng.random((3000, 2000)) < 0.1)
        A, B = codes.T @ codes, codes.T @ normal(3000, 1500)
        D = unit(normal(2000, 1500))
        def work():
            update_atoms(D.copy(), A, B, False, threads)
    """,
    "transform": """
        X = normal(20_000, 200)
        coder = td.SparseCoder(unit(normal(600, 200)), lambda1=0.02, n_threads=threads).fit(X)
        def work():
            coder.transform(X)
    """,
    "restore": """
        image = (rng.random((500, 600)) < 0.5).astype(np.uint8) * 255
        model = td.images.pretrained().set_params(n_threads=threads)
        def work():
            model.restore(image)
    """,
    "denoise": """
        image = rng.random((300, 400))
        def work():
            td.images.denoise(image, 0.1, n_threads=threads)
    """,
    "halftone": """
        image = rng.random((1500, 1500))
        def work():
            td.images.degrade.floyd_steinberg(image)
    """,
}

SCRIPT = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let what they start in the background ignore it
import numpy as np
import taskdict as td

seed, threads = int(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(seed)
normal = lambda *shape: rng.standard_normal(shape)
unit = lambda rows: rows / np.linalg.norm(rows, axis=1, keepdims=True)
{setup}
print("ready", flush=True)
try:
    while True:
        work()
except KeyboardInterrupt:
    print("interrupted", time.process_time(), flush=True)
"""


def _cpu_seconds(pid: int) -> float:
    """Return the CPU seconds that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _interrupt(name: str, seed: int, threads: int, delay: float, outcome: Outcome) -> None:
    given: dict[str, Any] = {"name": name, "seed": seed, "threads": threads, "delay": delay}
    where = f"{name}, {threads} threads, after {delay:.2f} s"
    command = [sys.executable, "-c", SCRIPT.format(setup=textwrap.dedent(WORK[name])), str(seed), str(threads)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            if child.stdout.readline() != "ready\n":
                outcome.fail(f"the work ended before the signal: {where}", **given)
                return
            time.sleep(delay)
            used, begin = _cpu_seconds(child.pid), time.monotonic()
            child.send_signal(signal.SIGINT)
            answered = select.select([child.stdout], [], [], LONGEST)[0]
            passed = time.monotonic() - begin
            outcome.tried += 1
            answer = child.stdout.readline().split() if answered else []
            if answer[:1] == ["interrupted"]:
                latency = min(passed, float(answer[1]) - used)
                outcome.see("seconds to answer", latency, where)
                if latency > ALLOWED:
                    outcome.fail(f"Ctrl-C is answered after {latency:.2f} s: {where}", **given)
                if child.wait() != 0:
                    outcome.fail(f"Ctrl-C is answered, but the process ends with {child.returncode}: {where}", **given)
            elif answered:
                child.wait()
                stderr = child.stderr.read()[-2000:] if child.stderr else ""
                outcome.fail(
                    f"the work ended with {child.returncode}, not with KeyboardInterrupt: {where}\n{stderr}", **given
                )
            else:
                outcome.see("seconds to answer", passed, where)
                outcome.fail(f"Ctrl-C is not answered within {LONGEST:g} s: {where}", **given)
        finally:
            child.kill()


def run(rng: np.random.Generator) -> Outcome:
    """Interrupt one piece of work."""
    outcome = Outcome()
    name = str(rng.choice(list(WORK)))
    delay = float(rng.choice([rng.uniform(0.0, 0.3), rng.uniform(0.0, 3.0)]))
    _interrupt(name, int(rng.integers(2**31)), int(rng.choice([1, 2])), delay, outcome)
    return outcome


def again(given: dict[str, Any]) -> Outcome:
    """Interrupt the same work at the same moment."""
    outcome = Outcome()
    _interrupt(given["name"], given["seed"], given["threads"], given["delay"], outcome)
    return outcome


KIND = Kind("interrupts", "signals sent", run, share=0.1, limit=240, promise="1 s", again=again)
