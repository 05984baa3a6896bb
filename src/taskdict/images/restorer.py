"""Restoration of whole pictures: a nonlinear mapping of damaged to clean patches, learned from examples."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from taskdict import storage
from taskdict._native import Encoder, decode
from taskdict._threads import resolve_threads
from taskdict._validation import check_count, check_penalty, check_positive
from taskdict.constraints import UnitBall
from taskdict.estimators._parameters import read, written
from taskdict.estimators.task_driven import TaskDrivenRegressor
from taskdict.gradients import Coding
from taskdict.images.degrade import resize
from taskdict.images.noise import PATCH as DENOISED
from taskdict.images.noise import denoise as without_noise
from taskdict.images.patches import PatchPairs, check_channels, map_patches
from taskdict.images.pixels import Floats, check_picture, from_unit, to_unit
from taskdict.initialisation import learn_dictionary

TO_START = 20_000  # clean patches that the first dictionary is learned from
START = 0.005  # λ1 of that dictionary, times the side of a patch
TO_WEIGH = 20_000  # patches that show how well each place of a patch is restored
LEAST_WEIGHT = 1e-3  # of the largest

Picture = NDArray[Any]


class ImageRestorer(BaseEstimator):  # type: ignore[misc]
    """Restore pictures that were damaged in a way which need not be known, from examples (paper, Section 5.3).

    A patch x of a damaged picture has the code α, the minimiser of ½‖x − Dα‖² + lambda1 ‖α‖₁ + lambda2/2 ‖α‖²; the
    restored patch is Wα. D and W are learned together from pairs of damaged and clean patches, D from a dictionary of
    clean patches on: they minimise the average of ½‖y − Wα‖² plus nu/2 ‖W‖² (``eq:regression``). A picture is restored
    by the average of all its overlapping patches. Values are from 0 to 1, and the mean of a damaged patch is subtracted
    from both patches of a pair, so λ1 is about values with a mean of zero.

    Parameters
    ----------
    patch_size : int, default=10
        Height and width of a patch.
    n_components : int, default=500
        Number of atoms.
    lambda1 : float, default=0.6
        Weight of the ℓ1 norm of the codes. The paper's value for halftones is the default; it goes with the contrast
        of the damaged patches.
    lambda2 : float, default=0.0
        Weight of the squared ℓ2 norm of the codes.
    nu : float, default=0.0
        Weight of the squared norm of W.
    overlap : "weighted" or "plain", default="weighted"
        How overlapping patches are averaged. The middle of a patch is restored better than its corners: "weighted"
        gives each place of a patch the weight 1 / e², where e is its mean squared error in the end of the training.
        The paper's average is plain.
    upscale : int, default=1
        Damaged pictures are first made larger by this factor, by bicubic interpolation: 2 for super-resolution from
        half as many pixels along each side.
    n_passes : float, default=2.0
        How often all patches are learned from.
    max_iter : int or None, default=None
        Number of batches, in place of `n_passes`.
    batch_size : int, default=200
        Patches per batch.
    learning_rate : "adaptive", "auto" or float, default="adaptive"
        As in :class:`taskdict.TaskDrivenRegressor`.
    checkpoint : path or None, default=None
        A file that the state of the training is written to every 20 seconds. If the training is stopped, even killed,
        the same call goes on from there.
    random_state : int, RandomState or None, default=None
        Seed of all random choices.
    n_threads : int or None, default=None
        Threads to use; None is every core this process may use.
    verbose : int, default=0
        With 1 or more, a line on standard error shows the progress of `fit`.
    callbacks : callable, list of callables or None, default=None
        Called with a :class:`taskdict.Progress` after each batch of `fit`, which ends if one returns True. Its model is
        a :class:`taskdict.TaskDrivenRegressor` of patches.

    Attributes
    ----------
    components_ : array of shape (n_components, patch_size² * channels)
        The dictionary D, atoms as rows.
    coef_ : array of shape (patch_size² * channels, n_components)
        The model W.
    weights_ : array of shape (patch_size, patch_size)
        Weights of the places of a patch, at most one.
    channels_ : int
        Channels of the pictures learned from. A model of one channel restores the channels of a picture one by one.
    n_iter_ : int
        Number of batches learned from.
    history_ : dict
        Objective of each batch, under "objective"; not in files.

    Examples
    --------
    >>> import numpy as np
    >>> import taskdict as td
    >>> clean = np.add.outer(np.sin(np.arange(80) / 9), np.cos(np.arange(90) / 7)) / 4 + 0.5  # smooth
    >>> restorer = td.ImageRestorer(6, 30, lambda1=0.3, max_iter=200, learning_rate="adaptive", random_state=0)
    >>> _ = restorer.fit([clean], degrade=td.images.degrade.floyd_steinberg)
    >>> halftone = td.images.degrade.floyd_steinberg(1 - clean)
    >>> error = np.abs(restorer.restore(halftone) - (1 - clean)).mean()
    >>> bool(error < np.abs(halftone - (1 - clean)).mean() / 10)
    True
    """

    def __init__(
        self,
        patch_size: int = 10,
        n_components: int = 500,
        *,
        lambda1: float = 0.6,
        lambda2: float = 0.0,
        nu: float = 0.0,
        overlap: str = "weighted",
        upscale: int = 1,
        n_passes: float = 2.0,
        max_iter: int | None = None,
        batch_size: int = 200,
        learning_rate: Any = "adaptive",
        checkpoint: Any = None,
        random_state: Any = None,
        n_threads: int | None = None,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        self.patch_size = patch_size
        self.n_components = n_components
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.nu = nu
        self.overlap = overlap
        self.upscale = upscale
        self.n_passes = n_passes
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose
        self.callbacks = callbacks

    def fit(self, images: Sequence[Any], *, degrade: Callable[[Any], Any] | None = None) -> Self:
        """Learn from examples.

        Parameters
        ----------
        images : sequence of pairs of arrays, or sequence of arrays
            Pairs (damaged, clean) of pictures of the same size, or smaller by `upscale`; or, with `degrade`, clean
            pictures. Shape (height, width) or (height, width, channels); uint8, uint16, bool, or floats from 0 to 1.
        degrade : callable or None, default=None
            What damages a picture, such as those of :mod:`taskdict.images.degrade`.

        Returns
        -------
        self : ImageRestorer
        """
        self._check_parameters()
        damaged, clean = self._pairs(images, degrade)
        pairs = PatchPairs(damaged, clean, self.patch_size, random_state=self.random_state)
        max_iter = self.max_iter
        if max_iter is None:
            max_iter = math.ceil(self.n_passes * pairs.n_signals / self.batch_size)
        start = self._first_dictionary(clean)
        regressor = TaskDrivenRegressor(
            self.n_components,
            lambda1=self.lambda1,
            lambda2=self.lambda2,
            nu=self.nu,
            fit_intercept=False,  # what has no contrast keeps its value
            batch_size=self.batch_size,
            max_iter=max_iter,
            learning_rate=self.learning_rate,
            dictionary_init=start,
            checkpoint=self.checkpoint,
            random_state=self.random_state,
            n_threads=self.n_threads,
            verbose=self.verbose,
            callbacks=self.callbacks,
        )
        try:
            regressor.fit(pairs)
        finally:  # an interrupted training leaves what it has learned
            if "_training" in vars(regressor):
                self.components_ = np.ascontiguousarray(regressor.components_, np.float32)
                self.coef_ = np.ascontiguousarray(regressor.coef_, np.float32)
                self.channels_, self.n_iter_, self.history_ = pairs.n_channels, regressor.n_iter_, regressor.history_
                self.weights_ = np.ones((self.patch_size, self.patch_size), np.float32)
        self.weights_ = self._find_weights(pairs)
        return self

    def _first_dictionary(self, clean: list[Picture]) -> Floats | None:
        """Return atoms of clean patches, which do not know what damage adds, such as the pattern of a halftone.

        The codes of damaged patches on them tell more of the clean ones than those on atoms of damaged patches.
        """
        if self.checkpoint is not None and os.path.exists(self.checkpoint):  # a training goes on from there
            return storage.read(self.checkpoint)[0].get("parameter dictionary_init")
        seed = int(self.random_state) if isinstance(self.random_state, numbers.Integral) else 0
        patches = PatchPairs(clean, clean, self.patch_size, random_state=seed)
        signals = patches.take(min(TO_START, patches.n_signals))
        coding, n_threads = Coding(START * self.patch_size), resolve_threads(self.n_threads)
        none = np.zeros((self.n_components, signals.shape[1]), np.float32)
        return learn_dictionary(signals, none, coding, UnitBall(), (), seed, n_threads)

    def _find_weights(self, pairs: PatchPairs) -> Floats:
        """Return 1 / e² of each place of a patch, as a share of the largest."""
        X, y = pairs.take_pairs(min(TO_WEIGH, pairs.n_signals))
        errors = np.square(self._patch_restorer(self.lambda1)(X) - y)
        by_place = errors.reshape(len(X), self.patch_size, self.patch_size, -1).mean(axis=(0, 3), dtype=np.float64)
        least = max(by_place.min(), np.finfo(np.float32).tiny)
        weights: Floats = np.maximum(np.square(least / np.maximum(by_place, least)), LEAST_WEIGHT).astype(np.float32)
        return weights

    def _pairs(self, images: Any, degrade: Any) -> tuple[list[Picture], list[Picture]]:
        """Return damaged and clean pictures."""
        if isinstance(images, np.ndarray) and (images.ndim == 2 or (images.ndim == 3 and images.shape[2] <= 4)):
            raise ValueError("images must be a list of pictures, got one picture: put it into a list.")
        if degrade is None:
            try:
                pairs = [(damaged, clean) for damaged, clean in images]
            except (TypeError, ValueError):
                raise ValueError("images must be pairs (damaged, clean), or clean pictures with degrade=...") from None
        elif callable(degrade):
            pairs = [(degrade(untouched(image)), image) for image in images]
        else:
            raise TypeError(f"degrade must be a function of a picture or None, got {degrade!r}.")
        damaged = []
        for k, (bad, good) in enumerate(pairs):
            height, width = check_picture(good, f"clean picture {k}").shape[:2]
            bad = check_picture(bad, f"damaged picture {k}")
            if self.upscale > 1:
                if bad.shape[:2] != (height // self.upscale, width // self.upscale):
                    raise ValueError(
                        f"damaged picture {k} is {bad.shape[0]} by {bad.shape[1]}, but must be smaller than the clean "
                        f"one ({height} by {width}) by upscale={self.upscale}."
                    )
                bad = resize(to_unit(bad), height, width)
            elif bad.shape != np.shape(good):
                raise ValueError(
                    f"damaged picture {k} has shape {bad.shape}, but the clean one has {np.shape(good)}: they must be "
                    "of the same size, or damaged ones smaller by `upscale`."
                )
            damaged.append(bad)
        return damaged, [good for _, good in pairs]

    def _check_parameters(self) -> None:
        for name in ("patch_size", "n_components", "batch_size", "upscale"):
            check_count(name, getattr(self, name))
        for name in ("lambda1", "lambda2", "nu"):
            check_penalty(name, getattr(self, name))
        if self.max_iter is not None:
            check_count("max_iter", self.max_iter)
        else:
            check_positive("n_passes", self.n_passes)
        if self.overlap not in ("weighted", "plain"):
            raise ValueError(f"overlap must be 'weighted' or 'plain', got {self.overlap!r}.")

    def restore(
        self,
        image: Any,
        *,
        lambda1: float | None = None,
        stride: int = 1,
        denoise: float | None = None,
        report: Callable[[int, int], None] = lambda done, total: None,
    ) -> Picture:
        """Return a picture restored.

        Parameters
        ----------
        image : array of shape (height, width) or (height, width, channels)
            A damaged picture; uint8, uint16, bool, or floats from 0 to 1. May be smaller than a patch.
        lambda1 : float or None, default=None
            The weight of the ℓ1 norm to use, None for that of the model. Since patches are averaged, a little less
            may be better: the paper learns with 0.6 and restores with 0.55.
        stride : int, default=1
            Pixels between neighbouring patches, at most `patch_size`: 2 takes a quarter of the patches.
        denoise : float or None, default=None
            If given, artefacts that are left are removed as noise of this standard deviation, for values from 0 to 1,
            see :func:`taskdict.images.denoise`.
        report : callable
            Called now and then with the number of patches that are done, and of all; with `denoise`, then with those
            that are denoised.

        Returns
        -------
        array of the shape and dtype of the picture; uint8 for bool; larger by `upscale`
        """
        check_is_fitted(self)
        lambda1 = self.lambda1 if lambda1 is None else check_penalty("lambda1", lambda1)
        stride = check_count("stride", stride)
        denoise = None if denoise is None else check_positive("denoise", denoise)
        image = check_picture(image)
        dtype, grey = np.dtype(np.uint8) if image.dtype == np.bool_ else image.dtype, image.ndim == 2
        if self.upscale > 1:
            height, width = image.shape[:2]
            image = resize(to_unit(image), self.upscale * height, self.upscale * width)
        picture = check_channels(image)
        if self.channels_ not in (1, picture.shape[2]):
            raise ValueError(
                f"image has {picture.shape[2]} channels, but the model has learned from pictures with {self.channels_}."
            )
        self._check_parameters()
        weights = self.weights_ if self.overlap == "weighted" else None
        restore_patches = self._patch_restorer(lambda1)
        values = map_patches(
            picture,
            len(self.weights_),
            restore_patches,
            stride=stride,
            weights=weights,
            one_by_one=self.channels_ == 1,
            report=report,
        )
        if denoise is not None:
            values = without_noise(
                np.clip(values, 0, 1), denoise, stride=min(stride, DENOISED), n_threads=self.n_threads, report=report
            )
        return from_unit(values[:, :, 0] if grey else values, dtype)

    def _patch_restorer(self, lambda1: float) -> Callable[[Floats], Floats]:
        """Return a function that restores patches."""
        n_threads, table = resolve_threads(self.n_threads), np.ascontiguousarray(self.coef_.T)
        encoder = Encoder(self.components_, lambda1=lambda1, lambda2=self.lambda2, positive=False, n_threads=n_threads)

        def restored(patches: Floats) -> Floats:
            shape = (len(patches), -1, self.channels_)
            means = patches.reshape(shape).mean(axis=1, keepdims=True)
            encoder.encode(np.ascontiguousarray((patches.reshape(shape) - means).reshape(patches.shape)))
            encoded = encoder.release()
            found = np.empty((len(patches), table.shape[1]), np.float32)
            decode(encoded, encoded.values, table, 0.0, found, found, n_threads)
            whole: Floats = (found.reshape(shape) + means).reshape(patches.shape)
            return whole

        return restored

    def __sklearn_is_fitted__(self) -> bool:
        """Tell scikit-learn whether there is a model."""
        return hasattr(self, "components_")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, for :func:`taskdict.load`; without `checkpoint`, `n_threads`, `verbose`.

        Parameters
        ----------
        path : str or path
            Name of the file.
        """
        check_is_fitted(self)
        self._check_parameters()
        own = written(self, patch_size=len(self.weights_), n_components=len(self.components_))
        storage.write(
            path,
            type(self).__name__,
            {"D": self.components_, "W": self.coef_, "weights": self.weights_},
            {"parameters": own, "channels": self.channels_, "n_iter": self.n_iter_},
        )

    @classmethod
    def _from_file(cls, arrays: storage.Arrays, document: dict[str, Any]) -> Self:
        """Make the model that `save` has written; raises ValueError, TypeError or KeyError for anything else."""
        model = read(cls, document["parameters"])
        D, W, weights = (arrays[name] for name in ("D", "W", "weights"))
        channels, n_iter = int(document["channels"]), int(document["n_iter"])
        width = model.patch_size**2 * channels
        shapes = D.shape == (model.n_components, width) and W.shape == D.shape[::-1]
        if not shapes or weights.shape != (model.patch_size, model.patch_size):
            raise ValueError("its arrays do not fit each other")
        if not all(array.dtype == np.float32 and np.isfinite(array).all() for array in (D, W, weights)):
            raise ValueError("its arrays are not finite numbers of float32")
        if not (weights > 0).all() or n_iter < 0:
            raise ValueError("its weights and counts must be positive")
        model.components_, model.coef_, model.weights_ = D, W, weights
        model.channels_, model.n_iter_, model.history_ = channels, n_iter, {"objective": []}
        return model


def untouched(image: Any) -> Picture:
    """Return a view of a picture that a function which damages it cannot write to."""
    view = check_picture(image).view()
    view.flags.writeable = False
    return view
