"""Noise removed with a dictionary that is learned from the noisy picture itself (after Elad and Aharon, 2006)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskdict._native import Encoder, correlate_supports, decode
from taskdict._threads import resolve_threads
from taskdict._validation import check_count, check_positive
from taskdict.estimators import DictionaryLearning
from taskdict.images.patches import PatchPairs, check_channels, map_patches
from taskdict.images.pixels import Floats, check_picture, from_unit
from taskdict.images.progress import Report, silent

PATCH = 8  # side
BATCH = 512  # patches
BATCHES = 200  # to learn from, at most
PASSES = 20  # over the patches of a small picture, at most
LEARN = 2.0  # λ1 in units of the noise, to learn with
SHRINK = 3.5  # and to find the atoms of a patch with


def denoise(
    image: Any,
    sigma: float,
    *,
    patch_size: int = PATCH,
    n_components: int = 256,
    stride: int = 1,
    random_state: Any = 0,
    n_threads: int | None = None,
    report: Report = silent,
) -> NDArray[Any]:
    """Return a picture without the noise, by sparse codes on a dictionary that is learned from the picture.

    A patch without its mean is encoded with λ1 = 3.5 sigma; the atoms with a coefficient that is not zero are kept,
    the coefficients are those of least squares, which the ℓ1 norm does not shrink. Overlapping patches are averaged.

    Parameters
    ----------
    image : array of shape (height, width) or (height, width, channels)
        A noisy picture; uint8, uint16, bool, or floats from 0 to 1. Channels are denoised one by one, on one
        dictionary.
    sigma : float
        Standard deviation of the noise for values from 0 to 1, the same everywhere: 25 / 255 of a uint8 picture whose
        values have a deviation of 25.
    patch_size : int, default=8
        Height and width of a patch, at least 2.
    n_components : int, default=256
        Number of atoms.
    stride : int, default=1
        Pixels between neighbouring patches, at most `patch_size`.
    random_state : int, RandomState or None, default=0
        Seed of the order in which patches are learned from.
    n_threads : int or None, default=None
        Threads to use; None is every core this process may use.
    report : callable
        Called now and then with the number of patches that are done, and of all.

    Returns
    -------
    array of the shape and dtype of the picture; uint8 for bool

    Examples
    --------
    >>> import numpy as np
    >>> import taskdict as td
    >>> clean = np.add.outer(np.arange(60) // 20 % 2, np.arange(70) // 20 % 2) / 2
    >>> noisy = td.images.degrade.gaussian_noise(clean, 0.1, random_state=0)
    >>> denoised = td.images.denoise(noisy, 0.1)
    >>> bool(np.square(denoised - clean).mean() < np.square(noisy - clean).mean() / 4)
    True
    """
    sigma = check_positive("sigma", sigma)
    patch_size, stride = check_count("patch_size", patch_size), check_count("stride", stride)
    if patch_size == 1:
        raise ValueError("patch_size must be at least 2: a patch of one pixel is its mean.")
    image = check_picture(image)
    dtype, shape = np.dtype(np.uint8) if image.dtype == np.bool_ else image.dtype, image.shape
    picture = check_channels(image)
    if min(shape[:2]) >= patch_size:
        dictionary = learned_atoms(picture, sigma, patch_size, n_components, random_state, n_threads)
    else:
        dictionary = cosines(patch_size, n_components)
    restore = patch_denoiser(dictionary, SHRINK * sigma, resolve_threads(n_threads))
    found = map_patches(picture, patch_size, restore, stride=stride, one_by_one=True, report=report)
    return from_unit(found.reshape(shape), dtype)


def learned_atoms(
    picture: NDArray[Any],
    sigma: float,
    patch_size: int,
    n_components: int,
    random_state: Any,
    n_threads: int | None,
) -> Floats:
    """Return a dictionary of patches of the channels of a picture, learned from cosines on."""
    channels = [picture[:, :, k] for k in range(picture.shape[2])]
    patches = PatchPairs(channels, channels, patch_size, random_state=random_state)
    learner = DictionaryLearning(
        n_components,
        lambda1=LEARN * sigma,
        dictionary_init=cosines(patch_size, n_components),
        batch_size=BATCH,
        max_iter=min(BATCHES, math.ceil(PASSES * patches.n_signals / BATCH)),
        random_state=0,
        n_threads=n_threads,
    )
    learner.fit(patches)
    return np.ascontiguousarray(learner.components_, np.float32)


def patch_denoiser(dictionary: Floats, lambda1: float, n_threads: int) -> Callable[[Floats], Floats]:
    """Return a function that projects patches on the atoms of their codes."""
    encoder = Encoder(dictionary, lambda1=lambda1, lambda2=0.0, positive=False, n_threads=n_threads, keep_factors=True)

    def denoised(patches: Floats) -> Floats:
        means = patches.mean(axis=1, keepdims=True)
        signals = patches - means
        encoder.encode(signals)
        encoded = encoder.release()
        products = correlate_supports(encoded, dictionary, signals, n_threads)
        coefficients = encoder.solve_adjoint(encoded, products)
        found = np.empty_like(signals)
        decode(encoded, coefficients, dictionary, 0.0, found, found, n_threads)
        whole: Floats = found + means
        return whole

    return denoised


def cosines(patch_size: int, n_components: int) -> Floats:
    """Return atoms that are products of a cosine down and one to the right, without the constant, of norm one.

    Frequencies are as many along each side as are needed, from slow to fast; more than there are pixels give an
    overcomplete dictionary.
    """
    check_count("n_components", n_components)
    n = max(patch_size, int(np.ceil(np.sqrt(n_components + 1))))
    waves = np.cos(np.pi * np.outer(np.arange(n), np.arange(patch_size) + 0.5) / n)
    atoms = np.einsum("ai,bj->abij", waves, waves).reshape(n * n, -1)
    order = np.argsort(np.add.outer(np.arange(n), np.arange(n)).ravel(), kind="stable")[1 : n_components + 1]
    chosen = atoms[order] - atoms[order].mean(axis=1, keepdims=True)
    return np.ascontiguousarray(chosen / np.linalg.norm(chosen, axis=1, keepdims=True), np.float32)
