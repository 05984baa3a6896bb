"""What native/bindings.cpp exports."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

class _Codes:
    def __init__(self, keep_factors: bool) -> None: ...
    def release(self) -> tuple[NDArray[Any], ...]: ...

class _Encoder:
    def __init__(
        self,
        atoms: NDArray[Any],
        lambda1: float,
        lambda2: float,
        positive: bool,
        homotopy: bool,
        sparse: bool,
        n_threads: int,
    ) -> None: ...
    def encode(self, X: NDArray[Any], codes: _Codes, n_threads: int) -> None: ...
    def encode_sparse(
        self,
        values: NDArray[Any],
        indptr: NDArray[np.int64],
        indices: NDArray[np.int32],
        codes: _Codes,
        n_threads: int,
    ) -> None: ...
    def duplicates(self, cosine: float) -> NDArray[np.int32]: ...
    def objectives(
        self,
        indptr: NDArray[np.int64],
        indices: NDArray[np.int32],
        values: NDArray[Any],
        X: NDArray[Any],
        n_threads: int,
    ) -> NDArray[np.float64]: ...
    def solve_adjoint(
        self,
        indptr: NDArray[np.int64],
        indices: NDArray[np.int32],
        factors: NDArray[Any],
        g: NDArray[Any],
        n_threads: int,
    ) -> NDArray[Any]: ...
    def gradient(
        self,
        indptr: NDArray[np.int64],
        indices: NDArray[np.int32],
        values: NDArray[Any],
        factors: NDArray[Any],
        g: NDArray[Any],
        atoms: NDArray[Any],
        x: NDArray[Any],
        reconstruction: float,
        both: NDArray[Any],
        in_atoms: NDArray[Any],
        n_threads: int,
    ) -> None: ...

class CodesFloat32(_Codes): ...
class CodesFloat64(_Codes): ...
class EncoderFloat32(_Encoder): ...
class EncoderFloat64(_Encoder): ...

def sum_outer(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    values: NDArray[Any],
    x: NDArray[Any],
    fade: float,
    before: NDArray[Any],
    after: NDArray[Any],
    n_threads: int,
) -> None: ...
def sum_outer_sparse(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    left: NDArray[Any],
    right: NDArray[Any],
    fade: float,
    before: NDArray[Any],
    after: NDArray[Any],
    n_threads: int,
) -> None: ...
def decode(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    values: NDArray[Any],
    atoms: NDArray[Any],
    fade: float,
    before: NDArray[Any],
    after: NDArray[Any],
    n_threads: int,
) -> None: ...
def correlate_supports(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    atoms: NDArray[Any],
    x: NDArray[Any],
    n_threads: int,
) -> NDArray[Any]: ...
def shorten_rows(rows: NDArray[Any], positive: bool) -> None: ...
def update_atoms(atoms: NDArray[Any], A: NDArray[Any], B: NDArray[Any], positive: bool, n_threads: int) -> None: ...
def diffuse_errors(
    pixels: NDArray[Any], down: NDArray[np.int64], right: NDArray[np.int64], share: NDArray[np.float64]
) -> None: ...
def bend(
    pictures: NDArray[np.float32],
    offsets: NDArray[np.int64],
    values: NDArray[np.float32],
    down: NDArray[np.float32],
    right: NDArray[np.float32],
    background: float,
    out: NDArray[np.float32],
) -> None: ...
def instruction_set() -> str: ...
