"""The table of the experiment on handwritten digits, and images of atoms."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from taskdict import datasets
from taskdict._files.registry import load
from taskdict.experiments.digits import PAPER_ERRORS
from taskdict.experiments.figures import mosaic, most_used, save_image
from taskdict.experiments.markdown import mean_and_range, number, row, rule
from taskdict.experiments.record import Json, is_small
from taskdict.experiments.runner import RunError

ATOMS_SHOWN = 30  # of each class
DIGITS_TO_RANK = 500  # whose codes say which atoms are used most


def describe(record: Json) -> str:
    """Return the parameters that were chosen, with the data that they were chosen on, and those that were given."""
    chosen, settings = record["chosen"], record["settings"]
    words = {"lambda1": f"λ1 = {chosen['lambda1']:g}", "nu": f"ν = {chosen['nu']:g}"}
    if chosen["learning_rate"] != "adaptive":
        words["rho"] = f"ρ = {chosen['learning_rate']:g}"
    if chosen["bend"] > 0:
        words["bends"] = f"distorted by {chosen['bend']:g} pixels"
    selected = ", ".join(text for name, text in words.items() if len(settings[name]) > 1)
    if selected:
        selected += f", chosen on the last digits of the training set at p = {settings['selection_size']}; "
    given = ", ".join(text for name, text in words.items() if len(settings[name]) <= 1)
    given = f"{given}, given; " if given else ""
    return f"{selected}{given}{settings['iterations']:,} batches of {settings['batch_size']}."


def table(record: Json) -> str:
    """Return the errors for each size: of the paper, and ours, averaged over the seeds, with their range."""
    sizes = record["settings"]["sizes"]
    paper = {} if is_small(record) else PAPER_ERRORS.get(record["data"]["name"], {})
    lines = [
        row(["test error in percent", *(f"p = {p}" for p in sizes)]),
        rule(1 + len(sizes)),
    ]
    for kind in ("unsupervised", "supervised"):
        if kind in paper:
            lines.append(row([f"{kind}, the paper", *(number(paper[kind].get(p)) for p in sizes)]))
        for key, words in (("error", ""), ("pooled_error", ", test-time augmentation")):
            found = [errors(record, kind, p, key) for p in sizes]
            if any(found):
                lines.append(row([f"{kind}, measured{words}", *(mean_and_range(values) for values in found)]))
    return "\n".join(lines)


def errors(record: Json, kind: str, p: int, key: str) -> list[float]:
    """Return the errors of the runs of a kind and size, one for each seed."""
    runs = [run for run in record["results"] if run["settings"]["kind"] == kind and run["settings"]["p"] == p]
    return [run[key] for run in runs if key in run]


def figures(record: Json, folder: Path, data: str | None) -> list[Path]:
    """Write, for each size, an image of the atoms that each class uses most, one row per class.

    An image whose model was removed is left as it is, so that a folder without models can be extended.
    """
    test = datasets.LOADERS[record["settings"]["data_set"]](data).test_images[:DIGITS_TO_RANK]
    seed = record["settings"]["seeds"][0]
    paths = []
    for p in record["settings"]["sizes"]:
        name = f"supervised-p{p}-seed{seed}"
        paths.append(folder / f"atoms-p{p}.png")
        if not (folder / "models" / f"{name}.safetensors").exists():
            if paths[-1].exists():
                continue
            run = str(folder / "runs" / f"{name}.json")
            raise RunError(f"the model {name!r} was removed: remove {run!r} too to learn it again.")
        model = load(folder / "models" / f"{name}.safetensors")
        codes = model.transform(test)
        n_models = codes.shape[1] // p
        atoms = model.atoms_.reshape(len(model.atoms_), -1)
        rows = []
        for k in range(n_models):
            own = slice(k * p, (k + 1) * p)
            rows.append(atoms[own][most_used(codes[:, own], min(p, ATOMS_SHOWN))])
        save_image(mosaic(np.concatenate(rows), model.shape_, columns=min(p, ATOMS_SHOWN)), paths[-1])
    return paths
