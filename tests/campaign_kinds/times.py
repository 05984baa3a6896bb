"""The worst time of a signal: a search over hard inputs, beside the path methods.

Each case climbs: it draws an input, changes it at random, and keeps the change if it makes the ratio larger of the time
of method="auto" to that of the better of method="homotopy" and scikit-learn's LARS. Times are CPU times of this process
with one thread, on a dictionary that is prepared: Gram matrices, which serve all signals, count on neither side. LARS
counts only where its solution keeps the promise that ours has to keep; it may stop early on dependent atoms.
"""

from __future__ import annotations

import signal
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.linear_model import lars_path, lars_path_gram

from campaign_kinds.case import Kind, Outcome
from campaign_kinds.problems import DICTIONARIES, SIGNALS, _fit, _penalised
from taskdict._native import Encoder

STEPS = 6  # of a climb
ALLOWED = 5.0  # times the better of homotopy and LARS
AIM = 2.0
SHORTEST = 0.010  # seconds of "auto" that count
LONGEST = 8.0  # seconds for a path method
PROMISED = {"float32": 1e-4, "float64": 1e-10}  # of codes, as in the README
LONG_ENOUGH = 60.0  # seconds after which a climb is not continued

Input = dict[str, Any]


class _OutOfTime(Exception):  # noqa: N818
    pass


def _cpu_time(action: Callable[[], Any], limit: float) -> tuple[float, Any]:
    """Return the CPU seconds of an action, and its result; infinity and None beyond the limit."""

    def stop(*_: Any) -> None:
        raise _OutOfTime

    before = signal.signal(signal.SIGPROF, stop)
    begin = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        result = action()
    except _OutOfTime:
        return time.process_time() - begin, None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    return time.process_time() - begin, result


def make(given: Input) -> tuple[np.ndarray, np.ndarray, float]:
    """Return the signal, the dictionary and λ1 of an input."""
    rng = np.random.default_rng(given["seed"])
    dtype = np.dtype(given["dtype"])
    with np.errstate(all="ignore"):
        D = _fit(DICTIONARIES[given["dictionary"]](rng, given["p"], given["m"]), dtype)
        X = _fit(SIGNALS[given["signal"]](rng, 1, D), dtype)
        _, top = _penalised(np.random.default_rng(0), X, D, "largest", given["positive"])
    return X, D, min(top, 1e30) * given["ratio"]


def measure(given: Input) -> dict[str, Any]:
    """Return the times of the methods for an input, and the ratio."""
    X, D, lambda1 = make(given)

    def ours(method: str, limit: float) -> float:
        """Return the time of a second signal, for which the dictionary is ready in every arithmetic that it takes."""
        encoder = Encoder(
            D,
            lambda1=lambda1,
            lambda2=given["lambda2"],
            positive=given["positive"],
            homotopy=method == "homotopy",
            n_threads=1,
        )

        def encode() -> bool:
            encoder.encode(X)
            return True

        first, done = _cpu_time(encode, limit)
        return _cpu_time(encode, limit)[0] if done else first

    def once() -> dict[str, float]:
        path = ours("homotopy", LONGEST)
        path = path if path < 0.9 * LONGEST else np.inf  # clocks of virtual machines are coarse
        lars = min(_lars(X, D, lambda1, given, gram) for gram in (False, True))
        better = min(path, lars)
        if not np.isfinite(better):
            return {"auto": 0.0, "homotopy": path, "lars": lars}
        limit = max(SHORTEST, better) * 4 * ALLOWED
        return {"auto": ours("auto", limit), "homotopy": path, "lars": lars}

    runs = [once()]
    if _ratio(runs[0]) > AIM:  # the middle of three: a hiccup of the machine or of its clocks does not count
        runs += [once(), once()]
    times = {way: float(np.median([run[way] for run in runs])) for way in runs[0]}
    return {**times, "ratio": _ratio(times)}


def _ratio(times: dict[str, float]) -> float:
    better = max(min(times["homotopy"], times["lars"]), SHORTEST / 100)  # CPU clocks of virtual machines may miss less
    return times["auto"] / better if times["auto"] >= SHORTEST and np.isfinite(better) else 0.0


