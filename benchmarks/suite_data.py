"""The data sets of the suite: images, signals and tables that can be had offline, each with five folds.

Every data set has two editions. Defaults were chosen on the *development* edition. The *final* edition has other seeds
and, of MNIST and USPS, other digits; it is for the table that is published. The data sets of scikit-learn and
scikit-image are too small for that: their editions differ by the folds only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from sklearn import datasets as bundled
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.preprocessing import StandardScaler

import taskdict as td
from workloads import digest

FOLDS = 5
TEST_DIGITS = 2000  # of each fold of MNIST
SEEDS = {"development": 1, "final": 2}

Fold = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # X and y to learn from, X and y to test on


@dataclass(frozen=True)
class DataSet:
    """Signals and targets in five folds; of a semi-supervised one, targets of −1 are unknown."""

    name: str
    group: str  # "images", "signals", "tables", "few labels"
    about: str
    folds: tuple[Fold, ...]

    @property
    def is_regression(self) -> bool:
        """Whether targets are numbers, not classes."""
        return self.folds[0][1].dtype.kind == "f"

    @property
    def size(self) -> str:
        """What there is to learn from, in words."""
        X, y = self.folds[0][:2]
        kind = "regression" if self.is_regression else f"{len(np.unique(y[y != -1]))} classes"
        labels = "" if self.is_regression or (y != -1).all() else f", {int((y != -1).sum())} labels"
        return f"{len(X):,} × {X.shape[1]}, {kind}{labels}"

    @property
    def sha256(self) -> str:
        """The first digits of a digest of all numbers."""
        return digest(*(np.ascontiguousarray(array) for fold in self.folds for array in fold))


def _folds(X: np.ndarray, y: np.ndarray, seed: int) -> tuple[Fold, ...]:
    kind = KFold if y.dtype.kind == "f" else StratifiedKFold
    splits = kind(FOLDS, shuffle=True, random_state=seed).split(X, y)
    return tuple((X[train], y[train], X[test], y[test]) for train, test in splits)


# Images.


@cache
def _digits(name: str, data: Path | None, edition: str) -> tuple[np.ndarray, ...]:
    """Return X and y to draw training digits from, and X and y to test on."""
    digits = td.datasets.LOADERS[name](data, download=False)
    low, high = (0.0, 255.0) if name == "mnist" else (-1000.0, 1000.0)
    X, X_test = (
        (((images.reshape(len(images), -1) - low) / (high - low)).astype(np.float32))
        for images in (digits.images, digits.test_images)
    )
    y, y_test = digits.labels, digits.test_labels
    order = np.random.default_rng(0).permutation(len(X))
    if name == "mnist":
        mine, other = order[: len(X) // 2], order[len(X) // 2 :]
    else:  # all digits to learn from are needed
        mine, other = order[:-1500], order[-1500:]
    if edition == "development":
        chosen, tested = (mine[: len(mine) - 10_000], mine[-10_000:]) if name == "mnist" else (mine, other)
        return X[chosen], y[chosen], X[tested], y[tested]
    return (X[other], y[other], X_test, y_test) if name == "mnist" else (X, y, X_test, y_test)


def _drawn_digits(name: str, n: int) -> Callable[[Path | None, str], tuple[Fold, ...]]:
    def folds(data: Path | None, edition: str) -> tuple[Fold, ...]:
        X, y, X_test, y_test = _digits(name, data, edition)
        result = []
        for k in range(FOLDS):
            rows = np.random.default_rng([SEEDS[edition], n, k]).choice(len(X), n, replace=False)
            tested = slice(k * TEST_DIGITS, (k + 1) * TEST_DIGITS) if name == "mnist" else slice(None)
            result.append((X[rows], y[rows], X_test[tested], y_test[tested]))
        return tuple(result)

    return folds


def _small_digits(data: Path | None, edition: str) -> tuple[Fold, ...]:
    X, y = bundled.load_digits(return_X_y=True)
    return _folds(X, y, SEEDS[edition])


def _faces(data: Path | None, edition: str) -> tuple[Fold, ...]:
    from skimage.data import lfw_subset

    return _folds(lfw_subset().reshape(200, -1), np.repeat([1, 0], 100), SEEDS[edition])


def _crops(images: list[np.ndarray], side: int, n: int, edition: str) -> tuple[Fold, ...]:
    """Return crops of images labelled by the image; those of a fold come from a band of their own of each image."""
    rng = np.random.default_rng(SEEDS[edition])
    parts: list[tuple[list, list]] = [([], []) for _ in range(FOLDS)]
    for label, image in enumerate(images):
        bands = np.array_split(np.arange(image.shape[1]), FOLDS)
        for (crops, labels), band in zip(parts, bands, strict=True):
            rows = rng.integers(0, len(image) - side + 1, n // FOLDS)
            columns = rng.integers(band[0], band[-1] - side + 2, n // FOLDS)
            crops += [
                image[row : row + side, column : column + side].ravel()
                for row, column in zip(rows, columns, strict=True)
            ]
            labels += [label] * (n // FOLDS)
    arrays = [(np.array(crops), np.array(labels)) for crops, labels in parts]
    result = []
    for k in range(FOLDS):
        others = [arrays[j] for j in range(FOLDS) if j != k]
        result.append((np.concatenate([X for X, _ in others]), np.concatenate([y for _, y in others]), *arrays[k]))
    return tuple(result)


def _textures(data: Path | None, edition: str) -> tuple[Fold, ...]:
    from skimage import data as images

    return _crops([images.brick() / 255, images.grass() / 255, images.gravel() / 255], 16, 500, edition)


def _photographs(data: Path | None, edition: str) -> tuple[Fold, ...]:
    from skimage import data as images
    from skimage.color import rgb2gray

    china, flower = (image / 255 for image in bundled.load_sample_images().images)
    coloured = [china, flower, images.astronaut() / 255, images.coffee() / 255, images.chelsea() / 255]
    return _crops([rgb2gray(image) for image in coloured], 12, 500, edition)


def _halftones(data: Path | None, edition: str) -> tuple[Fold, ...]:
    """Return patches of halftones, labelled by the method that made them."""
    from skimage import data as images

    grey = images.camera() / 255
    degrade = td.images.degrade
    made = [degrade.floyd_steinberg(grey), degrade.jarvis(grey), degrade.ordered_dither(grey)]
    return _crops([np.asarray(image, float) for image in made], 10, 500, edition)


# Signals. Their generators are written down here, so that nothing has to be downloaded.


def _waveforms(data: Path | None, edition: str) -> tuple[Fold, ...]:
    """Return four shapes of 200 samples, with noise; their sign is arbitrary."""
    rng, t = np.random.default_rng(SEEDS[edition]), np.linspace(0, 1, 200)
    shapes = np.stack(
        [
            np.exp(-(((t - 0.35) / 0.06) ** 2)),
            np.exp(-(((t - 0.55) / 0.06) ** 2)) - np.exp(-(((t - 0.7) / 0.06) ** 2)),
            np.sin(2 * np.pi * 6 * t) * np.exp(-(((t - 0.5) / 0.2) ** 2)),
            np.clip((t - 0.3) / 0.3, 0, 1) * (t < 0.8),
        ]
    )
    shapes /= np.linalg.norm(shapes, axis=1, keepdims=True)
    y = rng.integers(0, 4, 2500)
    amplitudes = rng.choice([-1, 1], 2500) * rng.uniform(0.7, 1.3, 2500)
    X = amplitudes[:, None] * shapes[y] + 0.05 * rng.standard_normal((2500, 200))
    return _folds(X, y, SEEDS[edition])


def _moved_waveforms(data: Path | None, edition: str) -> tuple[Fold, ...]:
    """Return four kinds of pulses of 256 samples, anywhere and of either sign, in noise."""
    return _folds(*td.datasets.make_waveforms(2000, random_state=SEEDS[edition] + 10), SEEDS[edition])


def _breiman(data: Path | None, edition: str) -> tuple[Fold, ...]:
    """Return the waveforms of Breiman et al. (1984): mixtures of two of three triangles, 21 samples."""
    rng, t, n = np.random.default_rng(SEEDS[edition] + 20), np.arange(1, 22), 1500
    triangles = np.stack([np.maximum(6 - np.abs(t - centre), 0) for centre in (7, 15, 11)])
    y = rng.integers(0, 3, n)
    first, second = np.array([(0, 1), (0, 2), (1, 2)])[y].T
    u = rng.uniform(size=(n, 1))
    X = u * triangles[first] + (1 - u) * triangles[second] + rng.standard_normal((n, 21))
    return _folds(X, y, SEEDS[edition])


def _cylinder_bell_funnel(data: Path | None, edition: str) -> tuple[Fold, ...]:
    """Return the cylinders, bells and funnels of Saito (1994), 128 samples."""
    rng, t, n = np.random.default_rng(SEEDS[edition] + 30), np.arange(1, 129), 900
    y = rng.integers(0, 3, n)
    begin = rng.uniform(16, 32, (n, 1))
    end = begin + rng.uniform(32, 96, (n, 1))
    inside = (t >= begin) & (t <= end)
    ramps = np.stack(
        [np.ones((n, 128)), (t - begin) / (end - begin), (end - t) / (end - begin)],
    )
    height = 6 + rng.standard_normal((n, 1))
    return _folds(height * inside * ramps[y, np.arange(n)] + rng.standard_normal((n, 128)), y, SEEDS[edition])


def _control_charts(data: Path | None, edition: str) -> tuple[Fold, ...]:
    """Return the control charts of Alcock and Manolopoulos (1999): six patterns, 60 samples."""
    rng, t, n = np.random.default_rng(SEEDS[edition] + 40), np.arange(60), 900
    y = rng.integers(0, 6, n)
    gradient, shift = rng.uniform(0.2, 0.5, (n, 1)), rng.uniform(7.5, 20, (n, 1))
    cycle = rng.uniform(10, 15, (n, 1)) * np.sin(2 * np.pi * t / rng.uniform(10, 15, (n, 1)))
    moved = t >= rng.integers(20, 40, (n, 1))
    patterns = np.stack(
        [np.zeros((n, 60)), cycle, gradient * t, -gradient * t, shift * moved, -shift * moved],
    )
    X = 30 + 2 * rng.uniform(-3, 3, (n, 60)) + patterns[y, np.arange(n)]
    return _folds(X, y, SEEDS[edition])


def _lines(rng: np.random.Generator, substances: int, width: int) -> np.ndarray:
    """Return the spectra of some substances: a dozen lines each, half of which are shared."""
    t = np.arange(width)

    def peaks(count: int) -> np.ndarray:
        centre, spread = rng.uniform(10, width - 10, (count, 1)), rng.uniform(2, 6, (count, 1))
        return (rng.uniform(0.3, 1, (count, 1)) * np.exp(-(((t - centre) / spread) ** 2))).sum(axis=0)

    shared = peaks(6)
    return np.stack([shared + peaks(6) for _ in range(substances)])


def _background(rng: np.random.Generator, n: int, width: int) -> np.ndarray:
    """Return smooth baselines."""
    t = np.linspace(-1, 1, width)
    return np.abs(rng.standard_normal((n, 4)) * [1.0, 0.5, 0.3, 0.2]) @ np.stack([t**0, t, t**2, t**3])


def _spectra(data: Path | None, edition: str) -> tuple[Fold, ...]:
    """Return noisy spectra of one main substance of six in a mixture, on a baseline."""
    rng, n, width = np.random.default_rng(SEEDS[edition] + 50), 900, 300
    pure = _lines(rng, 6, width)
    y = rng.integers(0, 6, n)
    shares = rng.dirichlet(np.full(6, 0.5), n) * 0.5
    shares[np.arange(n), y] += rng.uniform(0.2, 0.5, n)
    X = rng.uniform(0.5, 2, (n, 1)) * (shares @ pure + _background(rng, n, width)) + 0.08 * rng.standard_normal(
        (n, width)
    )
    return _folds(X, y, SEEDS[edition])


def _concentrations(data: Path | None, edition: str) -> tuple[Fold, ...]:
    """Return noisy spectra of mixtures, saturating; the target is the share of one substance."""
    rng, n, width = np.random.default_rng(SEEDS[edition] + 60), 600, 250
    pure = _lines(rng, 5, width)
    shares = rng.dirichlet(np.ones(5), n)
    clean = 1 - np.exp(-1.5 * (shares @ pure))
    X = clean + 0.3 * _background(rng, n, width) + 0.03 * rng.standard_normal((n, width))
    return _folds(X, shares[:, 0].copy(), SEEDS[edition])


def _heartbeats(data: Path | None, edition: str) -> tuple[Fold, ...]:
    """Return beats of four kinds, 180 samples, from leads of either polarity, with wandering baselines."""
    rng, t, n = np.random.default_rng(SEEDS[edition] + 70), np.linspace(-0.4, 0.5, 180), 1500
    y = rng.choice(4, n, p=[0.55, 0.15, 0.15, 0.15])
    late = 0.01 * rng.standard_normal((n, 1))

    def wave(centre: float, spread: float, size: float) -> np.ndarray:
        sizes = size * rng.uniform(0.7, 1.3, (n, 1))
        place = centre + late + 0.008 * rng.standard_normal((n, 1))
        return sizes * np.exp(-(((t - place) / (spread * rng.uniform(0.85, 1.15, (n, 1)))) ** 2))

    narrow = wave(-0.02, 0.01, -0.15) + wave(0, 0.014, 1.0) + wave(0.025, 0.012, -0.25)
    p, tee = wave(-0.17, 0.025, 0.15), wave(0.25, 0.05, 0.3)
    kinds = np.stack(
        [
            p + narrow + tee,
            wave(0.02, 0.05, 1.1) + wave(0.13, 0.05, -0.4) + wave(0.3, 0.06, -0.3),  # ventricular
            wave(-0.23, 0.02, 0.12) + narrow + tee,  # atrial
            p + wave(0, 0.02, 0.7) + wave(0.045, 0.02, 0.6) + wave(0.25, 0.05, -0.2),  # bundle branch block
        ]
    )
    wander = 0.15 * np.sin(2 * np.pi * (rng.uniform(0.2, 0.7, (n, 1)) * t + rng.uniform(size=(n, 1))))
    X = kinds[y, np.arange(n)] + wander + 0.05 * rng.standard_normal((n, 180))
    return _folds(rng.choice([-1, 1], (n, 1)) * X, y, SEEDS[edition])


def _brainwaves(data: Path | None, edition: str) -> tuple[Fold, ...]:
    """Return epochs of 128 samples with bursts of one of three rhythms, spikes, or none, in coloured noise."""
    rng, t, n = np.random.default_rng(SEEDS[edition] + 80), np.arange(128) / 128, 1500
    y = rng.integers(0, 5, n)
    phase, centre = rng.uniform(0, 2 * np.pi, (n, 1)), rng.uniform(0.3, 0.7, (n, 1))
    window = np.exp(-(((t - centre) / 0.25) ** 2))

    def rhythm(low: float, high: float) -> np.ndarray:
        return np.sin(2 * np.pi * rng.uniform(low, high, (n, 1)) * t + phase) * window

    spike = rng.choice([-1, 1], (n, 1)) * (
        np.exp(-(((t - centre) / 0.012) ** 2)) * 2.5 - np.exp(-(((t - centre - 0.06) / 0.04) ** 2))
    )
    kinds = np.stack([np.zeros((n, 128)), rhythm(4, 7), rhythm(8, 12), rhythm(16, 24), spike])
    noise = np.fft.irfft(np.fft.rfft(rng.standard_normal((n, 128))) / np.sqrt(np.arange(65) + 1), 128)
    noise *= 0.6 / noise.std()
    return _folds(1.2 * kinds[y, np.arange(n)] + noise, y, SEEDS[edition])


def _bearings(data: Path | None, edition: str) -> tuple[Fold, ...]:
    """Return vibrations of 256 samples: no fault, or impulses that ring at one of three resonances."""
    rng, t, n = np.random.default_rng(SEEDS[edition] + 90), np.arange(256), 1200
    y = rng.integers(0, 4, n)
    X = 0.5 * rng.standard_normal((n, 256))
    X += np.sin(2 * np.pi * (t / rng.uniform(60, 70, (n, 1)) + rng.uniform(size=(n, 1))))
    resonance, period = np.array([0, 0.12, 0.2, 0.31]), np.array([1, 50, 70, 90])
    for i in np.flatnonzero(y > 0):
        for begin in np.arange(rng.uniform(0, period[y[i]]), 256, period[y[i]]):
            u = t - begin
            X[i] += 2.0 * (u >= 0) * np.exp(-u.clip(0) / 8) * np.sin(2 * np.pi * resonance[y[i]] * u)
    return _folds(X, y, SEEDS[edition])


def _two_patterns(data: Path | None, edition: str) -> tuple[Fold, ...]:
    """Return the two patterns of Geurts (2002): two steps, each up or down, anywhere in 128 samples of noise."""
    rng, n = np.random.default_rng(SEEDS[edition] + 100), 1500
    y = rng.integers(0, 4, n)
    X = rng.standard_normal((n, 128))
    for i in range(n):
        lengths = rng.integers(15, 31, 2)
        begins = np.sort(rng.choice(128 - lengths.sum(), 2, replace=False)) + np.array([0, lengths[0]])
        for begin, length, up in zip(begins, lengths, divmod(int(y[i]), 2), strict=True):
            half = length // 2
            X[i, begin : begin + half] += -4 if up else 4
            X[i, begin + half : begin + length] += 4 if up else -4
    return _folds(X, y, SEEDS[edition])


def _pixels(data: Path | None, edition: str) -> tuple[Fold, ...]:
    """Return the frames of 7 × 7 patches of a photograph, whose inner 3 × 3 pixels are hidden; target: the middle."""
    from skimage import data as images

    grey = images.camera() / 255
    rng = np.random.default_rng(SEEDS[edition] + 110)
    rows, columns = rng.integers(0, 506, 3000), rng.integers(0, 506, 3000)
    patches = np.stack([grey[r : r + 7, c : c + 7] for r, c in zip(rows, columns, strict=True)])
    hidden = np.zeros((7, 7), bool)
    hidden[2:5, 2:5] = True
    return _folds(patches[:, ~hidden], patches[:, 3, 3].copy(), SEEDS[edition])


# Tables, standardised as everyone does, for all methods.


def _table(load: Callable) -> Callable[[Path | None, str], tuple[Fold, ...]]:
    def folds(data: Path | None, edition: str) -> tuple[Fold, ...]:
        X, y = load(return_X_y=True)
        result = []
        for X_train, y_train, X_test, y_test in _folds(X, y, SEEDS[edition]):
            scaler = StandardScaler().fit(X_train)
            result.append((scaler.transform(X_train), y_train, scaler.transform(X_test), y_test))
        return tuple(result)

    return folds


def _raw_table(load: Callable) -> Callable[[Path | None, str], tuple[Fold, ...]]:
    return lambda data, edition: _folds(*load(return_X_y=True), SEEDS[edition])


def _friedman(return_X_y: bool = True) -> tuple[np.ndarray, np.ndarray]:
    return bundled.make_friedman1(500, noise=1.0, random_state=0)


def _clusters(return_X_y: bool = True) -> tuple[np.ndarray, np.ndarray]:
    return bundled.make_classification(600, 20, n_informative=6, n_clusters_per_class=3, random_state=0)


# Few labels.


def _few_labels(
    make: Callable[[Path | None, str], tuple[Fold, ...]], n_labels: int
) -> Callable[[Path | None, str], tuple[Fold, ...]]:
    """Return folds with so many labels, as many of each class as in the data; the rest are −1."""

    def folds(data: Path | None, edition: str) -> tuple[Fold, ...]:
        result = []
        for k, (X, y, X_test, y_test) in enumerate(make(data, edition)):
            order = np.random.default_rng([SEEDS[edition], k]).permutation(len(y))
            rank = np.empty(len(y), np.intp)  # within its class, in a random order
            for label in np.unique(y):
                rank[order[y[order] == label]] = np.arange((y == label).sum())
            first = np.lexsort((order, rank))[:n_labels]
            partly = np.full_like(y, -1)
            partly[first] = y[first]
            result.append((X, partly, X_test, y_test))
        return tuple(result)

    return folds


@dataclass(frozen=True)
class _Entry:
    group: str
    about: str
    make: Callable[[Path | None, str], tuple[Fold, ...]]
    needs_data: bool = False


SUITE: dict[str, _Entry] = {
    "digits": _Entry("images", "scikit-learn's digits, 8 × 8", _small_digits),
    **{
        f"mnist-{n}": _Entry("images", f"{n} MNIST digits", _drawn_digits("mnist", n), True)
        for n in (100, 300, 1000, 3000, 10_000)
    },
    **{f"usps-{n}": _Entry("images", f"{n} USPS digits", _drawn_digits("usps", n), True) for n in (100, 1000, 5000)},
    "faces": _Entry("images", "faces or not, 25 × 25 (scikit-image)", _faces),
    "textures": _Entry("images", "bricks, grass, gravel, 16 × 16 crops", _textures),
    "photographs": _Entry("images", "which of five photographs, 12 × 12 crops", _photographs),
    "halftones": _Entry("images", "Floyd–Steinberg, Jarvis or ordered, 10 × 10 crops", _halftones),
    "pixels": _Entry("images", "the hidden middle of a patch (regression)", _pixels),
    "waveforms": _Entry("signals", "four shapes of either sign", _waveforms),
    "moved waveforms": _Entry("signals", "four pulses anywhere, of either sign", _moved_waveforms),
    "breiman": _Entry("signals", "waveforms of Breiman et al.", _breiman),
    "cylinder-bell-funnel": _Entry("signals", "three shapes of any length", _cylinder_bell_funnel),
    "control charts": _Entry("signals", "six trends", _control_charts),
    "spectra": _Entry("signals", "six substances in mixtures", _spectra),
    "concentrations": _Entry("signals", "the share of a substance (regression)", _concentrations),
    "heartbeats": _Entry("signals", "four kinds of ECG-like beats of either sign", _heartbeats),
    "brainwaves": _Entry("signals", "EEG-like rhythms of any phase, spikes of either sign", _brainwaves),
    "bearings": _Entry("signals", "vibrations with impulses anywhere", _bearings),
    "two patterns": _Entry("signals", "two steps, up or down, anywhere", _two_patterns),
    "iris": _Entry("tables", "standardised", _table(bundled.load_iris)),
    "wine": _Entry("tables", "standardised", _table(bundled.load_wine)),
    "breast cancer": _Entry("tables", "standardised", _table(bundled.load_breast_cancer)),
    "diabetes": _Entry("tables", "standardised (regression)", _table(bundled.load_diabetes)),
    "friedman": _Entry("tables", "make_friedman1, standardised (regression)", _table(_friedman)),
    "clusters": _Entry("tables", "make_classification, standardised", _table(_clusters)),
    "wine, raw": _Entry("tables", "as it comes", _raw_table(bundled.load_wine)),
    "breast cancer, raw": _Entry("tables", "as it comes", _raw_table(bundled.load_breast_cancer)),
    "diabetes, raw": _Entry("tables", "as it comes (regression)", _raw_table(bundled.load_diabetes)),
    "mnist, few labels": _Entry(
        "few labels", "6,000 MNIST digits", _few_labels(_drawn_digits("mnist", 6000), 200), True
    ),
    "usps, few labels": _Entry("few labels", "5,000 USPS digits", _few_labels(_drawn_digits("usps", 5000), 100), True),
    "digits, few labels": _Entry("few labels", "scikit-learn's digits", _few_labels(_small_digits, 50)),
    "waveforms, few labels": _Entry("few labels", "four shapes of either sign", _few_labels(_waveforms, 40)),
    "heartbeats, few labels": _Entry("few labels", "ECG-like beats of either sign", _few_labels(_heartbeats, 60)),
}


def load(name: str, data: Path | None, edition: str) -> DataSet:
    """Return a data set of the suite by name."""
    entry = SUITE[name]
    return DataSet(name, entry.group, entry.about, entry.make(data, edition))
