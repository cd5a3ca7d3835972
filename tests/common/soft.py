"""Learners from other targets, with the labels that all other estimators are given."""

import numpy as np
import scipy.sparse as sp

from vicinal import NCA, PairNCA
from vicinal.storage import names

__all__ = [
    "NCAOfDistributions",
    "NCAOfMatches",
    "PairNCAOfLabels",
    "make_storable",
    "matching",
    "softened",
]


class _Frame(np.ndarray):
    """An array with names of columns, as a data frame has them."""

    columns: list


def softened(y, doubt=0.1):
    """Distributions in which each label has a share of doubt, spread over all classes."""
    classes, codes = np.unique(np.asarray(y), return_inverse=True)
    T = (1 - doubt) * np.eye(len(classes))[codes] + doubt / len(classes)
    frame = T.view(_Frame)
    frame.columns = classes
    return frame


def matching(y, degree=0.75):
    """Rows of one class match to a degree, those next to each other in the table entirely."""
    same = np.asarray(y)[:, None] == np.asarray(y)
    M = degree * same
    M[:-1, 1:][np.eye(len(M) - 1, dtype=bool)] = 1.0
    return sp.csr_array(M * same)


class NCAOfDistributions(NCA):
    """NCA that turns labels into distributions."""

    def fit(self, X, y, sample_weight=None, *, resume_from=None):
        return super().fit(X, softened(y), sample_weight, resume_from=resume_from)


class NCAOfMatches(NCA):
    """NCA that turns labels into matches."""

    def fit(self, X, y, sample_weight=None, *, resume_from=None):
        return super().fit(X, None, sample_weight, matches=matching(y), resume_from=resume_from)


class PairNCAOfLabels(PairNCA):
    """PairNCA whose pairs are rows of one class that follow each other in the table."""

    def fit(self, X, y, *, resume_from=None):
        order = np.argsort(y, kind="stable")
        pairs = np.column_stack([order[:-1], order[1:]])
        pairs = pairs[np.asarray(y)[pairs[:, 0]] == np.asarray(y)[pairs[:, 1]]]
        return super().fit(X, pairs, resume_from=resume_from)

    @property
    def predict(self):
        raise AttributeError("It predicts pairs, not rows.")


def make_storable(monkeypatch):
    """Let model files hold these classes, as they hold those of vicinal."""
    for kind in (NCAOfDistributions, NCAOfMatches, PairNCAOfLabels):
        name, home = f"test.{kind.__name__}", f"{__name__}:{kind.__name__}"
        monkeypatch.setitem(names.HOMES, name, home)
        monkeypatch.setitem(names._BY_HOME, home, name)
