"""Restoration of whole images, as an estimator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self

from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from taskdict._common.arrays import Floats
from taskdict._common.exclusive import exclusive
from taskdict._common.threads import resolve_threads
from taskdict._common.validation import check_count, check_deviation, check_penalty
from taskdict._files import storage
from taskdict._files.persistent import PersistentEstimator, parameters_from_file, parameters_to_file
from taskdict._files.registry import register
from taskdict.images.progress import Report, silent
from taskdict.images.restorer.learned import LearnedRestorer
from taskdict.images.restorer.learning import check_checkpoints, learn_restorer
from taskdict.images.restorer.pairs import damaged_and_clean
from taskdict.images.restorer.refinement import Refinement
from taskdict.images.restorer.settings import RestorerSettings, check_overlap


@register
class ImageRestorer(PersistentEstimator):
    """Restoration of damaged images, learned from pairs of damaged and clean images (paper, Section 5.3).

    A patch x of a damaged image has the code α, the minimiser of ½‖x − Dα‖² + lambda1 ‖α‖₁ + lambda2/2 ‖α‖². The
    restored patch is Wα. D and W are learned together from pairs of damaged and clean patches: they minimise the
    average of ½‖y − Wα‖² plus nu/2 ‖W‖² (``eq:regression``). D starts from a dictionary of clean patches. A restored
    image is the average of its overlapping restored patches. The degradation need not be known.

    Values are from 0 to 1. The mean of a damaged patch is subtracted from both patches of a pair, so `lambda1` relates
    to values with a mean of zero.

    Parameters
    ----------
    patch_size : int, default=10
        Height and width of a patch.
    n_components : int or None, default=500
        Number of atoms. None is five for each pixel of a patch.
    lambda1 : float or None, default=0.6
        Weight of the ℓ1 norm of the codes. It scales with the contrast of the damaged patches. The default is the
        paper's value for halftones. None is 0.06 times `patch_size`.
    lambda2 : float, default=0.0
        Weight of the squared ℓ2 norm of the codes.
    nu : float, default=0.0
        Weight of the squared norm of W.
    overlap : {"weighted", "plain"}, default="weighted"
        How overlapping patches are averaged. The middle of a patch is restored better than its corners. "weighted"
        gives each position of a patch the weight 1 / e², where e is its mean squared error at the end of the training.
        "plain" gives all positions the same weight, as in the paper.
    refine : float or None, default=None
        If given, a residual refinement is learned: a second D and W, which predict the error of the first restoration
        (a cascade). Artefacts are removed from the restored image as noise of this standard deviation. The second map
        sees patches of the result, their differences from the damaged image, and the removed artefacts. It has as many
        atoms and batches as the first, and the same `nu`; its λ1 is fixed relative to its input, its λ2 is zero.
        Training takes at least twice as long, and keeps two images of floats in memory for each example. Restoration
        takes at least three times as long, since a dictionary is learned from each image (half a second for a small
        one). On halftones, 0.02 gains 0.4 dB.
    upscale : int, default=1
        Factor by which damaged images are first enlarged by bicubic interpolation: 2 for super-resolution from half as
        many pixels along each side. At most 16.
    n_passes : float, default=2.0
        Number of passes over all patches.
    max_iter : int or None, default=None
        Number of batches, in place of `n_passes`.
    batch_size : int, default=200
        Patches per batch.
    learning_rate : "adaptive", "auto" or float, default="adaptive"
        As in :class:`taskdict.TaskDrivenRegressor`.
    checkpoint : path or None, default=None
        A file that the state of the training is written to every 20 seconds. If the training is stopped, even killed,
        the same call resumes it. With `refine` there is a second file, with ".refine" after its name.
    random_state : int, RandomState or None, default=None
        Seed of all random choices.
    n_threads : int or None, default=None
        Threads to use; None is every core this process may use.
    verbose : int, default=0
        With 1 or more, a line on standard error shows the progress of `fit`.
    callbacks : callable, list of callables or None, default=None
        Called with a :class:`taskdict.Progress` after each batch of `fit`, which ends if one returns True. Its model is
        a :class:`taskdict.TaskDrivenRegressor` of patches. With `refine` there are two of them, and each counts its own
        batches.

    Attributes
    ----------
    components_ : array of shape (n_components, patch_size² * channels)
        The dictionary D, atoms as rows.
    coef_ : array of shape (patch_size² * channels, n_components)
        The linear map W from codes to patches.
    weights_ : array of shape (patch_size, patch_size)
        Weights of the positions of a patch, at most one.
    channels_ : int
        Channels of the training images. A model of one channel restores the channels of an image one by one.
    refinement_ : object or None
        The learned refinement. Set it to None to restore without it.
    n_iter_ : int
        Number of batches, including those of the refinement.
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

    _learned: LearnedRestorer

    def __init__(
        self,
        patch_size: int = 10,
        n_components: int | None = 500,
        *,
        lambda1: float | None = 0.6,
        lambda2: float = 0.0,
        nu: float = 0.0,
        overlap: str = "weighted",
        refine: float | None = None,
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
        self.refine = refine
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

    @exclusive
    def fit(self, images: Sequence[Any], *, degrade: Callable[[Any], Any] | None = None) -> Self:
        """Learn from pairs of damaged and clean images.

        Parameters
        ----------
        images : sequence of pairs of arrays, or sequence of arrays
            Pairs (damaged, clean) of images of the same size, or with the damaged image smaller by `upscale`. With
            `degrade`, clean images only. Each has shape (height, width) or (height, width, channels), and is uint8,
            uint16, bool, or floats from 0 to 1.
        degrade : callable or None, default=None
            A function that damages an image, such as those of :mod:`taskdict.images.degrade`.

        Returns
        -------
        self : ImageRestorer
        """
        settings = RestorerSettings.parse(self.get_params(deep=False))
        check_checkpoints(settings)
        damaged, clean = damaged_and_clean(images, degrade, settings.upscale)
        learn_restorer(settings, damaged, clean, self._publish)
        return self

    def _publish(self, learned: LearnedRestorer) -> None:
        self._learned = learned

    def _fitted(self) -> LearnedRestorer:
        check_is_fitted(self)
        return self._learned

    @property
    def components_(self) -> Floats:
        """The dictionary D."""
        return self._fitted().patch_map.components

    @property
    def coef_(self) -> Floats:
        """The linear map W."""
        return self._fitted().patch_map.coef

    @property
    def weights_(self) -> Floats:
        """Weights of the positions of a patch."""
        return self._fitted().patch_map.weights

    @property
    def channels_(self) -> int:
        """Channels of the training images."""
        return self._fitted().n_channels

    @property
    def n_iter_(self) -> int:
        """Number of batches."""
        return self._fitted().n_iter

    @property
    def history_(self) -> dict[str, Any]:
        """Objective of each batch."""
        return self._fitted().history

    @property
    def refinement_(self) -> Refinement | None:
        """The learned refinement."""
        return self._fitted().refinement

    @refinement_.setter
    def refinement_(self, refinement: Refinement | None) -> None:
        self._learned = replace(self._fitted(), refinement=refinement)

    def restore(
        self,
        image: Any,
        *,
        lambda1: float | None = None,
        stride: int = 1,
        denoise: float | None = None,
        report: Report = silent,
    ) -> NDArray[Any]:
        """Restore an image.

        Parameters
        ----------
        image : array of shape (height, width) or (height, width, channels)
            A damaged image; uint8, uint16, bool, or floats from 0 to 1. May be smaller than a patch.
        lambda1 : float or None, default=None
            Weight of the ℓ1 norm for the first map, None for that of the model. Since patches are averaged, a slightly
            smaller one may be better: the paper learns with 0.6 and restores with 0.55.
        stride : int, default=1
            Pixels between neighbouring patches, at most `patch_size`: 2 takes a quarter of the patches.
        denoise : float or None, default=None
            If given, remaining artefacts are removed as noise of this standard deviation, for values from 0 to 1, see
            :func:`taskdict.images.denoise`.
        report : callable
            Called now and then with the number of patches that are done, and of all. With `refine` and `denoise`,
            patches are processed several times, and count each time.

        Returns
        -------
        array of the shape and dtype of the image; uint8 for bool; larger by `upscale`

        Raises
        ------
        ValueError
            If the restoration of an enlarged image would take more than 512 MB.
        """
        learned = self._fitted()
        return learned.restore(
            image,
            lambda1=None if lambda1 is None else check_penalty("lambda1", lambda1),
            stride=check_count("stride", stride),
            denoise=None if denoise is None else check_deviation("denoise", denoise),
            weighted=check_overlap("overlap", self.overlap) == "weighted",
            n_threads=resolve_threads(self.n_threads),
            report=report,
        )

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether there is a model."""
        return "_learned" in vars(self)

    def _summary(self) -> str:
        learned = self._fitted()
        maps, size = "one map" if learned.refinement is None else "two maps", learned.patch_map.patch_size
        return f"{maps} of patches of {size} by {size} pixels, {learned.n_channels} channels, {learned.n_iter} batches"

    def _to_file(self) -> tuple[storage.Arrays, dict[str, Any]]:
        learned, settings = self._fitted(), RestorerSettings.parse(self.get_params(deep=False))
        arrays, document = learned.to_file()
        given, parameters = parameters_to_file(
            self,
            patch_size=learned.patch_map.patch_size,
            n_components=len(learned.patch_map.components),
            lambda1=self.lambda1 if settings.lambda1 == learned.patch_map.lambda1 else learned.patch_map.lambda1,
            lambda2=learned.patch_map.lambda2,
            upscale=learned.upscale,
            refine=None if learned.refinement is None else learned.refinement.sigma,
        )
        return {**arrays, **given}, {"parameters": parameters, **document}

    @classmethod
    def _from_file(cls, arrays: storage.Arrays, document: dict[str, Any]) -> Self:
        parameters, arrays = parameters_from_file(arrays, document["parameters"])
        model = cls(**parameters)
        settings = RestorerSettings.parse(model.get_params(deep=False))
        model._learned = LearnedRestorer.from_file(arrays, document, settings)
        return model
