"""Learn a dictionary of thousands of atoms from 16 × 16 colour patches of photographs, in memory of its own order.

    python examples/large_dictionary.py [n_atoms] [n_batches]

Needs scikit-image, for the photographs, and Pillow. The 16,384 atoms of the default have 768 features each. The sums
over all pairs of atoms would take 1 GB, three times over; the last signals are kept instead.
"""

import resource
import sys
import time
from collections.abc import Iterator

import numpy as np
from skimage import data
from sklearn.datasets import load_sample_images

import taskdict as td

SIDE = 16  # of a patch, in pixels
LAMBDA1 = 0.2
BATCH = 4096
NAMES = ("astronaut", "chelsea", "coffee", "hubble_deep_field", "immunohistochemistry", "retina", "rocket")


def patches_of(image: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return random colour patches, each channel centred, of norm one, except those that are nearly flat."""
    windows = np.lib.stride_tricks.sliding_window_view(image, (SIDE, SIDE), axis=(0, 1))
    rows, columns = rng.integers(0, windows.shape[0], n), rng.integers(0, windows.shape[1], n)
    patches = windows[rows, columns].astype(np.float32) / 255
    patches = (patches - patches.mean(axis=(2, 3), keepdims=True)).reshape(n, -1)
    norms = np.linalg.norm(patches, axis=1, keepdims=True)
    uneven = norms[:, 0] > 0.05 * SIDE
    return patches[uneven] / norms[uneven]


def mixed(parts: list[np.ndarray], n: int, rng: np.random.Generator) -> np.ndarray:
    """Return patches of all images, in random order."""
    patches = np.concatenate([patches_of(part, n // len(parts), rng) for part in parts])
    return patches[rng.permutation(len(patches))]


def without_end(parts: list[np.ndarray], seed: int) -> Iterator[np.ndarray]:
    """Yield blocks of patches: they are made as they are needed."""
    rng = np.random.default_rng(seed)
    while True:
        yield mixed(parts, BATCH, rng)


def objective(X: np.ndarray, atoms: np.ndarray) -> float:
    """Return the objective per patch."""
    codes = td.sparse_encode(X, atoms, lambda1=LAMBDA1)
    return float(0.5 * np.square(X - codes @ atoms).sum() + LAMBDA1 * np.abs(codes.data).sum()) / len(X)


def report(progress: td.Progress) -> None:
    """Show how far learning has come."""
    if progress.n_iter % 5 == 0 or progress.done:
        print(
            f"{progress.n_iter:4} batches, {progress.n_signals:8,} patches, {time.perf_counter() - start:4.0f} s: "
            f"objective {progress.objective:.4f}, {progress.nonzeros:.1f} nonzeros",
            flush=True,
        )


n_atoms = int(sys.argv[1]) if len(sys.argv) > 1 else 16_384
n_batches = int(sys.argv[2]) if len(sys.argv) > 2 else 40

images = [*load_sample_images().images, *(getattr(data, name)() for name in NAMES)]
upper = [image[: int(0.8 * len(image))] for image in images]
lower = [image[int(0.8 * len(image)) :] for image in images]  # nothing is learned from here
held_out = mixed(lower, 4000, np.random.default_rng(1))[:1000]
print(f"{n_atoms:,} atoms of {held_out.shape[1]} numbers, from patches of {len(images)} photographs")

model = td.DictionaryLearning(n_atoms, lambda1=LAMBDA1, batch_size=BATCH, max_iter=n_batches, tol=0, callbacks=report)
start = time.perf_counter()
model.fit(td.stream(without_end(upper, seed=0)))
seconds = time.perf_counter() - start

few = td.stream(without_end(upper, seed=0)).take(n_atoms)
used = np.unique(model.transform(td.stream(without_end(upper, seed=2)).take(n_atoms)).indices)
print(f"objective on {len(held_out):,} patches of other parts: {-model.score(held_out):.4f}", end="; ")
print(f"with as many patches as atoms {objective(held_out, few):.4f}")
print(f"nonzeros of a code: {model.transform(held_out).nnz / len(held_out):.1f}")
print(f"atoms that {n_atoms:,} patches do not use: {n_atoms - len(used):,}", end="; ")
print(f"replaced on the way: {sum(model.history_['replaced']):,}")
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(f"{seconds:.0f} s; peak memory {memory:,.0f} MB, of which the atoms {model.components_.nbytes / 2**20:,.0f} MB")
