"""Denoising with a dictionary that is learned from the noisy image itself (after Elad and Aharon, 2006)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskdict._coding.coded_map import CodedMap
from taskdict._common.arrays import Floats
from taskdict._common.pixels import from_unit, grey_dtype, with_channels
from taskdict._common.threads import resolve_threads
from taskdict._common.validation import check_count, check_deviation
from taskdict.estimators import DictionaryLearning
from taskdict.images.cosines import cosine_waves, lowest_products, unit_atoms
from taskdict.images.patches import map_patches
from taskdict.images.progress import Report, silent
from taskdict.streams.patches import PatchPairs

PATCH_SIZE = 8
BATCH_SIZE = 512  # patches
MAX_BATCHES = 200  # to learn from
MAX_PASSES = 20  # over the patches of a small image
LEARNING_PENALTY = 2.0  # λ1 in units of the noise, while the dictionary is learned
SELECTION_PENALTY = 3.5  # λ1 in units of the noise, for the choice of the atoms of a patch


def denoise(
    image: Any,
    sigma: float,
    *,
    patch_size: int = PATCH_SIZE,
    n_components: int = 256,
    stride: int = 1,
    random_state: Any = 0,
    n_threads: int | None = None,
    report: Report = silent,
) -> NDArray[Any]:
    """Remove noise from an image by sparse codes on a dictionary that is learned from the image.

    A patch without its mean is encoded with λ1 = 3.5 sigma. The atoms with a nonzero coefficient are kept, and their
    coefficients are refit by least squares, which the ℓ1 norm does not shrink. Overlapping patches are averaged.

    Parameters
    ----------
    image : array of shape (height, width) or (height, width, channels)
        A noisy image; uint8, uint16, bool, or floats from 0 to 1. Channels are denoised one by one, on one dictionary.
    sigma : float
        Standard deviation of the noise for values from 0 to 1, the same everywhere. It is 25 / 255 for a uint8 image
        whose noise has a deviation of 25.
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
    array of the shape and dtype of the image; uint8 for bool

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
    sigma = check_deviation("sigma", sigma)
    patch_size, stride = check_count("patch_size", patch_size), check_count("stride", stride)
    if patch_size == 1:
        raise ValueError("patch_size must be at least 2: a patch of one pixel is its mean.")
    noisy = with_channels(image)
    if min(noisy.shape[:2]) >= patch_size:
        dictionary = _learn_atoms(noisy, sigma, patch_size, n_components, random_state, n_threads)
    else:
        dictionary = cosines(patch_size, n_components)
    projection = CodedMap(
        dictionary,
        dictionary.T,
        lambda1=SELECTION_PENALTY * sigma,
        refit=True,
        n_threads=resolve_threads(n_threads),
    )

    def denoise_patches(patches: Floats) -> Floats:
        means = patches.mean(axis=1, keepdims=True)
        denoised: Floats = projection(patches - means) + means
        return denoised

    values = map_patches(noisy, patch_size, denoise_patches, stride=stride, one_by_one=True, report=report)
    return from_unit(values.reshape(np.shape(image)), grey_dtype(noisy.dtype))


def _learn_atoms(
    image: NDArray[Any],
    sigma: float,
    patch_size: int,
    n_components: int,
    random_state: Any,
    n_threads: int | None,
) -> Floats:
    """Return a dictionary for the patches of all channels of an image, learned from a start of cosines."""
    channels = [image[:, :, k] for k in range(image.shape[2])]
    patches = PatchPairs(channels, channels, patch_size, random_state=random_state)
    learner = DictionaryLearning(
        n_components,
        lambda1=LEARNING_PENALTY * sigma,
        dictionary_init=cosines(patch_size, n_components),
        batch_size=BATCH_SIZE,
        max_iter=min(MAX_BATCHES, math.ceil(MAX_PASSES * patches.n_signals / BATCH_SIZE)),
        random_state=0,
        n_threads=n_threads,
    )
    learner.fit(patches)
    return np.ascontiguousarray(learner.components_, np.float32)


def cosines(patch_size: int, n_components: int) -> Floats:
    """Return an overcomplete cosine dictionary: products of a vertical and a horizontal cosine, of norm one.

    Each atom has a mean of zero; the constant is left out. Frequencies go from low to high, with as many along each
    side as are needed. With more atoms than pixels the dictionary is overcomplete.
    """
    check_count("n_components", n_components)
    n = max(patch_size, int(np.ceil(np.sqrt(n_components + 1))))
    atoms = lowest_products(cosine_waves(patch_size, n), n_components + 1)[1:]
    return unit_atoms(atoms - atoms.mean(axis=1, keepdims=True))
