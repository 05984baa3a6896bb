"""Encode, then decode."""

import numpy as np
import pytest

import taskdict as td
from helpers import DTYPES, TOLERANCE, random_problem
from taskdict._coding import coded_map
from taskdict._coding.coded_map import CodedMap


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("lambda2", "positive"), [(0.0, False), (0.1, False), (0.0, True)])
def test_it_is_a_linear_map_of_the_codes(dtype, lambda2, positive):
    X, D = random_problem(50, 12, 30, dtype=dtype)
    rng = np.random.default_rng(0)
    W, b = rng.standard_normal((5, 30)).astype(dtype), rng.standard_normal(5).astype(dtype)
    codes = td.sparse_encode(X, D, lambda1=0.1, lambda2=lambda2, positive=positive)
    found = CodedMap(D, W, b, lambda1=0.1, lambda2=lambda2, positive=positive)(X)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, codes @ W.T + b, atol=50 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES)
def test_refit_is_the_projection_on_the_atoms_in_use(dtype):
    X, D = random_problem(40, 12, 30, dtype=dtype)
    found = CodedMap(D, D.T, lambda1=0.3, refit=True)(X)
    codes = td.sparse_encode(X, D, lambda1=0.3)
    for x, code, projection in zip(X, codes.toarray(), found, strict=True):
        atoms = D[code != 0].T
        expected = atoms @ np.linalg.lstsq(atoms, x, rcond=None)[0]
        np.testing.assert_allclose(projection, expected, atol=TOLERANCE[np.dtype(dtype)])


@pytest.mark.parametrize("refit", [False, True])
def test_neither_chunks_nor_threads_change_the_bits(refit, monkeypatch):
    X, D = random_problem(301, 20, 50, dtype=np.float32)
    whole = CodedMap(D, D.T, lambda1=0.1, refit=refit)(X)
    for size, n_threads in ((1, 1), (7, 2), (100, 2)):
        monkeypatch.setattr(coded_map, "SIGNALS_AT_ONCE", size)
        np.testing.assert_array_equal(CodedMap(D, D.T, lambda1=0.1, refit=refit, n_threads=n_threads)(X), whole)


def test_other_dtypes_and_layouts_are_converted():
    X, D = random_problem(30, 8, 12, dtype=np.float32)
    expected = CodedMap(D, D.T, lambda1=0.1)(X)
    np.testing.assert_array_equal(CodedMap(D, D.T, lambda1=0.1)(np.asfortranarray(X.astype(np.float64))), expected)
    assert CodedMap(D, D.T, lambda1=0.1)(X[:0]).shape == (0, 8)
