"""The campaign's checkers find what is wrong, for each sort of wrongness, and its cases follow from their numbers."""

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import taskdict as td
from campaign import KINDS, Campaign, State, kind_of, report, run_case, stored_input
from campaign_kinds import gradients, lemma, threads, times, trainings
from campaign_kinds.case import Kind, Outcome, generator
from campaign_kinds.problems import DICTIONARIES, SIGNALS, draw
from helpers import DTYPES, random_problem, relative_kkt

LAMBDA1 = 0.1


def encoded(dtype=np.float64, positive=False):
    X, D = random_problem(8, 6, 10, dtype=dtype)
    codes, report = td.sparse_encode(X, D, lambda1=LAMBDA1, positive=positive, return_report=True)
    return X, D, codes, td.Report(report.status.copy(), report.kkt.copy(), report.n_steps, report.lambda1)


def complaints(X, D, codes, report, positive=False, lambda2=0.0):
    found, _ = lemma.check_codes(X, D, codes, report, LAMBDA1, lambda2, positive)
    return {complaint.what: complaint.rows.tolist() for complaint in found}


def only(found, words, rows):
    assert len(found) == 1, found
    (what,) = found
    assert words in what
    assert found[what] == rows


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("positive", [False, True])
def test_right_codes_pass(dtype, positive):
    assert complaints(*encoded(dtype, positive), positive) == {}


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_coefficient_that_is_off(dtype):
    X, D, codes, report = encoded(dtype)
    codes.data[codes.indptr[3]] += 3 * lemma.PROMISE[np.dtype(dtype)]
    only(complaints(X, D, codes, report), "violate Lemma 1", [3])
    report.status[3] = td.Status.INEXACT
    only(complaints(X, D, codes, report), "marked as inexact with a reported kkt below", [3])
    report.kkt[3] = 1
    assert complaints(X, D, codes, report) == {}


def test_a_zero_code_that_should_not_be():
    """What the first solver gave for λ1 just below λmax: zero, with a reported kkt of zero."""
    X, D = np.array([[LAMBDA1 * (1 + 1e-9)]]), np.eye(1)
    report = td.Report(np.zeros(1, np.uint8), np.zeros(1), np.ones(1, np.int32), np.full(1, LAMBDA1))
    only(complaints(X, D, sp.csr_array((1, 1)), report), "violate Lemma 1", [0])


def test_a_sum_that_was_rounded_away():
    """A row of 200,000 equal numbers, with the coefficient that a careless sum in float32 would give."""
    m = 200_000
    X, D = np.full((1, m), 0.7, np.float32), np.full((1, m), 1 / np.sqrt(m), np.float32)
    exact = float(X[0].astype(float) @ D[0].astype(float)) - LAMBDA1
    report = td.Report(np.zeros(1, np.uint8), np.zeros(1, np.float32), np.ones(1, np.int32), np.full(1, LAMBDA1))
    right = sp.csr_array(np.array([[exact / float(D[0].astype(float) @ D[0].astype(float))]], np.float32))
    assert complaints(X, D, right, report) == {}
    only(complaints(X, D, right * np.float32(1 + 3e-4), report), "violate Lemma 1", [0])


def test_what_is_not_a_code():
    X, D, codes, report = encoded()
    changes = {
        "stored zeros": lambda c: c.data.__setitem__(c.indptr[2], 0.0),
        "not finite": lambda c: c.data.__setitem__(c.indptr[2], np.nan),
        "do not rise": lambda c: c.indices.__setitem__(slice(c.indptr[2], c.indptr[2] + 2), [5, 5]),
        "out of range": lambda c: c.indices.__setitem__(c.indptr[2], len(D)),
    }
    for words, change in changes.items():
        other = sp.csr_array((codes.data.copy(), codes.indices.copy(), codes.indptr), shape=codes.shape)
        change(other)
        found = complaints(X, D, other, report)
        assert [rows for what, rows in found.items() if words in what] == [[2]], (words, found)


def test_negative_codes_wrong_types_and_wrong_reports():
    X, D, codes, report = encoded()
    found = complaints(X, D, codes, report, positive=True)
    assert any("negative" in what for what in found)
    assert any("float32" in what for what in complaints(X, D, codes.astype(np.float32), report))
    assert any("shape" in what for what in complaints(X, D, codes[:5], report))
    report.kkt[1], report.kkt[4] = np.nan, 1e-3
    found = complaints(X, D, codes, report)
    assert [rows for what, rows in found.items() if "not a number" in what] == [[1]]
    assert [rows for what, rows in found.items() if "not marked" in what] == [[4]]


