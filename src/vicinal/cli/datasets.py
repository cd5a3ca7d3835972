"""``vicinal datasets``: data sets to try the other commands on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from vicinal.cli import _options, _work
from vicinal.cli._console import Console
from vicinal.cli._files import File
from vicinal.cli._options import Whole, option

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

EXAMPLES = """
vicinal datasets
vicinal datasets wine -o wine.csv
vicinal datasets digits --part train -o train.parquet
vicinal datasets digits --part test -o test.parquet
vicinal datasets rings --seed 1 | vicinal fit - --label label --dim 2 -o rings.vic
"""


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


@_options.command("datasets", EXAMPLES)
@click.argument("name", type=_SetName(path_type=str), required=False)
@option(
    "Table", "--part", click.Choice(["all", "train", "test"]), "Training or test rows: by the "
    "official split of the set if it has one, else 70 % and 30 % of each class, drawn by --seed.",
    default="all",
)  # fmt: skip
@option("Table", "--seed", Whole(0), "Draws the rows of a synthetic set, and a split.", default=0)
@_options.SAFE_CELLS
@_options.OUTPUT_TABLE
def command(
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
