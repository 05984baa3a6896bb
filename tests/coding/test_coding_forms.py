"""Signals in every form: layouts, sparse arrays, other types, few or many of them."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import taskdict as td
from helpers import DTYPES, assert_exact, random_problem


@pytest.mark.parametrize("dtype", DTYPES)
def test_layouts(dtype, tmp_path):
    X, D = random_problem(101, 12, 20, dtype=dtype)
    expected = td.sparse_encode(X, D, lambda1=0.1)
    wide = np.zeros((202, 36), dtype)
    wide[::2, ::3] = X
    np.save(tmp_path / "X.npy", X)
    read_only = X.copy()
    read_only.flags.writeable = False
    reversed_rows = X[::-1].copy()[::-1]
    unaligned = np.frombuffer(b"\0" + X.tobytes(), dtype=np.uint8)[1:].view(dtype).reshape(X.shape)
    layouts = {
        "fortran": np.asfortranarray(X),
        "strided": wide[::2, ::3],
        "memory map": np.load(tmp_path / "X.npy", mmap_mode="r"),
        "read-only": read_only,
        "negative strides": reversed_rows,
        "unaligned": unaligned,
        "byte-swapped": X.astype(X.dtype.newbyteorder()),
        "lists": X.tolist(),
        "fortran dictionary": X,
    }
    for name, layout in layouts.items():
        dictionary = np.asfortranarray(D) if name == "fortran dictionary" else D
        codes = td.sparse_encode(layout, dictionary, lambda1=0.1)
        assert codes.dtype == (np.float64 if name == "lists" else dtype), name
        if codes.dtype == dtype:
            np.testing.assert_array_equal(codes.toarray(), expected.toarray(), err_msg=name)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("make", [sp.csr_array, sp.csr_matrix])
def test_sparse_signals(dtype, make):
    X, D = random_problem(60, 30, 20, dtype=dtype)
    X[np.random.default_rng(1).random(X.shape) < 0.8] = 0
    codes, report = td.sparse_encode(make(X), D, lambda1=0.05, return_report=True)
    assert_exact(X, D, codes, report, 0.05, 0.0, False)
    np.testing.assert_allclose(
        codes.toarray(), td.sparse_encode(X, D, lambda1=0.05).toarray(), atol=1e-5 if dtype == np.float32 else 1e-12
    )


def test_sparse_signals_may_be_unsorted_with_duplicates():
    data, indices, indptr = np.array([1.0, 2.0, 3.0]), np.array([2, 0, 2]), np.array([0, 3])
    X = sp.csr_array((data, indices, indptr), shape=(1, 3))
    np.testing.assert_allclose(td.sparse_encode(X, np.eye(3), lambda1=1.0).toarray(), [[1.0, 0.0, 3.0]], atol=1e-15)
    assert X.nnz == 3  # the input is as it was
    many = sp.csr_array((np.full(10**6, 0.7), np.zeros(10**6, int), np.array([0, 10**6])), shape=(1, 2))
    np.testing.assert_allclose(td.sparse_encode(many, np.eye(2), lambda1=0.999 * 0.7e6).toarray(), [[700.0, 0.0]])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, bool, np.float16])
def test_other_types_become_float64(dtype):
    X = np.random.default_rng(0).integers(0, 2, (20, 9)).astype(dtype)
    _, D = random_problem(1, 9, 12)
    codes = td.sparse_encode(X, D, lambda1=0.1)
    assert codes.dtype == np.float64
    np.testing.assert_array_equal(codes.toarray(), td.sparse_encode(X.astype(np.float64), D, lambda1=0.1).toarray())
    sparse = td.sparse_encode(sp.csr_array(X), D, lambda1=0.1) if dtype != np.float16 else codes
    np.testing.assert_allclose(sparse.toarray(), codes.toarray(), atol=1e-12)


def test_conversion_in_blocks(monkeypatch):
    X = np.random.default_rng(0).integers(0, 5, (100, 9))
    _, D = random_problem(1, 9, 12)
    expected = td.sparse_encode(X, D, lambda1=0.1).toarray()
    monkeypatch.setattr("taskdict._coding.reading.CHUNK_BYTES", 7 * 9 * 8)
    np.testing.assert_array_equal(td.sparse_encode(X, D, lambda1=0.1).toarray(), expected)
    np.testing.assert_allclose(td.sparse_encode(sp.csr_array(X), D, lambda1=0.1).toarray(), expected, atol=1e-12)


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_few_signals(n, make):
    X, D = random_problem(n, 5, 9)
    codes, report = td.sparse_encode(make(X), D, lambda1=0.1, return_report=True)
    assert_exact(X, D, codes, report, 0.1, 0.0, False)


MEMORY_SCRIPT = """
import resource, sys
import numpy as np
import taskdict as td

X = np.load(sys.argv[1], mmap_mode="r")
D = np.random.default_rng(0).standard_normal((200, X.shape[1]))
td.sparse_encode(X[:1000], D, lambda1=4.0)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
codes = td.sparse_encode(X, D, lambda1=4.0)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
output = codes.data.nbytes + codes.indices.nbytes + codes.indptr.nbytes + 13 * X.shape[0]
print((after - before) * 1024 - output - X.nbytes)
"""


def test_memory_beyond_input_and_output_is_small(tmp_path):
    """A dense n × p array would take 1.6 GB, a float64 copy of X 64 MB."""
    X = np.lib.format.open_memmap(tmp_path / "X.npy", mode="w+", dtype=np.uint8, shape=(1_000_000, 8))
    X[:] = np.random.default_rng(0).integers(0, 3, X.shape)
    del X
    run = subprocess.run(
        [sys.executable, "-c", MEMORY_SCRIPT, str(tmp_path / "X.npy")], capture_output=True, text=True, check=True
    )
    assert float(run.stdout) < 60e6