@pytest.mark.parametrize("scale", [1.0, 1e-150, 1e150])
def test_bounds_hold_and_are_narrow(scale):
    X, D = random_problem(5, 4, 6)
    codes = np.random.default_rng(0).standard_normal((5, 6)) * scale
    lasso = lemma.Lasso(X * scale, D, LAMBDA1 * scale, 0.3, False)
    expected = relative_kkt(X * scale, D, sp.csr_array(codes), LAMBDA1 * scale, 0.3)
    for dtype in (np.float64, np.longdouble):
        low, high = lemma.kkt_bounds(lasso, codes, dtype)
        assert (low <= high).all()
        np.testing.assert_allclose(low.astype(float), expected, rtol=1e-11)
        np.testing.assert_allclose(high.astype(float), expected, rtol=1e-11)
        for row in range(5):
            exact = lemma.exact_kkt(lasso, row, codes[row])
            assert Fraction(float(low[row])) * (1 - Fraction(1, 10**15)) <= exact
            assert exact <= Fraction(float(high[row])) * (1 + Fraction(1, 10**15))


def test_fractions_decide_what_bounds_cannot():
    """A violation of exactly what is allowed, and of the next number above, beside a product that hides it."""
    promise = 2.0**-33
    X, D = np.array([[1.0, 2.0**80, -(2.0**80)]]), np.array([[1.0, 1.0, 1.0]])
    for excess, wrong in ((0.0, False), (2.0**-19, True)):
        lasso = lemma.Lasso(X, D, 1 - promise * (1 + excess), 0.0, False)
        verdict = lemma.judge(lasso, np.zeros((1, 1)), promise)
        assert verdict.wrong.tolist() == [wrong]
        assert not verdict.open.any()


def test_bits_that_differ_are_found():
    _, _, codes, report = encoded()
    rows = np.array([2, 5])
    other, seen = (
        codes[rows],
        td.Report(*(part[rows] for part in (report.status, report.kkt, report.n_steps, report.lambda1))),
    )
    assert threads.differing((codes, report), (other, seen), rows).tolist() == []
    other.data[-1] = np.nextafter(other.data[-1], 2)
    assert threads.differing((codes, report), (other, seen), rows).tolist() == [5]
    seen.status[0] += 1
    assert threads.differing((codes, report), (other, seen), rows).tolist() == [2, 5]


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_adjoint_that_is_off_is_found(dtype):
    rng = np.random.default_rng(0)
    D = rng.standard_normal((5, 8)).astype(dtype)
    g, atoms = rng.standard_normal(5).astype(dtype), np.arange(5)
    beta = np.linalg.solve((D @ D.T).astype(float), g.astype(float)).astype(dtype)
    assert gradients._check_adjoint(D, 0.0, atoms, g, beta, Outcome()) == ""
    assert "M β − g" in gradients._check_adjoint(D, 0.0, atoms, g, beta * dtype(1.001), Outcome())
    assert "not finite" in gradients._check_adjoint(D, 0.0, atoms, g, beta * dtype(np.inf), Outcome())
    twice = np.concatenate([D, D[:1]])  # of dependent atoms, the solution of least norm shares equally
    g, atoms = np.append(g, g[0]), np.arange(6)
    shared = np.append(beta, beta[0])
    shared[[0, 5]] /= 2
    alone = np.append(beta, dtype(0))
    assert gradients._check_adjoint(twice, 0.0, atoms, g, shared, Outcome()) == ""
    assert "least norm" in gradients._check_adjoint(twice, 0.0, atoms, g, alone, Outcome())
    assert "singular" in gradients._check_adjoint(twice, 0.0, atoms, g, shared * dtype(1.1), Outcome())


@pytest.mark.parametrize("name", ["codes", "threads", "gradients"])
def test_a_case_follows_from_its_number(name):
    first, again, other = (run_case(name, 3, number) for number in (4, 4, 7))
    assert first.tried == again.tried > 0
    assert first.worst == again.worst
    assert [f.what for f in first.failures] == [f.what for f in again.failures]
    assert (first.tried, first.worst) != (other.tried, other.worst)


