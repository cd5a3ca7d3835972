"""What README says of other libraries, seen on this machine: ``python benchmarks/peer_facts.py``.

Prints markdown; ``--output`` also writes it to results/peer_facts.md.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import warnings

import numpy as np
from _common import add_output, facts, read_options, table, write
from sklearn.datasets import load_digits, load_wine
from sklearn.neighbors import NeighborhoodComponentsAnalysis as PeerNCA
from threadpoolctl import threadpool_limits

from vicinal import NCA

#: run where metric-learn is on the path, against the scikit-learn of this environment
METRIC_LEARN = """
import sklearn, metric_learn
from sklearn.datasets import load_iris
X, y = load_iris(return_X_y=True)
for name in ("NCA", "LMNN", "RCA_Supervised", "LFDA", "MLKR", "ITML_Supervised"):
    try:
        getattr(metric_learn, name)().fit(X, y)
        print(f"{name}: fits")
    except Exception as error:
        print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0]}")
"""


def large_columns() -> str:
    """Iterations on wine as it is, and with its columns multiplied by 1000, at full rank."""
    X, y = load_wine(return_X_y=True)
    rows = []
    for factor in (1.0, 1000.0):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            peer = PeerNCA(random_state=0).fit(factor * X, y)
        ours = NCA(random_state=0).fit(factor * X, y)
        rows.append([f"{factor:g}", peer.n_iter_, len(caught), ours.n_iter_])
    header = ["columns times", "iterations of scikit-learn", "warnings", "iterations of vicinal"]
    return table(header, rows)


def thread_counts() -> str:
    """Largest difference of the map learnt on one thread and on all."""
    X, y = load_digits(return_X_y=True)
    X, y = X[:600], y[:600]
    rows = []
    for name, model in (
        ("scikit-learn", PeerNCA(2, random_state=0, max_iter=30)),
        ("vicinal", NCA(2, random_state=0, max_iter=30)),
    ):
        maps = []
        for limit in (1, None):
            with threadpool_limits(limit), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                maps.append(model.fit(X, y).components_.copy())
        size = np.abs(maps[0]).max()
        rows.append([name, f"{np.abs(maps[0] - maps[1]).max() / size:.1e}"])
    return table(["library", "relative difference of 1 thread and all"], rows)


def metric_learn() -> str:
    """What metric-learn's last release says to the scikit-learn of this environment."""
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--target", folder]
        subprocess.run([*pip, "metric-learn"], check=True)
        program = f"import sys; sys.path.insert(0, {folder!r})\n{METRIC_LEARN}"
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    lines = done.stdout.splitlines() or [done.stderr.strip().splitlines()[-1]]
    return "\n".join(f"- {line}" for line in lines)


def main() -> None:
    """Print the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_output(parser, "peer_facts")
    options = read_options(parser)
    report = "\n\n".join(
        [
            "# Facts about other libraries",
            facts(),
            "## NCA on wine, full rank, all columns multiplied by a number",
            large_columns(),
            "## NCA on 600 rows of digits (d = 2, 30 iterations), one thread and all",
            thread_counts(),
            "## metric-learn against this scikit-learn, on iris",
            metric_learn(),
        ]
    )
    print(report)
    write(report, options.output)


if __name__ == "__main__":
    main()
