"""Encode scikit-learn's digits on a dictionary of digits, and print one code."""

import numpy as np
from sklearn.datasets import load_digits

import taskdict as td

X = load_digits().data
X = X - X.mean(axis=1, keepdims=True)
X /= np.linalg.norm(X, axis=1, keepdims=True)
atoms, signals = X[::10], np.delete(X, np.s_[::10], axis=0)

codes, report = td.sparse_encode(signals, atoms, lambda1=0.15, return_report=True)

print(f"{codes.shape[0]} digits on {codes.shape[1]} atoms: {codes.nnz / codes.shape[0]:.1f} atoms per digit")
print(report)
error = np.linalg.norm(signals - codes @ atoms, axis=1)
print(f"relative error of the reconstruction: {error.mean():.3f}")


def draw(image: np.ndarray) -> list[str]:
    """Return an 8 × 8 image as lines of text."""
    levels = np.clip((image - image.min()) / np.ptp(image) * 4.99, 0, 4).astype(int).reshape(8, 8)
    return ["".join(" ░▒▓█"[v] * 2 for v in row) for row in levels]


digit = 3
images = {"digit": signals[digit], "its reconstruction": codes[[digit]].toarray()[0] @ atoms}
strongest = codes.indices[codes.indptr[digit] : codes.indptr[digit + 1]]
weights = codes.data[codes.indptr[digit] : codes.indptr[digit + 1]]
for j in np.argsort(-np.abs(weights))[:2]:
    images[f"{weights[j]:+.2f} × atom {strongest[j]}"] = atoms[strongest[j]]
print("   ".join(f"{name:18}" for name in images))
for lines in zip(*map(draw, images.values()), strict=True):
    print("   ".join(f"{line:18}" for line in lines))