def _lars(X: np.ndarray, D: np.ndarray, lambda1: float, given: Input, gram: bool) -> float:
    if given["lambda2"]:
        return np.inf
    atoms, x = D.astype(np.float64).T, X[0].astype(np.float64)
    settings = {"method": "lasso", "alpha_min": lambda1 / len(x), "positive": given["positive"], "return_path": False}

    products = atoms.T @ atoms if gram else None

    def solve() -> Any:
        if gram:
            return lars_path_gram(atoms.T @ x, products, n_samples=len(x), **settings)[2]
        return lars_path(atoms, x, Gram=None, **settings)[2]

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            seconds, code = _cpu_time(solve, LONGEST)
        except Exception:
            return np.inf
        if code is None or not np.isfinite(code.astype(given["dtype"])).all():
            return np.inf
        code = code.astype(given["dtype"]).astype(np.float64)
        rho = atoms.T @ (x - atoms @ code)
        inside = np.maximum((rho if given["positive"] else np.abs(rho)) - lambda1, 0)
        violation = np.where(code != 0, np.abs(rho - lambda1 * np.sign(code)), inside).max()
        good = violation <= PROMISED[given["dtype"]] * max(lambda1, np.abs(atoms.T @ x).max())
    return seconds if good else np.inf


def _draw(rng: np.random.Generator) -> Input:
    largest = int(rng.choice([60, 250, 1000], p=[0.3, 0.4, 0.3]))
    return {
        "m": int(rng.integers(1, largest + 1)),
        "p": int(rng.integers(2, largest + 1)),
        "dictionary": str(rng.choice(list(DICTIONARIES))),
        "signal": str(rng.choice(list(SIGNALS))),
        "ratio": float(rng.choice([0.0, 10.0 ** -rng.uniform(0, 8)], p=[0.15, 0.85])),
        "lambda2": float(rng.choice([0.0, 10.0 ** -rng.uniform(0, 9)], p=[0.8, 0.2])),
        "dtype": str(rng.choice(["float32", "float64"])),
        "positive": bool(rng.random() < 0.3),
        "seed": int(rng.integers(2**31)),
    }


def _change(rng: np.random.Generator, given: Input) -> Input:
    other, changed = _draw(rng), dict(given)
    for name in rng.choice(list(given), int(rng.integers(1, 3)), replace=False):
        changed[str(name)] = other[str(name)]
    if rng.random() < 0.5:
        for name in ("m", "p"):
            changed[name] = int(np.clip(changed[name] * rng.uniform(0.7, 1.6), 1, 1000))
    return changed


def _describe(given: Input, times: dict[str, Any]) -> str:
    ways = ", ".join(f"{way} {times[way]:.3g} s" for way in ("auto", "homotopy", "lars"))
    return (
        f"{given['dictionary']} {given['m']} × {given['p']} / {given['signal']}, λ1 = {given['ratio']:.2g} λmax, "
        f"λ2 = {given['lambda2']:.2g}, {given['dtype']}{', positive' if given['positive'] else ''}: {ways}"
    )


def _judge(given: Input, times: dict[str, Any], outcome: Outcome) -> None:
    outcome.tried += 1
    where = _describe(given, times)
    outcome.see("seconds of auto", times["auto"], where)
    outcome.see("ratio to the better of homotopy and LARS", times["ratio"], where)
    if times["auto"] >= SHORTEST:
        outcome.see("ratio to homotopy", times["auto"] / max(times["homotopy"], 1e-5), where)
    outcome.counts["above the aim of 2 x"] += int(times["ratio"] > AIM)
    if times["ratio"] > ALLOWED:
        outcome.fail(f"auto takes {times['ratio']:.3g} times as long as the better path method: {where}", given=given)


def run(rng: np.random.Generator) -> Outcome:
    """Climb from one input."""
    outcome = Outcome()
    best = _draw(rng)
    times = measure(best)
    _judge(best, times, outcome)
    begin = time.monotonic()
    for _ in range(STEPS):
        if time.monotonic() - begin > LONG_ENOUGH:
            break
        given = _change(rng, best)
        found = measure(given)
        _judge(given, found, outcome)
        if found["ratio"] > times["ratio"]:
            best, times = given, found
    return outcome


def again(given: dict[str, Any]) -> Outcome:
    """Measure a stored input."""
    outcome = Outcome()
    _judge(given["given"], measure(given["given"]), outcome)
    return outcome


KIND = Kind("times", "inputs", run, share=0.12, limit=2400, promise="ratio 5", again=again)
