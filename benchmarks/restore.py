"""What it costs to restore a image, beside the encoding of its patches, and to learn to, beside the products."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from skimage import data

import taskdict as td
from machine import heading, products_time, publish, stamp
from taskdict.images import degrade
from taskdict.images.patches import map_patches
from taskdict.streams.patches import PatchPairs
from workloads import digest

SIDE, ATOMS, BATCH, STEPS = 10, 500, 200, 2000


def training_cost(images: list[np.ndarray], n_threads: int) -> tuple[td.ImageRestorer, dict]:
    """Time the batches of a training, reading of the patches and all, and the products X·Dᵀ and D·Dᵀ after it."""
    times: list[float] = []
    restorer = td.ImageRestorer(SIDE, ATOMS, max_iter=STEPS, random_state=0, n_threads=n_threads)
    restorer.set_params(callbacks=lambda progress: times.append(time.perf_counter()))
    restorer.fit(images, degrade=degrade.floyd_steinberg)
    X, _ = PatchPairs([degrade.floyd_steinberg(p) for p in images], images, SIDE, random_state=0).take_pairs(BATCH)
    step, floor = float(np.median(np.diff(times[STEPS // 2 :]))), products_time(X, restorer.components_, n_threads, 500)
    return restorer, {
        "threads": n_threads,
        "patches_per_second": BATCH / step,
        "step_ms": 1e3 * step,
        "products_ms": 1e3 * floor,
        "ratio": step / floor,
    }


def restoration_cost(restorer: td.ImageRestorer, image: np.ndarray, n_threads: int, repeats: int) -> dict:
    """Restore a image, and encode all its patches, in turns."""
    restorer.set_params(n_threads=n_threads)
    kept: list[np.ndarray] = []

    def keep(patches: np.ndarray) -> np.ndarray:
        kept.append(patches - patches.mean(axis=1, keepdims=True))
        return patches

    map_patches(image[:, :, None], SIDE, keep)
    patches = np.concatenate(kept)
    whole, encoding = [], []
    for _ in range(repeats):
        begin = time.perf_counter()
        restorer.restore(image)
        middle = time.perf_counter()
        codes = td.sparse_encode(patches, restorer.components_, lambda1=restorer.lambda1, n_threads=n_threads)
        whole.append(middle - begin)
        encoding.append(time.perf_counter() - middle)
    return {
        "threads": n_threads,
        "patches": len(patches),
        "nonzeros": codes.nnz / len(patches),
        "seconds": float(np.median(whole)),
        "encoding_seconds": float(np.median(encoding)),
        "ratio": float(np.median(np.divide(whole, encoding))),
    }


def table(result: dict) -> str:
    lines = [f"{heading(result)}; scikit-image's astronaut and coffee to learn from, camera to restore"]
    lines += [
        "",
        f"| learning, {SIDE} × {SIDE}, p = {ATOMS} | patches per second | ms per batch | products, ms | ratio |",
    ]
    lines.append("|---|---|---|---|---|")
    for r in result["training"]:
        numbers = f"{r['patches_per_second']:,.0f} | {r['step_ms']:.2f} | {r['products_ms']:.2f} | {r['ratio']:.1f}"
        lines.append(f"| {r['threads']} thread{'s' if r['threads'] > 1 else ''} | {numbers} |")
    lines += ["", "| restoring 512 × 512, every patch | nonzeros | s | `sparse_encode` alone, s | ratio |"]
    lines.append("|---|---|---|---|---|")
    for r in result["restoration"]:
        numbers = f"{r['nonzeros']:.1f} | {r['seconds']:.2f} | {r['encoding_seconds']:.2f} | {r['ratio']:.2f}"
        lines.append(f"| {r['threads']} thread{'s' if r['threads'] > 1 else ''} | {numbers} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, help="write <output>.md and <output>.json")
    options = parser.parse_args()
    begin = time.monotonic()
    images = [np.rint(image.mean(axis=2)).astype(np.uint8) for image in (data.astronaut(), data.coffee())]
    halftone = degrade.floyd_steinberg(data.camera())
    result: dict = {"training": [], "restoration": []}
    for n_threads in (1, 2):
        restorer, cost = training_cost(images, n_threads)
        result["training"].append(cost)
        result["restoration"].append(restoration_cost(restorer, halftone, n_threads, options.repeats))
        print(result["training"][-1], result["restoration"][-1], flush=True)
    command = f"python benchmarks/restore.py --repeats {options.repeats}"
    result |= {**stamp(begin, command), "data": digest(*images, halftone)}
    publish(result, table(result), options.output)


if __name__ == "__main__":
    main()
