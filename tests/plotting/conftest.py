"""Figures are drawn without a window, and closed after each test."""

from types import SimpleNamespace

import matplotlib
import matplotlib.pyplot as plt
import pytest

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="session")
def wine():
    """Wine with string labels, halved, and NCA in two dimensions learnt from one half."""
    from sklearn.datasets import load_wine

    from vicinal import NCA

    data = load_wine(as_frame=True)
    y = data.target_names[data.target]
    X, y, X_test, y_test = data.data[::2], y[::2], data.data[1::2], y[1::2]
    nca = NCA(2, alpha=0.01, random_state=0).fit(X, y)
    return SimpleNamespace(
        X=X, y=y, X_test=X_test, y_test=y_test, nca=nca, names=list(data.data.columns),
        held_out={"X_test": X_test, "y_test": y_test},
    )  # fmt: skip


@pytest.fixture(scope="session")
def diabetes():
    """Numbers instead of classes, and MLKR."""
    from sklearn.datasets import load_diabetes

    from vicinal import MLKR

    X, y = load_diabetes(return_X_y=True)
    mlkr = MLKR(n_components=2, alpha=0.01, max_iter=30, random_state=0).fit(X[:150], y[:150])
    return SimpleNamespace(X=X[:150], y=y[:150], X_test=X[150:220], y_test=y[150:220], mlkr=mlkr)
