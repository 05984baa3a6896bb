"""Restoration of whole pictures: a nonlinear mapping of damaged to clean patches, learned from examples."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from taskdict import storage
from taskdict._exclusive import exclusive
from taskdict._threads import resolve_threads
from taskdict._validation import check_count, check_penalty, check_positive
from taskdict.checkpoints import check_checkpoint
from taskdict.constraints import UnitBall
from taskdict.estimators._parameters import read, written
from taskdict.estimators._versions import VersionedEstimator
from taskdict.estimators.task_driven import TaskDrivenRegressor
from taskdict.gradients import Coding
from taskdict.images.examples import Picture, damaged_and_clean
from taskdict.images.mapping import PatchMapping
from taskdict.images.patches import PatchPairs, check_channels, map_patches
from taskdict.images.pixels import Floats, check_picture, from_unit
from taskdict.images.progress import Report, Steps, shown, silent
from taskdict.images.refinement import (
    LAMBDA1,
    Refinement,
    RefinementPairs,
    pictures_to_refine,
    refinement_checkpoint,
    without_artefacts,
)
from taskdict.images.rows import Channels, Enlarged
from taskdict.initialisation import learn_dictionary

TO_START = 20_000  # clean patches that the first dictionary is learned from
START = 0.005  # λ1 of that dictionary, times the side of a patch
UPSCALE = 16  # at most
MOST = 2**29  # bytes that restoring an enlarged picture may take
WORK = 12  # bytes for each number of a picture while it is refined or denoised
TO_WEIGH = 20_000  # patches that show how well each place of a patch is restored


class ImageRestorer(VersionedEstimator):
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
    refine : float or None, default=None
        If given, a second D and W look at what the first have restored: artefacts are removed from it as noise of this
        standard deviation, and patches of the result, with what it differs by from the damaged picture and from what
        it was before, tell what is missing. As many atoms and batches as for the first, and the same `nu`; λ1 goes
        with the size of what is seen, λ2 is zero. Learning takes twice as long or more, and keeps two pictures of
        floats for each example in memory; restoring takes three times as long or more, since a dictionary is learned
        from each picture, half a second for a small one. On halftones 0.02 brings 0.4 dB.
    upscale : int, default=1
        Damaged pictures are first made larger by this factor, by bicubic interpolation: 2 for super-resolution from
        half as many pixels along each side. At most 16.
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
        the same call resumes it. With `refine`, another one, with ".refine" after its name.
    random_state : int, RandomState or None, default=None
        Seed of all random choices.
    n_threads : int or None, default=None
        Threads to use; None is every core this process may use.
    verbose : int, default=0
        With 1 or more, a line on standard error shows the progress of `fit`.
    callbacks : callable, list of callables or None, default=None
        Called with a :class:`taskdict.Progress` after each batch of `fit`, which ends if one returns True. Its model is
        a :class:`taskdict.TaskDrivenRegressor` of patches; with `refine` there are two of them, and each counts its own
        batches.

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
    refinement_ : object or None
        What `refine` has learned, and `restore` uses; with None in its place, it does not take the second look.
    n_iter_ : int
        Number of batches learned from; those of `refine` count, too.
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
        self._check_checkpoints()
        damaged, clean = damaged_and_clean(images, degrade, self.upscale)
        pairs = PatchPairs(damaged, clean, self.patch_size, random_state=self.random_state)
        max_iter = self.max_iter
        if max_iter is None:
            max_iter = math.ceil(self.n_passes * pairs.n_signals / self.batch_size)
        self._learn(
            pairs,
            self._keep,
            lambda1=self.lambda1,
            lambda2=self.lambda2,
            max_iter=max_iter,
            dictionary_init=self._first_dictionary(clean),
            checkpoint=self.checkpoint,
        )
        mapping = self._mapping()
        self._weigh(mapping, pairs)
        self.weights_ = mapping.weights
        if self.refine is not None and self.n_iter_ == max_iter:  # no callback has ended it
            self._learn_to_refine(damaged, clean, max_iter, self.refine, pairs.seed)
        return self

    def _learn(self, pairs: PatchPairs, keep: Callable[[TaskDrivenRegressor, int], None], **named: Any) -> None:
        """Learn a mapping of patches, and have it kept, also if the training is interrupted."""
        regressor = TaskDrivenRegressor(
            self.n_components,
            nu=self.nu,
            fit_intercept=False,  # what has no contrast keeps its value
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            random_state=self.random_state,
            n_threads=self.n_threads,
            verbose=self.verbose,
            callbacks=self.callbacks,
            **named,
        )
        # A finished first training whose second one is resumed is nothing to warn of.
        regressor._warns_of_finished_checkpoint = self.refine is None or isinstance(pairs, RefinementPairs)
        try:
            regressor.fit(pairs)
        finally:
            if "_training" in vars(regressor):
                keep(regressor, pairs.n_channels)

    def _keep(self, regressor: TaskDrivenRegressor, n_channels: int) -> None:
        """Become what was learned first."""
        mapping = PatchMapping.of(regressor, self.patch_size)
        self.components_, self.coef_, self.weights_ = mapping.components, mapping.coef, mapping.weights
        self.channels_, self.n_iter_, self.history_ = n_channels, regressor.n_iter_, regressor.history_
        self.refinement_: Refinement | None = None

    def _learn_to_refine(
        self, damaged: list[Picture], clean: list[Picture], max_iter: int, sigma: float, seed: int
    ) -> None:
        """Learn what the first mapping has missed, from patches in the order of a seed."""
        useful = [k for k, picture in enumerate(damaged) if min(picture.shape[:2]) >= self.patch_size]
        damaged, clean = [check_channels(damaged[k]) for k in useful], [clean[k] for k in useful]
        n_threads = resolve_threads(self.n_threads)

        def restored_once(picture: Picture) -> Floats:
            return self._restored(picture, self.lambda1, 1, silent)

        report = shown if self.verbose else silent
        restored, clear = pictures_to_refine(damaged, restored_once, sigma, n_threads, report)
        pairs = RefinementPairs(damaged, clean, restored, clear, self.patch_size, random_state=seed)
        before, history = self.n_iter_, self.history_

        def keep(regressor: TaskDrivenRegressor, n_channels: int) -> None:
            self.refinement_ = Refinement(sigma, pairs.scales, PatchMapping.of(regressor, self.patch_size))
            self.n_iter_ = before + regressor.n_iter_
            self.history_ = {**history, "objective": [*history["objective"], *regressor.history_["objective"]]}

        checkpoint = None if self.checkpoint is None else refinement_checkpoint(self.checkpoint)
        self._learn(pairs, keep, lambda1=LAMBDA1 * self.patch_size, max_iter=max_iter, checkpoint=checkpoint)
        assert self.refinement_ is not None
        self._weigh(self.refinement_.mapping, pairs)

    def _mapping(self) -> PatchMapping:
        """Return the first mapping."""
        return PatchMapping(self.components_, self.coef_, self.weights_, self.lambda1, self.lambda2)

    def _weigh(self, mapping: PatchMapping, pairs: PatchPairs) -> None:
        """Give the places of a patch their weights."""
        X, y = pairs.take_pairs(min(TO_WEIGH, pairs.n_signals))
        mapping.weigh(X, y, resolve_threads(self.n_threads))

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

    def _check_parameters(self) -> None:
        for name in ("patch_size", "n_components", "batch_size", "upscale"):
            check_count(name, getattr(self, name))
        for name in ("lambda1", "lambda2", "nu"):
            check_penalty(name, getattr(self, name))
        if self.upscale > UPSCALE:
            raise ValueError(f"upscale must be from 1 to {UPSCALE}, got {self.upscale}.")
        if self.max_iter is not None:
            check_count("max_iter", self.max_iter)
        else:
            check_positive("n_passes", self.n_passes)
        if self.overlap not in ("weighted", "plain"):
            raise ValueError(f"overlap must be 'weighted' or 'plain', got {self.overlap!r}.")
        if self.refine is not None and check_positive("refine", self.refine) >= 1:
            raise ValueError(f"refine must be below 1, since values are from 0 to 1, got {self.refine!r}.")

    def _check_checkpoints(self) -> None:
        """Raise if a checkpoint is no file, or the second of another training than the first, before any work."""
        check_checkpoint(self.checkpoint)
        if self.checkpoint is None or self.refine is None:
            return
        second = refinement_checkpoint(self.checkpoint)
        check_checkpoint(second)
        if os.path.exists(second) and not os.path.exists(self.checkpoint):
            raise ValueError(
                f"checkpoint {os.fspath(self.checkpoint)!r} is not there, but {second!r} is, of another training: "
                "remove it, or give another path."
            )

    def restore(
        self,
        image: Any,
        *,
        lambda1: float | None = None,
        stride: int = 1,
        denoise: float | None = None,
        report: Report = silent,
    ) -> Picture:
        """Return a picture restored.

        Parameters
        ----------
        image : array of shape (height, width) or (height, width, channels)
            A damaged picture; uint8, uint16, bool, or floats from 0 to 1. May be smaller than a patch.
        lambda1 : float or None, default=None
            The weight of the ℓ1 norm to use first, None for that of the model. Since patches are averaged, a little
            less may be better: the paper learns with 0.6 and restores with 0.55.
        stride : int, default=1
            Pixels between neighbouring patches, at most `patch_size`: 2 takes a quarter of the patches.
        denoise : float or None, default=None
            If given, artefacts that are left are removed as noise of this standard deviation, for values from 0 to 1,
            see :func:`taskdict.images.denoise`.
        report : callable
            Called now and then with the number of patches that are done, and of all. With `refine` and `denoise`,
            patches are gone through several times, and count each time.

        Returns
        -------
        array of the shape and dtype of the picture; uint8 for bool; larger by `upscale`

        Raises
        ------
        ValueError
            If the enlarged picture would take more than 512 MB while it is restored.
        """
        check_is_fitted(self)
        lambda1 = self.lambda1 if lambda1 is None else check_penalty("lambda1", lambda1)
        stride = check_count("stride", stride)
        denoise = None if denoise is None else check_positive("denoise", denoise)
        image = check_picture(image)
        dtype, grey = np.dtype(np.uint8) if image.dtype == np.bool_ else image.dtype, image.ndim == 2
        picture: Any = check_channels(image)
        if self.channels_ not in (1, picture.shape[2]):
            raise ValueError(
                f"image has {picture.shape[2]} channels, but the model has learned from pictures with {self.channels_}."
            )
        self._check_parameters()
        at_once = self.refinement_ is None and denoise is None  # nothing else is done with the values
        if self.upscale > 1:
            self._check_result(picture.shape, dtype.itemsize + (0 if at_once else WORK))
            picture = Enlarged(picture, self.upscale)
        groups = picture.shape[2] // self.channels_
        report = Steps(report, 1 + 2 * groups * (self.refinement_ is not None) + (denoise is not None))
        values = self._restored(picture, lambda1, stride, report, dtype if at_once else np.float32)
        if self.refinement_ is not None:
            self._refine(picture, values, self.refinement_, stride, report)
        if denoise is not None:
            values = without_artefacts(values, denoise, stride, resolve_threads(self.n_threads), report)
        values = values[:, :, 0] if grey else values
        return values if at_once else from_unit(values, dtype)

    def _check_result(self, shape: tuple[int, ...], each: int) -> None:
        """Raise if a small picture would take an absurd amount of memory, so many bytes for each of its numbers."""
        height, width, channels = shape
        if self.upscale**2 * height * width * channels * each > MOST:
            raise ValueError(
                f"image of {height} by {width} pixels would become {self.upscale * height} by {self.upscale * width} "
                f"with upscale={self.upscale}, and restoring it would take more than {MOST // 2**20} MB: restore parts "
                "of it."
            )

    def _restored(self, picture: Any, lambda1: float, stride: int, report: Report, dtype: Any = np.float32) -> Picture:
        """Return what the first mapping makes of a picture of shape (height, width, channels)."""
        mapping = self._mapping()
        mapped = mapping.function(resolve_threads(self.n_threads), lambda1)

        def restored(patches: Floats) -> Floats:
            shape = (len(patches), -1, self.channels_)
            means = patches.reshape(shape).mean(axis=1, keepdims=True)
            found = mapped((patches.reshape(shape) - means).reshape(patches.shape))
            whole: Floats = (found.reshape(shape) + means).reshape(patches.shape)
            return whole

        return map_patches(
            picture,
            mapping.patch_size,
            restored,
            stride=stride,
            weights=mapping.weights if self.overlap == "weighted" else None,
            one_by_one=self.channels_ == 1,
            dtype=dtype,
            report=report,
        )

    def _refine(self, picture: Any, values: Floats, refinement: Refinement, stride: int, report: Report) -> None:
        """Write what the second mapping makes of restored values over them."""
        for first in range(0, values.shape[2], self.channels_):
            part = np.s_[:, :, first : first + self.channels_]
            values[part] = refinement.apply(
                Channels(picture, first, self.channels_),
                values[part],
                stride=stride,
                weighted=self.overlap == "weighted",
                n_threads=resolve_threads(self.n_threads),
                report=report,
            )

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
        arrays, refined = {"D": self.components_, "W": self.coef_, "weights": self.weights_}, self.refinement_
        document: dict[str, Any] = {"channels": self.channels_, "n_iter": self.n_iter_}
        if refined is not None:
            arrays.update(refined.arrays())
            document["refine lambda1"] = refined.mapping.lambda1
        own = written(
            self,
            patch_size=len(self.weights_),
            n_components=len(self.components_),
            refine=None if refined is None else refined.sigma,
        )
        storage.write(path, type(self).__name__, arrays, {"parameters": own, **document})

    @classmethod
    def _from_file(cls, arrays: storage.Arrays, document: dict[str, Any]) -> Self:
        """Make the model that `save` has written; raises ValueError, TypeError or KeyError for anything else."""
        model = read(cls, document["parameters"])
        channels, n_iter = check_count("channels", document["channels"]), int(document["n_iter"])
        model.components_, model.coef_, model.weights_ = (arrays[name] for name in ("D", "W", "weights"))
        model._mapping().check(model.patch_size, channels, channels, model.n_components)
        if n_iter < 0:
            raise ValueError("its counts make no sense")
        model.refinement_ = None
        if model.refine is not None:
            lambda1 = document["refine lambda1"]
            model.refinement_ = Refinement.from_arrays(
                arrays, model.refine, lambda1, model.patch_size, channels, model.n_components
            )
        model.channels_, model.n_iter_, model.history_ = channels, n_iter, {"objective": []}
        return model
