"""A small report, as plain data, for the tests of pages."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_iris

from vicinal import NCA
from vicinal.reporting import Contents, report

#: texts that a page must show as texts
HOSTILE = '</script><img src=x onerror="window.hacked=1">&amp;\'`${1}\u2028'


def small_contents(*, hostile: bool = False, images: bool = False, **options: Any) -> Contents:
    """The contents of a report on iris: 75 rows, three classes, a fit of eight iterations.

    Parameters
    ----------
    hostile : bool, default=False
        Whether names of columns, classes and rows, and the title, hold markup.
    images : bool, default=False
        Whether each row has a small picture.
    **options
        Of ``vicinal.report``.
    """
    X, y = load_iris(return_X_y=True, as_frame=True)
    X, y = X[::2].reset_index(drop=True), np.array(["setosa", "versicolor", "virginica"])[y[::2]]
    if hostile:
        X.columns = [f"{HOSTILE}{j}" for j in range(4)]
        X.index = [f"{HOSTILE} row {i}" for i in range(len(X))]
        y = np.char.add(HOSTILE, y)
        options.setdefault("title", HOSTILE)
    if images:
        grey = np.arange(8 * 8, dtype=float).reshape(8, 8)
        options["images"] = np.stack([np.roll(grey, i) for i in range(len(X))])
    options.setdefault("rivals", ["majority", "euclidean", "lda"])
    model = NCA(2, alpha=0.01, max_iter=8, tol=None, random_state=0)
    return report(model, X, y, **options).contents
