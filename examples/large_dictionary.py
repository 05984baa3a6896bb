"""Learn a dictionary of thousands of atoms from 16 × 16 colour patches of photographs, in memory of its own order.

    python examples/large_dictionary.py [n_atoms] [n_batches]

Needs scikit-image, for the photographs, and Pillow. The 16,384 atoms of the default have 768 features each. Statistics
of all pairs of them would take 1 GB; the last signals are kept instead.
"""

import resource
import sys
import time

import numpy as np
from skimage import data
from sklearn.datasets import load_sample_images

import taskdict as td

SIDE = 16  # of a patch, in pixels
LAMBDA1 = 0.2
BATCH = 2048


def patches_of(image: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return random colour patches, each channel centred, of norm one, except those that are nearly flat."""
    windows = np.lib.stride_tricks.sliding_window_view(image, (SIDE, SIDE), axis=(0, 1))
    rows, columns = rng.integers(0, windows.shape[0], 2 * n), rng.integers(0, windows.shape[1], 2 * n)
    patches = windows[rows, columns].astype(np.float32) / 255
    patches = (patches - patches.mean(axis=(2, 3), keepdims=True)).reshape(-1, 3 * SIDE * SIDE)
    norms = np.linalg.norm(patches, axis=1, keepdims=True)
    return (patches / norms)[norms[:, 0] > 0.05 * SIDE][:n]


def report(progress: td.Progress) -> None:
    """Show how far learning has come."""
    if progress.n_iter % 10 == 0 or progress.done:
        print(
            f"{progress.n_iter:4} batches, {progress.n_signals:9,} patches, {time.perf_counter() - start:5.0f} s: "
            f"objective {progress.objective:.4f}, {progress.nonzeros:.1f} nonzeros",
            flush=True,
        )


n_atoms = int(sys.argv[1]) if len(sys.argv) > 1 else 16_384
n_batches = int(sys.argv[2]) if len(sys.argv) > 2 else 40

rng = np.random.default_rng(0)
names = ("astronaut", "chelsea", "coffee", "hubble_deep_field", "retina", "rocket", "immunohistochemistry")
images = [*load_sample_images().images, *(getattr(data, name)() for name in names)]
n_signals = max(2 * n_atoms, 4 * BATCH)
X = np.concatenate([patches_of(image, n_signals // len(images) + 300, rng) for image in images])
X = X[rng.permutation(len(X))]
held_out, X = X[:1000], X[1000:]
print(f"{len(X):,} patches of {X.shape[1]} numbers from {len(images)} photographs, {n_atoms:,} atoms")

model = td.DictionaryLearning(
    n_atoms, lambda1=LAMBDA1, batch_size=BATCH, max_iter=n_batches, tol=0, random_state=0, callbacks=report
)
start = time.perf_counter()
model.fit(X)
seconds = time.perf_counter() - start

codes = model.transform(X)
begun = td.sparse_encode(held_out, X[:n_atoms], lambda1=LAMBDA1)
objective = (0.5 * np.square(held_out - begun @ X[:n_atoms]).sum() + LAMBDA1 * np.abs(begun.data).sum()) / len(held_out)
print(f"objective on {len(held_out):,} other patches: {-model.score(held_out):.4f}, with patches as atoms {objective:.4f}")
print(f"nonzeros of a code: {model.transform(held_out).nnz / len(held_out):.1f}")
print(f"atoms that no patch uses: {n_atoms - len(np.unique(codes.indices)):,}, replaced on the way: "
      f"{sum(model.history_['replaced']):,}")
print(f"{seconds:.0f} s; peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MB, of which the "
      f"dictionary {model.components_.nbytes / 2**20:,.0f} MB")
