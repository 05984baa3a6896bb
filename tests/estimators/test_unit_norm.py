import numpy as np
import pytest
import scipy.sparse as sp

import taskdict as td
from helpers import DTYPES


@pytest.mark.parametrize("dtype", DTYPES)
def test_centred_and_of_norm_one(dtype):
    scale = {np.float32: 1e30, np.float64: 1e300}[dtype]
    X = np.random.default_rng(0).standard_normal((20, 7)).astype(dtype)
    reference = td.UnitNorm().fit_transform(X)
    assert reference.dtype == dtype
    np.testing.assert_allclose(reference.mean(axis=1), 0, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(reference, axis=1), 1, rtol=1e-6)
    for factor in (dtype(scale), dtype(1 / scale)):
        np.testing.assert_allclose(td.UnitNorm().transform(factor * X), reference, atol=1e-6)
    shifted = td.UnitNorm().transform(np.full((2, 7), dtype(0.1)))
    assert not shifted.any()  # rounding is not blown up


def test_sparse_signals():
    X = sp.random_array((30, 12), density=0.3, rng=np.random.default_rng(0), format="csr")
    unit = td.UnitNorm(center=False).fit_transform(X)
    np.testing.assert_allclose(unit.toarray(), td.UnitNorm(center=False).fit_transform(X.toarray()))
    with pytest.raises(ValueError, match="sparse signals cannot be centred"):
        td.UnitNorm().fit(X)


def test_preprocess_of_a_stream():
    signals = td.stream(np.arange(12.0).reshape(3, 4) ** 2, preprocess=td.UnitNorm().transform)
    np.testing.assert_allclose(np.linalg.norm(signals.take(3), axis=1), 1)
