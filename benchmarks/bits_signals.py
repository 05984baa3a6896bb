"""Cases of bits.py on signals: each yields names and values."""

from __future__ import annotations

import contextlib
import itertools
import json

import numpy as np
import scipy.sparse as sp

import taskdict as td
from bits_common import (
    ATOMS,
    DIGITS,
    PARTLY,
    RAW,
    SPARSE,
    TEST,
    TEST64,
    X64,
    Interrupt,
    X,
    Y,
    build,
    error_of,
    interrupted_fit,
    learned,
    npy,
)


def encoding():
    twice, near = np.concatenate([ATOMS, ATOMS[:9]]), np.concatenate([ATOMS, ATOMS[:9] + 1e-7 * ATOMS[9:18]])
    scales = X64[:60] * np.logspace(-100, 100, 60)[:, None]
    inputs = {"float32": X, "float64": X64, "csr": SPARSE, "csr64": SPARSE.astype(np.float64), "scales": scales}
    inputs |= {"fortran": np.asfortranarray(X64[:70]), "strided": X[:90:3], "integers": RAW[:50].astype(np.int16)}
    inputs |= {"zeros": np.zeros((3, 64), np.float32), "none": X[:0], "float16": X[:40].astype(np.float16)}
    settings = {"lasso": {"lambda1": 0.1}, "net": {"lambda1": 0.05, "lambda2": 0.02}, "ridge": {"lambda1": 0.0}}
    settings |= {"positive": {"lambda1": 0.02, "positive": True}, "path": {"lambda1": 0.1, "method": "homotopy"}}
    settings |= {"least": {"lambda1": 0.0, "lambda2": 0.1, "method": "homotopy", "positive": True}}
    for (signals, data), (kind, given) in itertools.product(inputs.items(), settings.items()):
        for atoms, D in {"atoms": ATOMS, "long": 3 * ATOMS, "twice": twice, "near": near}.items():
            for n_threads in (1, 2):
                codes, report = td.sparse_encode(data, D, n_threads=n_threads, return_report=True, **given)
                yield f"{signals} {kind} {atoms} {n_threads}", [codes, report.status, report.kkt, report.n_steps]
        if data.shape[0] == 0:
            continue
        coder = build(td.SparseCoder, ATOMS.astype(np.float32), **given).fit(data)
        back = [
            coder.inverse_transform(coder.transform(data)),
            coder.inverse_transform(coder.transform(data).toarray()),
        ]
        yield f"{signals} {kind} coder", [coder.components_, coder.transform(data), *back]
    for center, (name, data) in itertools.product((True, False), inputs.items()):
        if data.shape[0] and not (center and sp.issparse(data)):
            yield f"UnitNorm {center} {name}", td.UnitNorm(center).transform(data)
    for name, data in inputs.items():
        if data.shape[0] and name not in ("zeros", "scales"):
            yield f"suggest {name}", td.suggest_parameters(data, PARTLY[: data.shape[0]], prefix="a__")


def dictionaries():
    base = {"n_components": 20, "lambda1": 0.1, "batch_size": 64, "max_iter": 25, "random_state": 1}
    variants = {
        "plain": {},
        "net": {"lambda2": 0.05},
        "positive code": {"positive_code": True},
        "tol": {"tol": 0.3, "max_iter": 500},
    }
    variants |= {"positive dictionary": {"positive_dictionary": True}, "given": {"dictionary_init": 2 * ATOMS[:20]}}
    variants |= {
        "nmf": {"positive_code": True, "positive_dictionary": True, "lambda1": 0.01},
        "many": {"n_components": 90},
    }
    close = np.concatenate([X64[:5], X64[:5] + 0.003 * ATOMS[:5], X64[:5], ATOMS[:5]])  # nearly, and quite the same
    variants |= {"close": {"dictionary_init": close}, "unused": {"dictionary_init": np.eye(20, 64) - np.eye(20, 64, 1)}}
    sources = {"float32": X, "float64": X64, "csr": SPARSE, "twice": np.repeat(X[:60], 5, axis=0)}
    for (name, given), (source, data) in itertools.product(variants.items(), sources.items()):
        if source != "twice" or name != "many":
            model = build(td.DictionaryLearning, **{**base, **given}).fit(data)
            yield from learned(f"{name} {source}", model, TEST)
            yield f"{name} {source}.score()", model.score(TEST64)
    for name, stream in streams_of(None):
        yield from learned(f"stream {name}", build(td.DictionaryLearning, **base).fit(stream), TEST)
    model = build(td.DictionaryLearning, **base)
    for start in range(0, 300, 30):
        model.partial_fit(X[start : start + 30])
    yield from learned("partial_fit", model, TEST)
    yield from learned("warm array", model.set_params(warm_start=True, max_iter=20).fit(X), TEST)
    model = build(td.DictionaryLearning, **base, warm_start=True)
    interrupted_fit(model, td.stream(X, random_state=2, preprocess=Interrupt(9)))
    yield from learned("interrupted", model, TEST)
    yield from learned("continued", model.fit(td.stream(X, random_state=2)), TEST)


