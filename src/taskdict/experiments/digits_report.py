"""What ``taskdict reproduce digits`` makes of its options, and what it shows in the end."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from taskdict import datasets
from taskdict.experiments import digits, semi_supervised
from taskdict.experiments.pictures import mosaic, most_used, plot_semi_supervised, save_picture
from taskdict.experiments.runs import Json, RunError, open_folder, write_text
from taskdict.experiments.tables import digits_table, semi_supervised_table
from taskdict.loading import load

ATOMS_SHOWN = 30  # of each class


def table_1_settings(options: argparse.Namespace) -> digits.Settings:
    """Return the settings of the first experiment."""
    if options.labels is not None:
        raise ValueError("--labels is for --semi-supervised.")
    settings = digits.Settings(data_set=options.data_set, recipe=options.recipe or "paper")
    if settings.recipe == "paper" and options.bend is not None:
        raise ValueError("--bend is for --recipe ours: the paper's digits are not bent.")
    if settings.recipe == "ours" and options.rho is not None:
        raise ValueError("--rho is for --recipe paper: the steps of ours are adaptive.")
    if options.quick or options.data_set == "bundled":
        settings = settings.quick()
    given: dict[str, Any] = {
        "sizes": options.sizes,
        "iterations": options.iterations,
        "selection_iterations": options.selection_iterations,
        "seeds": options.seeds,
        "lambda1": options.lambda1,
        "nu": options.nu,
        "rho": options.rho,
        "bends": options.bend,
        "multi_class": options.multi_class,
        "lambda2": options.lambda2,
    }
    chosen: dict[str, Any]
    chosen = {k: tuple(dict.fromkeys(v)) if isinstance(v, list) else v for k, v in given.items() if v is not None}
    return replace(settings, **chosen)


def semi_supervised_settings(options: argparse.Namespace) -> semi_supervised.Settings:
    """Return the settings of the second experiment."""
    for name in ("selection_iterations", "bend", "rho", "multi_class", "lambda2"):
        if getattr(options, name) is not None:
            raise ValueError(f"--{name.replace('_', '-')} is not for --semi-supervised.")
    for name in ("sizes", "lambda1", "nu"):
        if getattr(options, name) is not None and len(getattr(options, name)) > 1:
            raise ValueError(f"--{name} must be one number with --semi-supervised, which chooses nothing but μ.")
    settings = semi_supervised.Settings(data_set=options.data_set, recipe=options.recipe or "paper")
    if options.quick or options.data_set == "bundled":
        settings = settings.quick()
    given: dict[str, Any] = {
        "size": options.sizes and options.sizes[0],
        "iterations": options.iterations,
        "draws": options.seeds and tuple(dict.fromkeys(options.seeds)),
        "lambda1": options.lambda1 and options.lambda1[0],
        "nu": options.nu and options.nu[0],
        "labels": options.labels and tuple(dict.fromkeys(options.labels)),
    }
    return replace(settings, **{key: value for key, value in given.items() if value is not None})


def report(
    settings: digits.Settings | semi_supervised.Settings, folder: Path, *, data: str | None, n_threads: int | None
) -> None:
    """Do an experiment; print its table, and write it and the pictures beside the record."""
    open_folder(folder, "digits" if isinstance(settings, digits.Settings) else "digits, semi-supervised")
    if isinstance(settings, digits.Settings):
        record = digits.reproduce(settings, folder, data=data, n_threads=n_threads)
        text = f"{chosen_words(record)}\n\n{digits_table(record)}\n"
        pictures = save_atoms(record, folder, data)
    else:
        record = semi_supervised.reproduce(settings, folder, data=data, n_threads=n_threads)
        text = f"{semi_supervised_table(record)}\n"
        pictures = [folder / "errors.png"]
        plot_semi_supervised(record, semi_supervised.PAPER, pictures[0])
    write_text(folder / "table.md", text)
    print(f"\n{text}\nall runs together took {record['seconds'] / 60:.1f} minutes")
    print(f"saved {', '.join(str(path) for path in [folder / 'record.json', folder / 'table.md', *pictures])}")


def chosen_words(record: Json) -> str:
    """Say what was chosen, and on what, and what was given."""
    chosen, settings = record["chosen"], record["settings"]
    words = {"lambda1": f"λ1 = {chosen['lambda1']:g}", "nu": f"ν = {chosen['nu']:g}"}
    if chosen["learning_rate"] != "adaptive":
        words["rho"] = f"ρ = {chosen['learning_rate']:g}"
    if chosen["bend"] > 0:
        words["bends"] = f"bent by {chosen['bend']:g} pixels"
    selected = ", ".join(text for name, text in words.items() if len(settings[name]) > 1)
    if selected:
        selected += f", chosen on the last digits of the training set at p = {settings['selection_size']}; "
    given = ", ".join(text for name, text in words.items() if len(settings[name]) <= 1)
    given = f"{given}, given; " if given else ""
    return f"{selected}{given}{settings['iterations']:,} batches of {settings['batch_size']}."


def save_atoms(record: Json, folder: Path, data: str | None) -> list[Path]:
    """Write for each size a picture of the atoms that each class uses most, one row per class.

    A picture whose model is gone is left as it is, so that a folder without models can be added to.
    """
    test = datasets.LOADERS[record["settings"]["data_set"]](data).test_images[:500]
    seed = record["settings"]["seeds"][0]
    paths = []
    for p in record["settings"]["sizes"]:
        name = f"supervised-p{p}-seed{seed}"
        paths.append(folder / f"atoms-p{p}.png")
        if not (folder / "models" / f"{name}.safetensors").exists():
            if paths[-1].exists():
                continue
            run = str(folder / "runs" / f"{name}.json")
            raise RunError(f"the model {name!r} is gone: remove {run!r} to learn it again.")
        model = load(folder / "models" / f"{name}.safetensors")
        codes = model.transform(test)
        n_models = codes.shape[1] // p
        atoms = model.atoms_.reshape(len(model.atoms_), -1)
        rows = []
        for k in range(n_models):
            mine = slice(k * p, (k + 1) * p)
            rows.append(atoms[mine][most_used(codes[:, mine], min(p, ATOMS_SHOWN))])
        save_picture(mosaic(np.concatenate(rows), model.shape_, columns=min(p, ATOMS_SHOWN)), paths[-1])
    return paths
