"""The work of the benchmarks: real signals where the data folder has them, synthetic stand-ins else."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import taskdict as td


@dataclass
class Workload:
    """Signals, a dictionary, penalties, and where they come from."""

    name: str
    X: np.ndarray
    D: np.ndarray
    lambda1: float
    lambda2: float
    source: str

    def digest(self) -> str:
        """Identify the numbers that were encoded."""
        return digest(self.X, self.D)


def digest(*arrays: np.ndarray) -> str:
    """Identify the numbers that were worked on."""
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()[:16]


def unit_norm(X: np.ndarray) -> np.ndarray:
    """Return the rows that are not constant, centred, with norm one."""
    X = X - X.mean(axis=1, keepdims=True)
    norm = np.linalg.norm(X, axis=1, keepdims=True)
    return X[norm[:, 0] > 1e-6] / norm[norm[:, 0] > 1e-6]


def learn(X: np.ndarray, p: int, lambda1: float, lambda2: float = 0.0) -> np.ndarray:
    """Return a learned dictionary to encode on."""
    model = td.DictionaryLearning(p, lambda1=lambda1, lambda2=lambda2, max_iter=100, tol=0, random_state=0)
    return model.fit(X).components_


def smooth_noise(n: int, side: int, rng: np.random.Generator) -> np.ndarray:
    """Return patches with the correlations of images, for machines without data."""
    grid = np.arange(side)
    along = 0.9 ** np.abs(np.subtract.outer(grid, grid))
    factor = np.linalg.cholesky(np.kron(along, along))
    return rng.standard_normal((n, side * side)) @ factor.T


def digits(data: Path | None, n: int) -> tuple[np.ndarray, str]:
    """Return MNIST training digits, centred, unit norm."""
    if data is not None and (data / "mnist").is_dir():
        pixels = td.datasets.load_mnist(data, download=False).images.reshape(-1, 784)
        return unit_norm(pixels[:n].astype(np.float64)), "MNIST"
    rng = np.random.default_rng(1)
    patches = smooth_noise(n, 28, rng)
    return unit_norm(np.where(patches > 0.5, patches, 0.0)), "synthetic"


def patches(data: Path | None, n: int, halftone: bool, images: slice = slice(None)) -> tuple[np.ndarray, str]:
    """Return random 10 × 10 patches of the Kodak images, or of their Floyd–Steinberg halftones, uncentred."""
    rng = np.random.default_rng(2)
    if data is None or not (data / "kodak").is_dir():
        synthetic = smooth_noise(n, 10, rng)
        return (synthetic > 0).astype(np.float64) if halftone else synthetic, "synthetic"
    from PIL import Image

    found = []
    paths = sorted((data / "kodak").glob("*.png"))[images]
    for path in paths:
        with Image.open(path) as image:
            pixels = np.asarray(image.convert("1") if halftone else image, dtype=np.float64)  # "1" diffuses errors
        windows = np.lib.stride_tricks.sliding_window_view(pixels if halftone else pixels / 255, (10, 10))
        count = -(-n // len(paths))
        found.append(windows[rng.integers(0, windows.shape[0], count), rng.integers(0, windows.shape[1], count)])
    together = np.concatenate(found).reshape(-1, 100)
    return together[rng.permutation(len(together))], "Kodak"


def workloads(data: Path | None, share: float = 1.0) -> list[Workload]:
    """Return the six rows of the table; `share` below one takes fewer signals."""
    rng = np.random.default_rng(0)
    few, many = int(20_000 * share), int(100_000 * share)
    images, digits_source = digits(data, few + 10_000)
    kodak, patch_source = patches(data, many + 5_000, halftone=False)
    kodak = unit_norm(kodak)[:many]
    dots, dots_source = patches(data, many, halftone=True)
    dots = dots - dots.mean(axis=1, keepdims=True)
    gaussian, atoms = rng.standard_normal((many, 100)), rng.standard_normal((200, 100))
    measured = kodak @ rng.standard_normal((100, 20)) / 10
    rows = [
        Workload("digits, p = 300", images[:few], learn(images, 300, 0.075), 0.075, 0.0, digits_source),
        Workload("digits, p = 100", images[:few], learn(images, 100, 0.075), 0.075, 0.0, digits_source),
        Workload("patches", kodak, learn(kodak, 500, 0.15), 0.15, 0.0, patch_source),
        Workload("halftone patches", dots, learn(dots, 500, 0.6), 0.6, 0.0, dots_source),
        Workload(
            "Gaussian",
            gaussian / np.linalg.norm(gaussian, axis=1, keepdims=True),
            atoms / np.linalg.norm(atoms, axis=1, keepdims=True),
            0.15,
            0.0,
            "synthetic",
        ),
        Workload("few measurements", measured, learn(measured, 400, 0.01, 0.001), 0.01, 0.001, patch_source),
    ]
    return [Workload(w.name, np.ascontiguousarray(w.X), w.D, w.lambda1, w.lambda2, w.source) for w in rows]
