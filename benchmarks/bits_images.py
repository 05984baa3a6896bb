"""Cases of bits.py on images, measurements, files and interrupted trainings: each yields names and values."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

import taskdict as td
from bits_common import (
    ATOMS,
    COLOUR,
    DIGITS,
    GREY,
    PARTLY,
    RAW,
    RUN,
    TEST,
    X64,
    X,
    Y,
    build,
    learned,
    learner,
)

STRIPES = [np.tile(np.random.default_rng(k).random((1, 40 + k)), (44, 1)) for k in range(6)]
PLANKS = [np.ascontiguousarray(image.T) for image in STRIPES]


def sensing(n_measurements=8, n_components=24, **named):
    given = {"batch_size": 50, "max_iter": 15, "random_state": 4, **named}
    return build(td.CompressedSensing, n_measurements, n_components, **given)


def compressed_sensing():
    noisy = (X64 + 0.01 * np.resize(ATOMS, X64.shape)).astype(np.float32)
    variants = {"learned": {}, "random": {"transform_init": "random"}, "nu2": {"nu2": 1e-3, "nu": 1e-4}}
    variants |= {"fixed": {"learn_transform": False}, "given Z": {"transform_init": ATOMS[:8]}}
    variants |= {"unsupervised": {"dictionary": "unsupervised"}, "auto": {"learning_rate": "auto", "max_iter": 5}}
    variants |= {
        "given D": {"dictionary": ATOMS[:24], "transform_init": "random", "nu": 1e-3},
        "rate": {"learning_rate": 0.5},
    }
    fits = {
        "float32": lambda model: model.fit(X),
        "noisy": lambda model: model.fit(noisy, X64),
        "few": lambda model: model.fit(X64[:200], RAW[:200, 2:5]),
        "stream": lambda model: model.fit(td.stream(X64, random_state=3)),
        "targets": lambda model: model.fit(td.stream(noisy, X, random_state=3)),
        "iterator": lambda model: model.fit(td.stream(lambda: iter(np.array_split(X, 9)))),
    }
    for (name, given), how in itertools.product(variants.items(), fits):
        if how != "iterator" or name not in ("unsupervised", "given D"):
            model = fits[how](sensing(**given))
            yield from learned(f"{name} {how}", model, TEST)
            if how in ("float32", "noisy", "stream"):
                measured = [td.images.sense(model, image) for image in (GREY, COLOUR / 255, GREY > 99)]
                values = [[m.values, m.means, m.norms, m.side, m.shape, m.dtype.str] for m in measured]
                images = [td.images.reconstruct(model, m) for m in measured]
                yield f"{name} {how} images", [values, images, model.score(TEST)]
    for name in ("learned", "fixed", "nu2", "given Z"):
        model = sensing(**variants[name])
        for k in range(0, 500, 100):
            model.partial_fit(noisy[k : k + 100], X64[k : k + 100] if name == "nu2" else None)
        yield from learned(f"partial_fit {name}", model, TEST)
    for suffix, bits in itertools.product((".h", ".csv", ".npy"), (2, 8, 16)):
        path = RUN.folder / f"Z{suffix}"
        yield f"export {suffix} {bits}", [*model.export(path, bits), path.read_bytes()]


def image_classifier(**named):
    inner = {"multi_class": "softmax", **named.pop("inner", {})}
    return td.ImageClassifier(learner(**inner), random_state=6, **named)


def image_classifiers():
    images, test = DIGITS.images[:500], DIGITS.images[1000:1100].astype(np.uint8)
    variants = {
        "plain": {"shifts": 0},
        "moved": {"shifts": 4, "pool": 4},
        "bent": {"shifts": 8, "bend": 0.6, "pool": 8},
    }
    variants |= {"list": {"shifts": [(0, 2), (1, -1)], "pool": [(1, 1)]}, "directions": {"n_directions": 20, "pool": 4}}
    variants |= {"ovr": {"inner": {"multi_class": "ovr", "dictionary_init": "classes"}, "n_directions": 9, "bend": 0.3}}
    variants |= {"mus": {"inner": {"mu": (0.8, 0.4)}}, "early": {"inner": {"early_stopping": True}, "n_directions": 30}}
    for (name, given), dtype in itertools.product(variants.items(), (np.float64, np.uint8)):
        model = image_classifier(**given).fit(images.astype(dtype), PARTLY if name == "mus" else Y)
        yield from learned(f"{name} {dtype.__name__}", model, test)
        yield from learned(f"{name} {dtype.__name__} inner", model.classifier_, model.classifier_.components_)
    yield from learned("two", image_classifier(shifts=4).fit(images, Y > 4), test.reshape(100, 64))


def images_of_all_kinds():
    yield from {"grey": GREY, "colour": COLOUR, "bool": GREY > 99, "uint16": COLOUR.astype(np.uint16) * 257}.items()
    yield from {"float32": (GREY / 255).astype(np.float32), "float64": COLOUR / 255, "tiny": GREY[:5, :7]}.items()


def degradations():
    degrade = td.images.degrade
    for kind, image in images_of_all_kinds():
        for name, function in degrade.DEGRADATIONS.items():
            seed = {"random_state": 1} if name in ("noise", "missing") else {}
            yield f"{name} {kind}", function(image, **seed)
        others = [degrade.ordered_dither(image, 2), degrade.gaussian_noise(image, 0.3, random_state=2)]
        others += [degrade.blur(image, 0.7), degrade.downsample(image, 3), degrade.jpeg(image, 60)]
        others += [degrade.missing_pixels(image, 0.1, random_state=3), degrade.resize(image, 31, 90)]
        yield f"others {kind}", others
        if kind not in ("uint16", "bool"):
            given = {"n_components": 40, "n_threads": RUN.threads}
            yield f"denoise {kind}", td.images.denoise(image, 0.05, **given)
            yield (
                f"denoise stride {kind}",
                td.images.denoise(image, 0.1, patch_size=6, stride=3, random_state=5, **given),
            )


def restorer(**named):
    given = {"lambda1": 0.2, "max_iter": 15, "batch_size": 100, "random_state": 8, **named}
    return build(td.ImageRestorer, 6, 20, **given)


def restorers():
    degrade = td.images.degrade
    pairs = [(degrade.blur(GREY), GREY), (degrade.blur(GREY.T), GREY.T)]
    fits = {
        "halftones": ([GREY, GREY[::-1, :40]], degrade.floyd_steinberg),
        "pairs": (pairs, None),
        "colour": ([COLOUR / 255], degrade.jarvis),
        "noise": ([COLOUR], lambda image: degrade.gaussian_noise(image, 0.1, random_state=0)),
    }
    variants = {"plain": {"overlap": "plain"}, "net": {"lambda2": 0.1, "nu": 1e-3}, "rate": {"learning_rate": 0.5}}
    variants |= {"passes": {"max_iter": None, "n_passes": 0.3}, "refine": {"refine": 0.03}}
    variants |= {"auto": {"learning_rate": "auto", "max_iter": 5}, "upscale": {"upscale": 2}}
    for (name, given), (how, (images, damage)) in itertools.product(variants.items(), fits.items()):
        if name == "upscale":
            images, damage = [image[1] if damage is None else image for image in images], degrade.downsample
        model = restorer(**given).fit(images, degrade=damage)
        yield from learned(f"{name} {how}", model, COLOUR, ["restore"])
        if how == "halftones":
            some = (
                model.restore(GREY, lambda1=0.1, stride=2),
                model.restore(GREY[:4, :3] > 50),
                model.restore(COLOUR / 255),
            )
            yield f"{name} {how} others", [*some, model.restore(GREY[:30], denoise=0.05, stride=3)]
    path = RUN.folder / "restorer"
    for turn in ("first", "finished", "second stage"):
        model = restorer(refine=0.02, checkpoint=path).fit([GREY], degrade=degrade.jarvis)
        yield from learned(f"checkpoint {turn}", model, GREY, ["restore"])
        if turn == "finished":
            Path(f"{path}.refine").unlink()
    shipped = td.images.pretrained().set_params(n_threads=RUN.threads)
    yield from learned("pretrained", shipped, degrade.floyd_steinberg(GREY), ["restore"])
    shipped.refinement_ = None
    yield "pretrained, first look", shipped.restore(degrade.floyd_steinberg(COLOUR), stride=3, denoise=0.02)


def voter(**named):
    inner = learner(**named.pop("inner", {}))
    given = {"patch_size": 6, "n_patches": 300, "stride": 3, "random_state": 2, **named}
    return td.PatchVotingClassifier(inner, **given)


def voters():
    images, labels = [*STRIPES[:3], *PLANKS[:3], GREY[:, :40] / 255], ["stripes"] * 3 + ["planks"] * 3 + ["flower"]
    variants = {"plain": {}, "raw": {"normalise": False, "stride": 1}, "ovo": {"inner": {"multi_class": "ovo"}}}
    variants |= {"bilinear": {"inner": {"decision": "bilinear", "multi_class": "softmax"}, "n_patches": 5000}}
    for name, given in variants.items():
        model = voter(**given).fit(images, labels)
        yield from learned(name, model, [STRIPES[4], PLANKS[5], GREY / 255], ["votes", "predict"])
        yield f"{name} maps", [model.vote_map(STRIPES[5]), model.compare(STRIPES[3], PLANKS[3], "planks")]
        yield from learned(f"{name} inner", model.classifier_, model.classifier_.components_)
    wide = np.tile(GREY / 255, (3, 3))
    yield "wide", model.set_params(stride=1).vote_map(wide)
    coloured = voter(inner={"multi_class": "softmax"}).fit([COLOUR, COLOUR[::-1], 255 - COLOUR], [0, 0, 1])
    yield from learned("colour", coloured, [COLOUR], ["votes", "predict"])
    other = td.PatchVotingClassifier(LogisticRegression(), patch_size=5, n_patches=200, random_state=0)
    yield "scikit-learn", other.fit(images, labels).votes(STRIPES)