def streams_of(targets):
    """Yield streams of digits, with these targets or without."""
    y = None if targets is None else np.asarray(targets)
    files = [npy("first.npy", X64[:200]), npy("second.npy", np.asfortranarray(X[200:]))]
    blocks = [X[k : k + 37] if y is None else (X[k : k + 37], y[k : k + 37]) for k in range(0, 500, 37)]
    pairs = None if y is None else "pairs"
    yield "array", td.stream(X64, y, random_state=5)
    yield "sparse", td.stream(SPARSE, y, random_state=6, preprocess=td.UnitNorm(center=False).transform)
    yield "files", td.stream(files, None if y is None else npy("y.npy", y), random_state=7)
    yield "function", td.stream(lambda: iter(blocks), pairs, preprocess=Interrupt())
    if y is None:
        yield "rows", td.streams.ArrayStream(X, rows=np.arange(0, 500, 3), random_state=8)
        yield "images", td.streams.ImageStream(DIGITS.images[:300], shifts=8, bend=0.4, random_state=9)


def streams():
    images = {"bent": {"bend": 0.7}, "list": {"shifts": [(2, -1), (0, 3)]}, "both": {"shifts": 4, "bend": 0.5}}
    images |= {"directions": {"directions": ATOMS[:9], "shifts": 8}, "plain": {}}
    made = [(f"{name} {y is not None}", stream) for y in (None, Y, RAW[:, 2:4]) for name, stream in streams_of(y)]
    for (name, given), data in itertools.product(images.items(), (DIGITS.images, DIGITS.images.astype(np.uint8))):
        stream = td.streams.ImageStream(data[:500], PARTLY, random_state=2, **given)
        made.append((f"{name} {data.dtype}", stream))
        held = td.streams.ImageStream(data[:500], PARTLY, random_state=4, **given)
        yield f"held {name} {data.dtype}", [*held.hold_out(0.25), held.take(40)]
    for number, (name, stream) in enumerate(made):
        take = stream.take_pairs if stream.has_targets else stream.take
        first, state = take(7), stream.state()
        rest, batches = take(700), list(itertools.islice(stream.batches(33), 5))
        yield f"{number} {name}", [first, state, rest, batches, stream.state(), stream.n_signals]
        with contextlib.suppress(ValueError):  # iterators do not go back
            stream.restore(json.loads(json.dumps(state)))
            yield f"{number} {name} again", take(50)
    ended = td.stream(iter([X[:30], X[30], X[31:40]]))
    yield "generator", [list(ended.batches(13)), error_of(ended.take, 1)]


def losses_and_sets():
    rng = np.random.default_rng(1)
    for dtype in (np.float32, np.float64):
        scores, y = (3 * rng.standard_normal((2, 30, 4))).astype(dtype)
        yield f"squared {dtype.__name__}", list(td.losses.SquaredLoss().evaluate(y, scores))
        yield f"logistic {dtype.__name__}", list(td.losses.LogisticLoss().evaluate(np.sign(y), 50 * scores))
        yield f"softmax {dtype.__name__}", list(td.losses.SoftmaxLoss().evaluate(np.arange(30) % 4, 50 * scores))
        for kept in (td.constraints.UnitBall(), td.constraints.UnitBall(True), td.constraints.Ball(0.5)):
            yield f"{kept} {dtype.__name__}", [kept.project(size * scores) for size in (0.01, 1.0, 1e30)]
        yield f"non-negative {dtype.__name__}", td.constraints.NonNegative().project(scores)
    digits = td.datasets.load_bundled()
    yield "bundled", [digits.sha256, digits.images, digits.labels, digits.test_images, digits.test_labels]
