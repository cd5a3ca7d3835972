"""Commands to begin with: ``vicinal demo``, ``datasets`` and ``completion``."""

from __future__ import annotations

import os
import shlex
import time
from pathlib import Path
from typing import Any

import click
from click.shell_completion import get_completion_class

from vicinal.cli import _options, _work
from vicinal.cli._console import Console
from vicinal.cli._files import File
from vicinal.cli._options import Whole, option

#: titles, and the commands under them
CHAPTERS = (
    (
        "Three rings in a plane, hidden among four columns of noise. The Euclidean distance and "
        "PCA see the noise, LDA sees classes of the same mean; NCA finds the plane.",
        (
            "datasets rings -o {folder}/rings.csv",
            "evaluate {folder}/rings.csv --label label --dim 2 --folds 3",
            "plot {folder}/rings.csv --label label -o {folder}/rings.png",
            "report {folder}/rings.csv --label label --dim 2 -o {folder}/rings.html",
        ),
    ),
    (
        "Handwritten digits of 64 pixels, mapped to a plane by a network. A fifth of the rows on "
        "the page was held out.",
        (
            "datasets digits -o {folder}/digits.csv",
            "report {folder}/digits.csv --label label --dim 2 --set mapping=mlp --images 8x8 "
            "--title Digits --model-out {folder}/digits.vic -o {folder}/digits.html",
            "info {folder}/digits.vic",
        ),
    ),
)


@_options.command("""
vicinal demo
vicinal demo -o /tmp/vicinal-demo
""")
@_options.option(
    "Output", "-o --output", click.Path(file_okay=False, path_type=Path),
    "Where to write tables, pictures, the page and the model.", default=Path("demo"),
    metavar="FOLDER",
)  # fmt: skip
@_options.FORCE
def demo(console: Console, output: Path) -> None:
    """Learn on two built-in data sets, and show each command, to be repeated on your own table.

    Writes tables, a picture, a page to open in a browser, and a model file.
    """
    from vicinal.cli._group import check_part, run_part

    output.mkdir(parents=True, exist_ok=True)
    chapters = [
        (title, [[word.format(folder=output) for word in shlex.split(line)] for line in lines])
        for title, lines in CHAPTERS
    ]
    for _, commands in chapters:
        for words in commands:  # before the first of them writes anything
            check_part(words, console.part())
    began, ran = time.perf_counter(), []
    for title, commands in chapters:
        _say(console, f"\n{title}\n")
        for words in commands:
            line, part = shlex.join(["vicinal", *words]), console.part()
            _say(console, f"$ {line}")
            run_part(words, part)
            ran.append({"command": line, **part.told})
            _say(console, "")
    seconds = time.perf_counter() - began
    pages = [output / "rings.html", output / "digits.html"]
    console.result(
        f"Done in {seconds:.0f} s. Open {pages[0]} and {pages[1]} in a browser, and click on a "
        "point.\n"
        "Repeat it on a table of your own:\n"
        "  vicinal evaluate TABLE.csv --label COLUMN\n"
        "  vicinal report TABLE.csv --label COLUMN -o report.html",
        {"folder": output, "reports": pages, "seconds": round(seconds, 1), "commands": ran},
    )


def _say(console: Console, text: str) -> None:
    if not console.as_json:
        click.echo(text)


#: synthetic sets: the function that draws them, its arguments, and what is special about them
SYNTHETIC: dict[str, tuple[str, dict[str, Any], str]] = {
    "rings": (
        "make_rings",
        {"n_classes": 3, "radial_noise": 0.05, "n_noise": 4},
        "three rings in a plane, hidden among four columns of noise",
    ),
    "stripes": ("make_stripes", {}, "long thin stripes of two classes"),
    "histograms": ("make_histograms", {}, "histograms of three classes, for chi2-lmnn"),
}


class _SetName(File):
    """The name of a set, which may be that of a file in the folder VICINAL_DATA."""

    def check_readable(self, path: Path) -> None:
        """Nothing: the set may be elsewhere."""

    def path(self, value: Any) -> Path | None:
        """The file, which need not exist."""
        folder = os.environ.get("VICINAL_DATA")
        return Path(folder) / f"{value}.npz" if folder else None

    def shell_complete(self, ctx: Any, param: Any, incomplete: str) -> list[Any]:
        """Nothing: the names of files are no names of sets."""
        return []


