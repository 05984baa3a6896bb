"""Bad input gets an error that names the argument, what it was and what it must be."""

import re

import numpy as np
import pytest
import scipy.sparse as sp

import taskdict as td
from helpers import DTYPES, random_problem, relative_kkt
from taskdict._common.threads import resolve_threads

X, D = random_problem(6, 4, 5)


def bad(array, value, row=2):
    changed = array.copy()
    changed[row, 1] = value
    return changed


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"X": bad(X, np.nan)}, ValueError, "X must be finite, but row 2 contains NaN or infinity"),
        ({"X": bad(X, np.inf)}, ValueError, "X must be finite, but row 2"),
        ({"X": bad(X, -np.inf).astype(np.float32)}, ValueError, "X must be finite, but row 2"),
        ({"X": sp.csr_array(bad(X, np.nan))}, ValueError, "X must be finite, but row 2"),
        ({"X": bad(X, np.nan).astype(np.float16)}, ValueError, "X must be finite, but row 2"),
        (
            {"X": X[0]},
            ValueError,
            "X must have two dimensions (rows are vectors), got shape (4,). A single vector becomes a row with resh",
        ),
        ({"X": X[None]}, ValueError, "X must have two dimensions (rows are vectors), got shape (1, 6, 4)."),
        ({"X": 3.0}, ValueError, "X must have two dimensions"),
        ({"X": X.astype(complex)}, TypeError, "X must hold real numbers, got dtype complex128."),
        ({"X": X.astype(object)}, TypeError, "X must hold real numbers, got dtype object."),
        ({"X": X.astype(str)}, TypeError, "X must hold real numbers, got dtype <U"),
        ({"X": sp.csc_array(X)}, TypeError, "X must be dense or in CSR format, got CSC: call X.tocsr() first."),
        ({"X": X[:, :3]}, ValueError, "X has 3 features per signal, but the atoms of dictionary have 4"),
        ({"dictionary": bad(D, np.nan)}, ValueError, "dictionary must be finite, but atom 2 contains NaN or infinity."),
        ({"dictionary": D[0]}, ValueError, "dictionary must have two dimensions"),
        (
            {"dictionary": D[:0]},
            ValueError,
            "dictionary must have at least one atom and one feature, got shape (0, 4).",
        ),
        (
            {"dictionary": D[:, :0], "X": X[:, :0]},
            ValueError,
            "dictionary must have at least one atom and one feature, got shape (5, 0).",
        ),
        ({"dictionary": D.astype(complex)}, TypeError, "dictionary must hold real numbers, got dtype complex128."),
        ({"dictionary": sp.csr_array(D)}, TypeError, "dictionary must be dense, got a sparse array"),
        (
            {"dictionary": D * 1e300, "X": X.astype(np.float32)},
            ValueError,
            "dictionary must fit the dtype of X, float32, but atom 0 is too large for it.",
        ),
        (
            {"lambda1": -0.1},
            ValueError,
            "lambda1 must be finite and at least 0, since it is the weight of the ℓ1 norm, got -0.1.",
        ),
        (
            {"lambda1": np.nan},
            ValueError,
            "lambda1 must be finite and at least 0, since it is the weight of the ℓ1 norm, got nan.",
        ),
        ({"lambda1": "0.1"}, TypeError, "lambda1 must be a real number, got '0.1'."),
        ({"lambda1": True}, TypeError, "lambda1 must be a real number, got True."),
        (
            {"lambda1": np.array([[0.1]])},
            ValueError,
            "lambda1 must be one number, or one per signal, got shape (1, 1).",
        ),
        (
            {"lambda1": 10**400},
            ValueError,
            "lambda1 must be finite and at least 0, since it is the weight of the ℓ1 norm",
        ),
        ({"lambda1": np.array(True)}, TypeError, "lambda1 must be a real number"),
        ({"lambda1": np.array("a")}, TypeError, "lambda1 must be a real number"),
        ({"X": np.ma.masked_array(X)}, TypeError, "X must not be a masked array"),
        ({"X": np.full((1, 4), np.longdouble("1e400"))}, ValueError, "X must be finite, but row 0"),
        ({"method": np.array(["auto"])}, ValueError, "method must be one of"),
        ({"lambda2": np.inf}, ValueError, "lambda2 must be finite and at least 0, got inf."),
        ({"lambda2": 1j}, TypeError, "lambda2 must be a real number, got 1j."),
        ({"positive": "yes"}, TypeError, "positive must be True or False, got 'yes'."),
        ({"method": "lars"}, ValueError, "method must be one of 'auto', 'active-set', 'homotopy', 'omp', got 'lars'."),
        ({"n_threads": 0}, ValueError, "n_threads must be None or a positive integer, got 0."),
        ({"n_threads": 1.5}, TypeError, "n_threads must be None or a positive integer, got 1.5."),
    ],
)
def test_messages(arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        td.sparse_encode(**{"X": X, "dictionary": D, "lambda1": 0.1, **arguments})


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_one_bad_signal_among_many_is_found(dtype, n_threads):
    many, atoms = random_problem(5000, 4, 5, dtype=dtype)
    many[4321, 3] = np.nan
    with pytest.raises(ValueError, match="row 4321 "):
        td.sparse_encode(many, atoms, lambda1=0.1, n_threads=n_threads)


@pytest.mark.parametrize(
    ("part", "place", "value"), [("indices", 1, 10**8), ("indices", 1, -1), ("indptr", 1, 10**9), ("indptr", 1, -1)]
)
def test_broken_csr(part, place, value):
    broken = sp.csr_array(X)
    getattr(broken, part)[place] = value
    with pytest.raises(ValueError, match="X is not a valid CSR array"):
        td.sparse_encode(broken, D, lambda1=0.1)


def test_absurd_numbers_of_threads():
    many, atoms = random_problem(3000, 4, 5)  # enough for more than one thread
    expected = td.sparse_encode(many, atoms, lambda1=0.1, n_threads=1)
    for n_threads in (1000, 2**30, 2**40):
        codes = td.sparse_encode(many, atoms, lambda1=0.1, n_threads=n_threads)
        for part in ("data", "indices", "indptr"):
            np.testing.assert_array_equal(getattr(codes, part), getattr(expected, part))
    assert resolve_threads(2**40) == resolve_threads(1024) == 1024


def test_bad_rows_are_counted_across_blocks(monkeypatch):
    monkeypatch.setattr("taskdict._coding.reading.CHUNK_BYTES", 100)
    with pytest.raises(ValueError, match="row 5 "):
        td.sparse_encode(bad(X, np.nan, row=5).astype(np.float16), D, lambda1=0.1)


@pytest.mark.parametrize("value", [0.1, np.float32(0.1), np.array(0.1), 0, np.int64(0)])
def test_penalties_may_be_any_real_scalar(value):
    number = float(value)
    codes, expected = (td.sparse_encode(X, D, lambda1=penalty, lambda2=penalty) for penalty in (value, number))
    np.testing.assert_array_equal(codes.toarray(), expected.toarray())
    assert relative_kkt(X, D, codes, number, number).max() < 1e-10


def test_numbers_at_the_ends_of_the_range():
    for scale in (1e-300, 1e300):
        codes, report = td.sparse_encode(X * scale, D, lambda1=0.1 * scale, return_report=True)
        assert report.kkt.max() < 1e-10
        np.testing.assert_allclose(
            codes.toarray() / scale, td.sparse_encode(X, D, lambda1=0.1).toarray(), rtol=1e-10, atol=1e-12
        )


def test_codes_that_overflow_are_reported():
    codes, report = td.sparse_encode(X * 1e200, D * 1e-200, lambda1=0.0, lambda2=0.0, return_report=True)
    assert (report.status == td.Status.INEXACT).all()
    assert np.isinf(report.kkt).all()
    assert codes.shape == (6, 5)
