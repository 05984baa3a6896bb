"""Arrays that are not aligned to their dtype: the core, where reading them is undefined behaviour, gets a copy."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import taskdict as td
from helpers import DTYPES, random_problem
from taskdict import _core, _native
from taskdict._native import Encoder, aligned


def misaligned(array):
    """Return an equal array that begins one byte after where it should."""
    array = np.ascontiguousarray(array)
    odd = np.frombuffer(b"\0" + array.tobytes(), np.uint8)[1:].view(array.dtype).reshape(array.shape)
    assert odd.size == 0 or not odd.flags.aligned
    return odd


def assert_same_bits(a, b):
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(a, part), getattr(b, part))


def test_what_is_aligned_is_not_copied():
    X = np.ones((4, 5))
    assert aligned(X) is X
    assert aligned(X[:, ::2]).base is X
    odd = misaligned(X)
    assert not np.shares_memory(aligned(odd), odd)
    assert aligned(odd).flags.aligned


@pytest.fixture(params=DTYPES)
def problem(request):
    X, D = random_problem(40, 12, 20, dtype=request.param)
    encoder = Encoder(D, lambda1=0.1, lambda2=0.0, positive=False, n_threads=1, keep_factors=True)
    encoder.encode(X)
    return X, D, encoder, encoder.release()


def outputs_of(X, D, encoder, encoded, form):
    """Return what every function of the native floor makes of arrays in a form, as they are or misaligned."""
    p, m = D.shape
    A, B = np.eye(p, dtype=X.dtype), 2 * D
    g, table, values = encoded.values[::-1].copy(), 3 * D, 2 * encoded.values
    made = Encoder(form(D), lambda1=0.1, lambda2=0.0, positive=False, n_threads=1, keep_factors=True)
    made.encode(form(X))
    yield from made.release()
    csr = sp.csr_array(X)
    sparse = Encoder(form(D), lambda1=0.1, lambda2=0.0, positive=False, n_threads=1, sparse=True)
    sparse.encode_sparse(form(csr.data), form(csr.indptr.astype(np.int64)), form(csr.indices))
    yield from sparse.release()
    yield encoder.objectives(encoded, form(X))
    yield encoder.solve_adjoint(encoded, form(g))
    yield from encoder.gradient(encoded, form(g), form(D), form(X), 0.5)
    after = np.empty_like(D)
    _native.sum_outer(encoded, form(values), form(X), 0.5, form(B), after, 1)
    yield after
    after = np.empty_like(A)
    _native.sum_outer_sparse(encoded, 0.5, form(A), after, 1)
    yield after
    after = np.empty_like(X)
    _native.decode(encoded, form(values), form(D), 0.5, form(X), after, 1)
    yield after
    yield _native.correlate_supports(encoded, form(table), form(X), 1)
    atoms = D.copy()
    _native.update_atoms(atoms, form(A), form(B), False, 1)
    yield atoms
    pictures = X.astype(np.float32).reshape(10, 4, m)
    knots = np.ones((10, 2, 5, 5), np.float32)
    sides = [np.linspace(0, 1, side * 5, dtype=np.float32).reshape(side, 5) for side in (4, m)]
    offsets = np.ones((10, 2), np.int64)
    yield _native.bend(form(pictures), form(offsets), form(knots), form(sides[0]), form(sides[1]), 0.0)


def test_every_door_of_the_native_floor(problem):
    expected = list(outputs_of(*problem, np.ascontiguousarray))
    found = list(outputs_of(*problem, misaligned))
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_core_refuses_what_is_not_aligned(problem):
    """A function that forgets to align is noticed, as are outputs, of which a copy would be of no use."""
    X, D, encoder, encoded = problem
    codes = (_core.CodesFloat32 if X.dtype == np.float32 else _core.CodesFloat64)(False)
    odd = np.frombuffer(bytearray(D.nbytes + 1), np.uint8)[1:].view(D.dtype).reshape(D.shape)
    assert odd.flags.writeable
    calls = [
        lambda: encoder._encoder.encode(misaligned(X), codes, 1),
        lambda: encoder._encoder.objectives(encoded.indptr, misaligned(encoded.indices), encoded.values, X, 1),
        lambda: encoder._encoder.objectives(misaligned(encoded.indptr), encoded.indices, encoded.values, X, 1),
        lambda: _native.shorten_rows(odd, False),
        lambda: _native.update_atoms(odd, np.eye(len(D), dtype=D.dtype), D, False, 1),
        lambda: _native.diffuse_errors(odd, [(0, 1, 1.0)]),
    ]
    for call in calls:
        with pytest.raises(TypeError, match="incompatible function arguments"):
            call()


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_of_the_user(dtype, tmp_path):
    X, D = random_problem(300, 12, 20, dtype=dtype)
    expected = td.sparse_encode(X, D, lambda1=0.1)
    assert_same_bits(td.sparse_encode(misaligned(X), misaligned(D), lambda1=0.1), expected)
    (tmp_path / "X").write_bytes(b"\0" + X.tobytes())
    mapped = np.memmap(tmp_path / "X", dtype, mode="r", offset=1, shape=X.shape)
    assert_same_bits(td.sparse_encode(mapped, D, lambda1=0.1), expected)
    records = np.zeros(len(X), np.dtype([("label", "u1"), ("signal", dtype, 12)]))
    records["signal"] = X
    assert_same_bits(td.sparse_encode(records["signal"], D, lambda1=0.1), expected)
    csr = sp.csr_array(X)
    odd = csr.copy()
    odd.data, odd.indices, odd.indptr = misaligned(csr.data), misaligned(csr.indices), misaligned(csr.indptr)
    assert_same_bits(td.sparse_encode(odd, D, lambda1=0.1), td.sparse_encode(csr, D, lambda1=0.1))
    learner = td.DictionaryLearning(20, lambda1=0.1, dictionary_init=D, max_iter=3, random_state=0)
    expected = learner.fit(X).components_
    learner.set_params(dictionary_init=misaligned(D))
    for source in (misaligned(X), mapped, odd, td.stream(mapped, random_state=0)):
        np.testing.assert_array_equal(learner.fit(source).components_, expected)


def test_models_whose_arrays_are_not_aligned():
    """Out-of-band pickles put arrays wherever the buffers are."""
    X, D = random_problem(100, 12, 20)
    model = td.DictionaryLearning(20, lambda1=0.1, dictionary_init=D, max_iter=3, random_state=0).fit(X)
    buffers = []
    pickled = pickle.dumps(model, protocol=5, buffer_callback=buffers.append)
    read = pickle.loads(pickled, buffers=[memoryview(b"\0" + buffer.raw().tobytes())[1:] for buffer in buffers])
    assert not read.components_.flags.aligned
    assert_same_bits(read.transform(X), model.transform(X))
    np.testing.assert_array_equal(read.partial_fit(X).components_, model.partial_fit(X).components_)


def test_images_that_are_not_aligned():
    rng = np.random.default_rng(0)
    images = rng.random((20, 8, 8))
    for form in (misaligned(images), misaligned(images.astype(np.float32))):
        expected = td.streams.ImageStream(form.copy(), shifts=4, bend=0.5, random_state=0).take(30)
        np.testing.assert_array_equal(
            td.streams.ImageStream(form, shifts=4, bend=0.5, random_state=0).take(30), expected
        )
    np.testing.assert_array_equal(
        td.images.degrade.floyd_steinberg(misaligned(images[0])), td.images.degrade.floyd_steinberg(images[0])
    )
    np.testing.assert_array_equal(
        td.images.denoise(misaligned(images[0]), 0.1, patch_size=4, n_components=20),
        td.images.denoise(images[0], 0.1, patch_size=4, n_components=20),
    )