@_options.command("""
vicinal datasets
vicinal datasets wine -o wine.csv
vicinal datasets digits --part train -o train.parquet
vicinal datasets digits --part test -o test.parquet
vicinal datasets rings --seed 1 | vicinal fit - --label label --dim 2 -o rings.vic
""")
@click.argument("name", type=_SetName(path_type=str), required=False)
@option(
    "Table", "--part", click.Choice(["all", "train", "test"]), "Training or test rows: by the "
    "official split of the set if it has one, else 70 % and 30 % of each class, drawn by --seed.",
    default="all",
)  # fmt: skip
@option("Table", "--seed", Whole(0), "Draws the rows of a synthetic set, and a split.", default=0)
@_options.SAFE_CELLS
@_options.OUTPUT_TABLE
def datasets(
    console: Console, name: str | None, output: str, part: str, seed: int, safe_cells: bool
) -> None:
    """List data sets, or write one as a table.

    Without NAME, lists the sets that are here: those that scikit-learn ships, synthetic ones, and
    those in the folder that the environment variable VICINAL_DATA names. Any other name is looked
    up at OpenML. The last column of the table is 'label', the name of the class, or 'target', a
    number.
    """
    if name is None:
        console.result(*_listing())
        return
    bunch = _dataset(name, seed)
    frame = _as_frame(bunch)
    if part != "all":
        frame = frame[_is_train(bunch, seed) == (part == "train")]
    _work.write(console, frame.reset_index(drop=True), output, name, safe_cells)


def _listing() -> tuple[str, dict[str, Any]]:
    """The sets that are here, as text and as data."""
    from vicinal.datasets import available

    here = available()
    folder = [name for name in here["folder"] if name not in here["builtin"]]
    lines = ["Built in (scikit-learn):", *(f"  {name}" for name in here["builtin"])]
    lines += ["Synthetic:", *(f"  {name:<12} {about}" for name, (_, _, about) in SYNTHETIC.items())]
    if folder:
        lines += ["In the folder VICINAL_DATA:", *(f"  {name}" for name in folder)]
    lines.append("\nvicinal datasets NAME -o NAME.csv writes one.")
    return "\n".join(lines), {**here, "synthetic": list(SYNTHETIC)}


def _dataset(name: str, seed: int) -> Any:
    """A set by its name, with the attributes of `vicinal.datasets.load`."""
    import numpy as np
    from sklearn.utils import Bunch

    from vicinal import datasets

    if name not in SYNTHETIC:
        return datasets.load(name)
    function, arguments, _ = SYNTHETIC[name]
    X, y = getattr(datasets, function)(**arguments, random_state=seed)
    return Bunch(
        data=X, target=y, feature_names=[f"x{j + 1}" for j in range(X.shape[1])],
        target_names=np.array([f"class {c + 1}" for c in range(y.max() + 1)]), is_train=None,
    )  # fmt: skip


def _as_frame(bunch: Any) -> Any:
    """A set as a data frame, its label last."""
    import pandas as pd

    frame = pd.DataFrame(bunch.data, columns=list(bunch.feature_names))
    if len(bunch.target_names):
        return frame.assign(label=bunch.target_names[bunch.target])
    return frame.assign(target=bunch.target)


def _is_train(bunch: Any, seed: int) -> Any:
    """Which rows are for training."""
    import numpy as np
    from sklearn.model_selection import train_test_split

    if bunch.is_train is not None:
        return bunch.is_train
    rows = np.arange(len(bunch.data))
    strata = bunch.target if len(bunch.target_names) else None
    train, _ = train_test_split(rows, test_size=0.3, stratify=strata, random_state=seed)
    return np.isin(rows, train)


@_options.command("""
Bash:  echo 'eval "$(vicinal completion bash)"' >> ~/.bashrc
Zsh:   echo 'eval "$(vicinal completion zsh)"' >> ~/.zshrc
Fish:  vicinal completion fish > ~/.config/fish/completions/vicinal.fish
""")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(console: Console, shell: str) -> None:
    """Print the script that completes commands in a shell.

    Run one of the lines below once; a new shell then completes commands, options, methods and files
    by the tab key.
    """
    from vicinal.cli._group import vicinal

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(vicinal, {}, "vicinal", "_VICINAL_COMPLETE").source()
    console.result(script, {"shell": shell, "script": script})
