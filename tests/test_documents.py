"""The documents: code blocks, docstrings and examples run, links work, tables agree with their records."""

import ast
import dataclasses
import doctest
import enum
import importlib
import inspect
import json
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import taskdict
from taskdict.experiments.catalogue import all_experiments

ROOT = Path(__file__).parents[1]
MODULES = [m.name for m in pkgutil.walk_packages(taskdict.__path__, "taskdict.")]


DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_code_blocks_run(document, capsys):
    blocks = re.findall(r"```python\n(.*?)```", document.read_text(), flags=re.DOTALL)
    assert blocks
    names: dict = {}
    for block in blocks:  # one after the other, as a reader would
        exec(compile(block, str(document), "exec"), names)
    shown = capsys.readouterr().out
    assert shown
    if document.stem == "README":
        ours, kernel = map(float, shown.split()[:2])
        assert ours > kernel + 0.05
        assert "(1797, 100)" in shown
        assert "40 float32" in shown
        assert "(1797, 180)" in shown
    if document.stem == "maths":
        numeric, analytic = map(float, shown.split())
        assert numeric == pytest.approx(analytic, rel=1e-4)


PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")])


def anchors(page):
    """Return the names of a page's headings, as in links to them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)]+)\)|<img src=\"([^\"]+)\"", document.read_text()):
        path, _, anchor = (target[0] or target[1]).partition("#")
        if "://" not in path:
            page = document.parent / path if path else document
            assert page.exists(), path
            assert not anchor or anchor in anchors(page), f"{path}#{anchor}"


def test_contributing_names_files_that_exist():
    """The tour stays true when files move."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"`([\w/.-]+/[\w.-]*)`", text)) | set(re.findall(r"`(\w+\.py)`", text))
    assert len(named) > 20
    for name in named - {"build/campaign"}:  # made by the campaign
        assert any((folder / name).exists() for folder in (ROOT, ROOT / "src" / "taskdict")), name


# The page of docs/results that shows the tables of a command.
RESULT_PAGES = {"digits": "digits.md", "halftoning": "restoration.md", "sensing": "sensing.md", "art": "art.md"}
EXPERIMENTS = {experiment.name: experiment for experiment in all_experiments()}
RECORDS = sorted((ROOT / "docs" / "results").glob("*/record.json"))


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.parent.name)
def test_tables_are_those_of_the_records(path):
    """The page and the table.md beside the record show the table of the record."""
    record = json.loads(path.read_text())
    experiment = EXPERIMENTS[record["experiment"]]
    page = RESULT_PAGES[experiment.command.name]
    table = experiment.report.table(record)
    assert table in (path.parent / "table.md").read_text()
    shown = (ROOT / "docs" / "results" / page).read_text()
    assert table in shown
    assert f"({path.parent.name}/record.json)" in shown
    assert record["seconds"] > 0
    digests = record["data"]["sha256"]
    assert all(len(digest) == 64 for digest in (digests.values() if isinstance(digests, dict) else [digests]))


@pytest.mark.parametrize("module", MODULES)
def test_docstrings(module):
    assert doctest.testmod(importlib.import_module(module)).failed == 0


def test_public_functions_have_examples():
    for name in taskdict.__all__:
        thing = getattr(taskdict, name)
        is_record = isinstance(thing, type) and (
            issubclass(thing, Exception) or dataclasses.is_dataclass(thing) or issubclass(thing, enum.Enum)
        )
        if callable(thing) and not is_record and name != "load":
            assert ">>>" in thing.__doc__, name


def public_functions():
    """Yield the public functions, and the methods and properties of the public classes, with their names."""
    for name in taskdict.__all__:
        thing = getattr(taskdict, name)
        if inspect.ismodule(thing):
            names = getattr(thing, "__all__", [key for key in vars(thing) if not key.startswith("_")])
            found = {f"{name}.{key}": getattr(thing, key) for key in names}
        else:
            found = {name: thing}
        for full, each in found.items():
            if inspect.isclass(each):
                for key, member in inspect.getmembers(each):
                    function = member.fget if isinstance(member, property) else member
                    if inspect.isfunction(function) and not key.startswith("_"):
                        yield f"{full}.{key}", function
            elif inspect.isfunction(each):
                yield full, each


def test_return_values_have_types():
    any_estimator = {"load", "PatchVotingClassifier.classifier_"}
    for name, function in public_functions():
        if function.__module__.startswith("taskdict") and name.removeprefix("images.") not in any_estimator:
            assert inspect.signature(function).return_annotation not in (inspect.Signature.empty, "Any"), name


QUICK = {"large_dictionary.py": ("2100", "3"), "inpaint.py": ("inpainted.png", "96")}  # arguments for a quick look
EXAMPLES = [(script.name, QUICK.get(script.name, ())) for script in sorted((ROOT / "examples").glob("*.py"))]
EXAMPLES += [("restore_images.py", (kind, "restored.png")) for kind in ("deblur", "upscale")]


