"""Large dictionaries: beside the product X·Dᵀ, FISTA in PyTorch and scikit-learn's OMP, and the memory."""

from __future__ import annotations

import gc
import re
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import count
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from sklearn.linear_model import orthogonal_mp
from threadpoolctl import threadpool_limits

import taskdict as td
from encode_figures import Figure, Options
from encode_six import worst_kkt
from machine import in_turns, timed
from workloads import digest

FISTA_SIGNALS = 100  # the batch that FISTA is run on, to the same accuracy; its time is scaled
FISTA_SECONDS = 30  # then it is stopped, and what it lacks is said
FISTA_KKT = 1e-3
CHECK_EVERY = 20  # steps of FISTA between measurements of its optimality
PURSUIT_SIGNALS = 4  # of scikit-learn; its time is scaled
CHECKED = 200  # codes of ours


@dataclass(frozen=True)
class Large:
    """Sizes, and the λ1 that gives about 33 nonzeros."""

    p: int
    m: int
    n: int
    lambda1: float

    @property
    def name(self) -> str:
        """What the row is called."""
        return f"p = {self.p:,}, m = {self.m}, {self.n:,} signals"

    def make(self) -> tuple[np.ndarray, np.ndarray]:
        """Return signals and atoms: random atoms, sparse combinations of 30 of them, noise; all of norm one."""
        rng = np.random.default_rng(0)
        D = rng.standard_normal((self.p, self.m), np.float32)
        D /= np.linalg.norm(D, axis=1, keepdims=True)
        X = np.empty((self.n, self.m), np.float32)
        for x in X:
            atoms = rng.choice(self.p, 30, replace=False)
            x[:] = (rng.choice([-1.0, 1.0], 30) * rng.uniform(0.5, 1.5, 30)).astype(np.float32) @ D[atoms]
            noise = rng.standard_normal(self.m, np.float32)
            x += 0.5 * np.linalg.norm(x) / np.linalg.norm(noise) * noise
        return X / np.linalg.norm(X, axis=1, keepdims=True), D


WORKS = (Large(16_384, 768, 2_000, 0.081), Large(65_536, 512, 2_000, 0.124))


