"""The code of a signal does not depend on the number of threads, nor on the signals beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from campaign_kinds.case import Kind, Outcome
from campaign_kinds.codes import stored
from campaign_kinds.problems import draw


def differing(reference: Any, other: Any, rows: np.ndarray) -> np.ndarray:
    """Return the rows of the reference that have other bits in `other`, whose signal i is row rows[i]."""
    (codes, report), (found, seen) = reference, other
    bad = (report.status[rows] != seen.status) | (report.n_steps[rows] != seen.n_steps)
    bad |= report.lambda1[rows] != seen.lambda1
    bad |= ~((report.kkt[rows] == seen.kkt) | (np.isnan(report.kkt[rows]) & np.isnan(seen.kkt)))
    expected = codes[rows]
    for i in range(len(rows)):
        a, b = (slice(c.indptr[i], c.indptr[i + 1]) for c in (expected, found))
        bad[i] |= not np.array_equal(expected.indices[a], found.indices[b])
        bad[i] |= expected.data[a].tobytes() != found.data[b].tobytes()
    return rows[bad]


def run(rng: np.random.Generator) -> Outcome:
    """Encode signals in several ways and compare all bits."""
    outcome = Outcome()
    problem = draw(rng, fewer=4)
    n = problem.X.shape[0]
    reference = problem.encode()
    everything = np.arange(n)
    ways: list[tuple[str, np.ndarray, int]] = [(f"{t} threads", everything, t) for t in (2, 3, 5)]
    ways.append(("another order", rng.permutation(n), 1))
    ways.append(("another order, 3 threads", rng.permutation(n), 3))
    cut = int(rng.integers(0, n))
    ways += [("the first part", everything[:cut], 1), ("the second part", everything[cut:], 2)]
    ways += [("alone", np.array([row]), 1) for row in rng.choice(n, min(n, 5), replace=False)]
    for way, rows, n_threads in ways:
        if len(rows) == 0:
            continue
        X = problem.X if rows is everything else problem.X[rows]
        if not sp.issparse(X) and rng.random() < 0.3:
            X = np.ascontiguousarray(X)
        outcome.tried += len(rows)
        bad = differing(reference, problem.encode(X, n_threads), rows)
        if len(bad):
            what = f"{len(bad)} of {len(rows)} codes have other bits: {way}; {problem.describe()}"
            outcome.fail(what, way=way, **stored(problem, bad))
    return outcome


KIND = Kind("threads", "signals", run, share=0.1, limit=240, promise="same bits")
