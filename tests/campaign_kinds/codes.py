"""Fuzzed signals: every code is optimal to what is promised, or marked."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from campaign_kinds.case import Kind, Outcome
from campaign_kinds.lemma import PROMISE, Lasso, check_codes, exact_kkt, kkt_bounds
from campaign_kinds.problems import Problem, draw

KEPT = 3  # signals that a failure keeps


def stored(problem: Problem, rows: Any) -> dict[str, Any]:
    """Return what repeats a problem on some of its signals."""
    rows = np.asarray(rows)[:KEPT]
    return {
        "X": problem.dense[rows],
        "D": problem.D,
        "rows": rows,
        "sparse": sp.issparse(problem.X),
        "lambda1": problem.lambda1,
        "lambda2": problem.lambda2,
        "positive": problem.positive,
        "method": problem.method,
        "direct": problem.direct,
    }


def run(rng: np.random.Generator) -> Outcome:
    """Encode the signals of one dictionary and check each code."""
    outcome = Outcome()
    problem = draw(rng)
    codes, report = problem.encode()
    outcome.tried = codes.shape[0]
    complaints, kkt = check_codes(
        problem.X, problem.D, codes, report, problem.lambda1, problem.lambda2, problem.positive
    )
    for complaint in complaints:
        what = f"{len(complaint.rows)} of {codes.shape[0]} {complaint.what}; {problem.describe()}"
        for row in complaint.rows:  # every signal counts
            outcome.fail(what, **(stored(problem, [row]) if row in complaint.rows[:KEPT] else {}))
    inexact = report.status == 2
    outcome.counts["marked inexact"] += int(inexact.sum())
    if problem.ordinary:
        outcome.counts["marked inexact, ordinary problems"] += int(inexact.sum())
    outcome.counts["by the exact path"] += int((report.status == 1).sum())
    outcome.see(f"kkt, {problem.D.dtype}", kkt.max(initial=0), problem.label)
    _check_the_check(rng, problem, codes, outcome)
    return outcome


def _check_the_check(rng: np.random.Generator, problem: Problem, codes: Any, outcome: Outcome) -> None:
    """Compare the bounds with fractions for a signal of a small problem now and then."""
    if problem.D.size > 1000 or rng.random() > 0.1:
        return
    row = int(rng.integers(codes.shape[0]))
    code = codes[[row]].toarray()
    if not np.isfinite(code).all():
        return
    lasso = Lasso(problem.dense[[row]], problem.D, problem.lambda1, problem.lambda2, problem.positive)
    exact = exact_kkt(lasso, 0, code[0])
    outcome.counts["checked with fractions"] += 1
    for dtype in (np.float64, np.longdouble):
        low, high = kkt_bounds(lasso, code, dtype)
        if exact is None:
            fits = not np.isfinite(high[0])
        else:
            fits = float(low[0]) <= float(exact) * (1 + 1e-12) and float(exact) <= float(high[0]) * (1 + 1e-12)
        if not fits:
            outcome.fail(
                f"the checker is wrong: {exact if exact is None else float(exact)} is not in [{low[0]}, {high[0]}] "
                f"({np.dtype(dtype)}); {problem.describe()}",
                **stored(problem, [row]),
            )


def again(given: dict[str, Any]) -> Outcome:
    """Encode stored signals and check their codes."""
    outcome = Outcome()
    X = sp.csr_array(given["X"]) if given["sparse"] else given["X"]
    penalties = given["lambda1"], given["lambda2"], given["positive"]
    problem = Problem("stored", False, X, given["D"], *penalties, given["method"], given.get("direct", False))
    codes, report = problem.encode()
    outcome.tried = codes.shape[0]
    complaints, kkt = check_codes(X, problem.D, codes, report, problem.lambda1, problem.lambda2, problem.positive)
    for complaint in complaints:
        outcome.fail(
            f"{complaint.what}, rows {complaint.rows.tolist()}: kkt {kkt.tolist()}, reported {report.kkt.tolist()}"
        )
    return outcome


KIND = Kind("codes", "signals", run, share=0.55, limit=240, promise="kkt 1e-10 (float64), 1e-4 (float32)", again=again)

__all__ = ["KIND", "PROMISE"]