def resident(which: str) -> int:
    """Return the resident bytes of this process: now (VmRSS), or the most since the last reset (VmHWM)."""
    found = re.search(rf"{which}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return 1024 * int(found[1])


def memory(work: Large, n_threads: int) -> dict[str, int]:
    """Return the bytes of D and X, and what a call adds to the resident memory at its peak; in a process of its own."""
    td.sparse_encode(np.eye(2, dtype=np.float32), np.eye(2, dtype=np.float32), lambda1=0.1)  # loads what is loaded once
    X, D = work.make()
    gc.collect()
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    td.sparse_encode(X, D, lambda1=work.lambda1, n_threads=n_threads)
    return {"given": X.nbytes + D.nbytes, "added": resident("VmHWM") - before}


def fista(X: np.ndarray, D: np.ndarray, lambda1: float, n_threads: int) -> tuple[np.ndarray, int, float]:
    """Return codes of a batch, the steps and the largest relative violation of Lemma 1, which ends it.

    With adaptive restarts (O'Donoghue and Candès 2015), of each signal on its own. All of the batch takes each step.
    """
    import torch

    torch.set_num_threads(n_threads)
    with torch.inference_mode():
        x, d = torch.from_numpy(X), torch.from_numpy(D)
        step = 1 / float(torch.linalg.eigvalsh((d.T @ d).double())[-1]) / 1.0001
        before = torch.zeros(len(X), len(D))
        at, t = before.clone(), torch.ones(len(X), 1)
        scale = torch.clamp((x @ d.T).abs().amax(dim=1), min=lambda1)
        begin = time.perf_counter()
        for n_steps in count(1):
            code = torch.nn.functional.softshrink(at + step * ((x - at @ d) @ d.T), step * lambda1)
            moved = code - before
            restart = ((at - code) * moved).sum(dim=1, keepdim=True) > 0
            t = torch.where(restart, torch.ones_like(t), t)
            following = (1 + torch.sqrt(1 + 4 * t * t)) / 2
            at = code + (t - 1) / following * moved
            before, t = code, following
            if n_steps % CHECK_EVERY == 0:
                rho = (x - code @ d) @ d.T
                on, off = (rho - lambda1 * torch.sign(code)).abs(), rho.abs() - lambda1
                kkt = float((torch.where(code != 0, on, off).amax(dim=1) / scale).max())
                if kkt <= FISTA_KKT or time.perf_counter() - begin > FISTA_SECONDS:
                    break
    return before.numpy(), n_steps, kkt


def has_torch() -> bool:
    """Return whether PyTorch is there."""
    try:
        import torch  # noqa: F401
    except ImportError:
        return False
    return True


def beside_peers(work: Large, X, D, codes, seconds: float, n_threads: int) -> tuple[list[Figure], dict]:
    """Run the peers on few signals; their times are scaled to all."""
    row = ("large", work.name, "float32", str(n_threads))
    figures, record = [], {}
    if has_torch():
        batch = X[:FISTA_SIGNALS]
        (found, n_steps, kkt), taken = timed(lambda: fista(batch, D, work.lambda1, n_threads))
        record["fista"] = {"signals": len(batch), "steps": n_steps, "kkt": kkt, "seconds": taken}
        record["fista"]["objective / ours"] = objective(batch, D, found, work) / objective(batch, D, codes, work)
        note = f"{n_steps} steps to {kkt:.0e}, {len(batch)} signals, scaled"
        if kkt > FISTA_KKT:
            note = f"stopped after {taken:.0f} s: {note}; so at least"
        ratio = taken * len(X) / len(batch) / seconds
        figures.append(Figure(*row, "FISTA (PyTorch) / us", ratio, 10, note=note))
    else:
        figures.append(Figure(*row, "FISTA (PyTorch) / us", None, 10, note="PyTorch is not installed"))
    k = round(codes.nnz / len(X))
    with threadpool_limits(n_threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        few = X[:PURSUIT_SIGNALS].T
        _, taken = timed(lambda: orthogonal_mp(D.T, few, n_nonzero_coefs=k, precompute=False))
    record["pursuit"] = {"signals": PURSUIT_SIGNALS, "nonzeros": k, "seconds": taken}
    note = f"{k} nonzeros, {PURSUIT_SIGNALS} signals, scaled; no Gram matrix"
    ratio = taken * len(X) / PURSUIT_SIGNALS / seconds
    figures.append(Figure(*row, "orthogonal_mp (scikit-learn) / us", ratio, 10, note=note))
    return figures, record


def objective(X, D, codes, work: Large) -> float:
    """Return the mean objective of the first codes."""
    A = codes[: len(X)].toarray() if hasattr(codes, "toarray") else codes
    return float((0.5 * np.square(X - A @ D, dtype=float).sum() + work.lambda1 * np.abs(A, dtype=float).sum()) / len(X))


def measure(work: Large, n_threads: int, repeats: int, with_peers: bool) -> tuple[list[Figure], dict]:
    """Run one row."""
    X, D = work.make()
    product = np.empty((len(X), len(D)), np.float32)
    product.fill(0)  # so that the first product does not wait for memory
    with threadpool_limits(n_threads):
        results, seconds = in_turns(
            {
                "taskdict": lambda: td.sparse_encode(
                    X, D, lambda1=work.lambda1, n_threads=n_threads, return_report=True
                ),
                "product": lambda: np.matmul(X, D.T, out=product),
            },
            repeats,
        )
    codes, report = results["taskdict"]
    ratio = seconds["taskdict"] / seconds["product"]
    row = ("large", work.name, "float32", str(n_threads))
    note = f"{codes.nnz / len(X):.0f} nonzeros, KKT {worst_kkt(X[:CHECKED], D, codes[:CHECKED], work.lambda1):.0e}"
    figures = [Figure(*row, "us / X·Dᵀ", ratio, 5, at_most=True, note=note)]
    record = {
        **asdict(work),
        "n_threads": n_threads,
        "data": digest(X, D),
        "nonzeros": codes.nnz / len(X),
        "slow_path": int((report.status != td.Status.CONVERGED).sum()),
        "seconds": seconds,
    }
    if with_peers:
        found, peers = beside_peers(work, X, D, codes, seconds["taskdict"], n_threads)
        figures += found
        record |= peers
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            used = pool.submit(memory, work, n_threads).result()
        record["memory"] = used
        ratio = (used["given"] + used["added"]) / used["given"]
        note = "D and X themselves, and what the call adds to the resident memory at its peak"
        figures.append(Figure(*row, "peak memory / (D and X)", ratio, 3, at_most=True, note=note))
    return figures, record


def group(options: Options) -> tuple[list[Figure], list[dict]]:
    """Return the figures and the records of large dictionaries."""
    figures, records = [], []
    for work in WORKS:
        for n_threads in options.threads:
            with_peers = n_threads == max(options.threads)
            found, record = measure(work, n_threads, options.repeats, with_peers)
            figures += found
            records.append(record)
            print(
                f"{work.name}, {n_threads} threads:",
                ", ".join(f"{f.what} {f.value or 0:.2f}" for f in found),
                flush=True,
            )
    return figures, records
