import numpy as np
import pytest

from helpers import DTYPES
from taskdict.constraints import Ball, NonNegative, UnitBall


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("positive", [False, True])
def test_projection_is_the_nearest_point(dtype, positive):
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((50, 4)).astype(dtype) * 10.0 ** rng.uniform(-1, 1, (50, 1)).astype(dtype)
    ball = UnitBall(positive)
    projected = ball.project(matrix)
    assert projected.dtype == dtype
    assert (np.linalg.norm(projected, axis=1) <= 1 + 1e-6).all()
    if positive:
        assert (projected >= 0).all()
    np.testing.assert_allclose(ball.project(projected), projected, rtol=1e-6)
    # A projection makes an obtuse angle with every point of the set (that is what characterises it).
    others = ball.project(rng.standard_normal((200, 4)).astype(dtype))
    for x, y in zip(matrix, projected, strict=True):
        assert (((x - y) * (others - y)).sum(axis=1) <= 1e-5 * max(1, np.linalg.norm(x))).all()


def test_projection_keeps_what_is_inside_and_survives_extremes():
    inside = np.array([[0.6, 0.8], [0.0, 0.0], [0.1, -0.2]])
    np.testing.assert_array_equal(UnitBall().project(inside), inside)
    extreme = np.array([[3e300, 4e300], [3e-300, 4e-300]])
    np.testing.assert_allclose(UnitBall().project(extreme), [[0.6, 0.8], [3e-300, 4e-300]])
    assert UnitBall().project(np.zeros((0, 3))).shape == (0, 3)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kept", [Ball(0.7), NonNegative()])
def test_other_sets(dtype, kept):
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((3, 4, 2)).astype(dtype)  # W of a bilinear model
    projected = kept.project(matrix)
    assert projected.dtype == dtype
    np.testing.assert_allclose(kept.project(projected), projected, rtol=1e-6)
    for _ in range(50):
        other = kept.project(rng.standard_normal(matrix.shape).astype(dtype))
        assert ((matrix - projected) * (other - projected)).sum() <= 1e-5
    if isinstance(kept, Ball):
        assert np.linalg.norm(projected) == pytest.approx(0.7, rel=1e-6)
        np.testing.assert_array_equal(kept.project(0.01 * matrix), dtype(0.01) * matrix)