def test_problems_are_varied_and_finite():
    labels, methods = set(), set()
    for number in range(300):
        problem = draw(generator("codes", 0, number), fewer=50)
        assert np.isfinite(problem.dense).all()
        assert np.isfinite(problem.D).all()
        assert 0 <= problem.lambda1 < np.inf
        assert 0 <= problem.lambda2 < np.inf
        labels.update(problem.label.split(" / "))
        methods.add((problem.method, problem.positive, problem.D.dtype.name, sp.issparse(problem.X)))
    assert labels >= {*DICTIONARIES, *SIGNALS}
    assert len(methods) == 24


def test_ratios_of_times():
    assert times._ratio({"auto": 1.0, "homotopy": 0.5, "lars": 0.1}) == pytest.approx(10)
    assert times._ratio({"auto": times.SHORTEST / 2, "homotopy": 1e-4, "lars": 1e-4}) == 0  # too short to count
    outcome = Outcome()
    given = times._draw(np.random.default_rng(0))
    times._judge(given, {"auto": 1.0, "homotopy": 0.5, "lars": 0.1, "ratio": 10.0}, outcome)
    assert [failure.input["given"] for failure in outcome.failures] == [given]


def test_every_learner_is_killed():
    learners = {"TaskDrivenClassifier", "TaskDrivenRegressor", "DictionaryLearning", "ImageClassifier"}
    learners |= {"ImageRestorer", "PatchVotingClassifier", "CompressedSensing"}
    source = Path(trainings.__file__).read_text()
    assert all(f"td.{name}(" in source for name in learners)


def _crash(rng):
    outcome = Outcome(tried=2)
    if rng.random() < 0.5:
        raise RuntimeError("by chance")
    outcome.see("size", rng.random(), "here")
    outcome.fail("all wrong", X=np.arange(3), content=b"abc", number=4)
    return outcome


@pytest.fixture
def state(tmp_path):
    return State(tmp_path / "state", 7)


def test_failures_are_counted_listed_and_stored(state, monkeypatch):
    monkeypatch.setattr("campaign.kind_of", lambda name: Kind(name, "cases", _crash, 1.0, 10.0, "nothing"))
    failed = 0
    for number in range(20):
        outcome = run_case("codes", 7, number)
        lines = state.record("codes", number, outcome, 1.0)
        assert f"--seed 7 --case codes:{number}" in lines[0]
        failed += len(outcome.failures)
    assert state.tally("codes").failed == failed == 20
    assert sum(f["count"] for f in state.listed) == 20
    places = sorted(state.failures.iterdir())
    kind, given = stored_input(places[0])
    assert kind == "codes"
    assert given["number"] == 4
    assert given["content"] == b"abc"
    np.testing.assert_array_equal(given["X"], np.arange(3))
    assert "| codes | 20 |" in report(state, 1)
    assert "by chance" in report(state, 1)


def test_a_campaign_resumes(state):
    state.tally("codes").next = 4
    state.record("codes", 2, Outcome(tried=5), 1.0)
    state.save([("codes", 3)])
    again = State(state.folder, None)
    assert again.seed == 7
    assert again.tally("codes").tried == 5
    campaign = object.__new__(Campaign)
    campaign.state, campaign.kinds, campaign.workers = again, [kind_of("codes")], []
    campaign.used = {"codes": 0.0}
    assert campaign.next_case() == ("codes", 3)  # was under way
    assert campaign.next_case() == ("codes", 4)
    with pytest.raises(SystemExit, match="seed 7, not 8"):
        State(state.folder, 8)


def test_the_command(tmp_path):
    command = [sys.executable, "tests/campaign.py", "--minutes", "0.05", "--only", "gradients", "--workers", "1"]
    command += ["--state", str(tmp_path / "state"), "--report", str(tmp_path / "report.md")]
    root = Path(__file__).parents[1]
    run = subprocess.run(command, cwd=root, capture_output=True, text=True)
    tally = json.loads((tmp_path / "state" / "state.json").read_text())["kinds"]["gradients"]
    assert run.returncode == (1 if tally["failed"] else 0), run.stderr
    assert tally["tried"] > 0
    assert "| gradients |" in (tmp_path / "report.md").read_text()


def test_every_kind_has_a_name_and_a_share():
    kinds = [kind_of(name) for name in KINDS]
    assert [kind.name for kind in kinds] == list(KINDS)
    assert all(kind.share > 0 and kind.limit > 0 for kind in kinds)