@pytest.mark.parametrize(("script", "arguments"), EXAMPLES)
def test_examples_run(script, arguments, tmp_path):
    run = subprocess.run(
        [sys.executable, ROOT / "examples" / script, *arguments],
        capture_output=True,
        text=True,
        env={"PYTHONUTF8": "1"},
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout
    if script == "restore_images.py":
        decibels = {line[:18].strip(): float(line[18:].split()[0]) for line in run.stdout.splitlines() if "dB" in line}
        ours = ("degraded", "taskdict", "td.images.denoise")
        assert decibels["taskdict"] > max(value for name, value in decibels.items() if name not in ours)
        assert decibels["taskdict"] > decibels["degraded"] + 0.5
    for line in run.stdout.splitlines():
        if line.startswith("saved "):
            assert (tmp_path / line.removeprefix("saved ")).stat().st_size > 0


SCRIPTS = sorted([*ROOT.glob("benchmarks/*.py"), *ROOT.glob("examples/*.py")])


FEW = ("mnist, few labels", "heartbeats, few labels")
TIME = "time / SVC's, median"


def numbers_of_the_suite():
    """Return the cells of the page on when to use it, for each data set, from the record of the suite."""
    record = json.loads((ROOT / "benchmarks" / "results" / "suite.json").read_text())
    rows = {}
    for name, row in record["data sets"].items():
        means = {method: f"{np.mean(100 * np.array(found['scores'])):.1f}" for method, found in row["methods"].items()}
        rest = {method: means[method] for method in ("boosting", "neighbours", "MLP")}
        rows[name] = row["size"], means["taskdict"], means["logistic or ridge"], means["SVC or SVR"], rest
    return record, rows


def test_when_to_use_it_has_the_numbers_of_the_suite():
    page = (ROOT / "docs" / "when-to-use.md").read_text()
    record, rows = numbers_of_the_suite()
    shown = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("|")
    ]
    found = {cells[0]: cells[1:] for cells in shown if cells[0] in rows}
    assert len(found) > 30
    for name, (size, ours, linear, kernel, best) in found.items():
        *expected, rest = rows[name]
        assert [size, ours, linear, kernel] == expected, name
        score, method = best.rstrip(")").split(" (")
        assert rest[method] == score == max(rest.values(), key=float), name
    summary = record["summary"]["signals and images"]
    table = {cells[0]: cells[1:] for cells in shown}
    assert table["mean rank"] == [f"{summary[method]['mean rank']:.2f}" for method in record["methods"]]
    name = "within a point of the best, %"
    assert table[name] == [f"{summary[method][name]:.0f}" for method in record["methods"]]
    alone = {
        row: 100 * np.mean(record["data sets"][row]["methods"]["taskdict, labelled part"]["scores"]) for row in FEW
    }
    assert "alone gives {:.1f} on MNIST, and {:.1f} on the heartbeats".format(*alone.values()) in " ".join(page.split())
    ours = summary["taskdict"]
    claim = f"rank of {ours['mean rank']:.1f} of 6 beside .* best on {ours[name]:.0f} %, in {ours[TIME]:.0f} times the"
    assert re.search(claim, " ".join((ROOT / "README.md").read_text().split()))
    behind = record["summary"]["tables"]["taskdict"]["points behind the linear model, at most"]
    for text in (page, (ROOT / "README.md").read_text()):
        assert f"{behind:.1f} points" in " ".join(text.split())


def test_the_promises_of_the_defaults_hold_on_the_suite():
    record, _ = numbers_of_the_suite()
    ours = record["summary"]["signals and images"]["taskdict"]
    assert ours["mean rank"] <= 2.5
    assert ours["within a point of the best, %"] >= 50
    assert ours[TIME] <= 10
    assert record["summary"]["tables"]["taskdict"]["points behind the linear model, at most"] <= 2


def test_what_is_said_of_large_dictionaries_holds_in_the_record():
    record = json.loads((ROOT / "benchmarks" / "results" / "large.json").read_text())
    excess = [
        windowed["objectives"][at] / full["objectives"][at] - 1
        for row in record["rows"]
        for full, windowed in zip(row["runs"]["full"], row["runs"]["window"], strict=True)
        for at in range(len(row["stops"]))
    ]
    assert len({row["work"] for row in record["rows"]}) == 2
    assert {row["p"] for row in record["rows"]} == {2048}
    said = re.search(r"objective within (\d\.\d) % on", " ".join((ROOT / "docs" / "choosing.md").read_text().split()))
    assert said is not None
    assert max(map(abs, excess)) <= float(said[1]) / 100 <= 0.01


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_scripts_import_what_there_is(script):
    """Benchmarks run by hand: they must not be left behind when names move."""
    for node in ast.walk(ast.parse(script.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "taskdict":
            module = importlib.import_module(node.module)
            for alias in node.names:
                assert hasattr(module, alias.name) or f"{node.module}.{alias.name}" in MODULES, alias.name


def test_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+", taskdict.__version__)
