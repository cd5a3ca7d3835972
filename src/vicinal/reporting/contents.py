"""What a report page shows, as plain data.

`Contents` is the border between the two halves of a report: one half computes it from an estimator
and a table, the other turns it into a page and knows nothing of estimators.  Every text in it is
plain text from the data or from us; the page escapes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from vicinal.core.types import Array


@dataclass(frozen=True)
class Score:
    """One line of the comparison: how well a method predicts rows it has not seen.

    ``error`` is the standard error of ``mean``, which allows for overlapping training rows;
    ``learnt`` marks the method that the page is about, and ``best`` the best of the others.
    ``more`` has further measures by their names, such as "log loss": 0.31.
    """

    name: str
    mean: float
    error: float
    learnt: bool = False
    note: str = ""
    best: bool = False
    more: dict[str, float] = field(default_factory=dict)

    @property
    def inside(self) -> str:
        """The name within a sentence: names of people and abbreviations keep their capitals."""
        proper = self.name[1:2].isupper() or self.name.startswith("Euclid")
        the = "the " if self.name in ("Most frequent class", "Mean") else ""
        return self.name if proper else f"{the}{self.name[:1].lower()}{self.name[1:]}"


@dataclass(frozen=True)
class Verdict:
    """Whether the learnt method is better than the best of the others.

    ``kind`` is "better", "level" (no clear difference) or "worse"; ``text`` says so in words.
    """

    kind: str
    text: str


@dataclass(frozen=True)
class Confusion:
    """How often rows of each class were predicted as each class: true classes by predicted ones."""

    classes: list[str]
    counts: Array
    note: str = ""


@dataclass(frozen=True)
class Mistake:
    """A row that was predicted wrongly: its name, its point or -1, what it is, and what was said.

    ``sureness`` is the probability of the predicted class, or NaN; for numbers the texts hold the
    numbers and the sureness is NaN.
    """

    name: str
    point: int
    truth: str
    predicted: str
    sureness: float


@dataclass(frozen=True)
class Mistakes:
    """The rows that were most surely predicted wrongly, the worst first."""

    rows: list[Mistake]
    note: str = ""


@dataclass(frozen=True)
class Frame:
    """The points after an iteration of the fit, as float32 of shape (n, 2) or (n, 3)."""

    iteration: int
    points: Array


@dataclass(frozen=True)
class Embedding:
    """The picture: n points, before and after learning.

    Parameters
    ----------
    before : array of shape (n, 2) or (n, 3)
        The rows under the old metric, by PCA of the scaled columns.
    frames : list of Frame
        The rows after some iterations; the last frame is the learnt map.
    before_title, after_title : str
        What the two pictures are, such as "PCA of the scaled columns".
    codes : int array of shape (n,)
        The class of each point, an index into ``classes``; all zero if there are none.
    classes : list of str
        Names of the classes, in the order of the legend; empty if there are none.
    values : array of shape (n,) or None
        Numbers to colour by, if the target is a number.
    names : list of str
        One name per point, such as its row number or identifier.
    held_out : bool array of shape (n,)
        Points that were not learnt from.
    predicted : int array of shape (n,) or None
        The class that was predicted for each point by a model that had not learnt from it; -1 for
        points without such a prediction.
    target : str
        What the colours show, such as the name of the label column.
    note : str
        What to know about the picture, such as "A sample of 100,000 of 1,000,000 rows is shown."
    """

    before: Array
    frames: list[Frame]
    before_title: str
    after_title: str
    codes: Array
    classes: list[str]
    values: Array | None
    names: list[str]
    held_out: Array
    predicted: Array | None = None
    target: str = ""
    note: str = ""


@dataclass(frozen=True)
class Neighbours:
    """The nearest training rows of each point, under the old and the new metric.

    Indices of points, of shape (n, k), nearest first, -1 where there are fewer than k; and the
    probabilities p_ij of shape (n, k) that the point picks them (NaN where the method has none).
    ``note`` says how they were computed.
    """

    before: Array
    after: Array
    before_p: Array
    after_p: Array
    note: str = ""


@dataclass(frozen=True)
class Table:
    """What to show of a point: some columns of its row, as text."""

    columns: list[str]
    cells: list[list[str]]  # cells[column][point]


@dataclass(frozen=True)
class Thumbnails:
    """Small pictures of some points, as one PNG with the pictures in rows of ``per_row``."""

    points: Array  # indices of the points that have a picture, in the order of the sheet
    png: bytes
    width: int
    height: int
    per_row: int


@dataclass(frozen=True)
class Metric:
    """What the metric weighs: importances of the columns, and the matrix for a heat map.

    ``features`` are the columns of the table; an encoded column has the importances of all its
    features together, and ``parts`` says what they are in it, in words.
    """

    features: list[str]
    importances: Array | None
    matrix: Array | None = None
    matrix_features: list[str] = field(default_factory=list)
    note: str = ""
    parts: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class History:
    """Convergence: losses by iteration, and the comparison of training with held-out rows.

    ``held_out`` has the losses of held-out rows if the fit recorded them.  ``train_score`` and
    ``held_out_score`` are the scores (``score_name``: accuracy, or R²) of rows that were learnt
    from and of others, after the iterations ``score_iteration``; empty if none were recorded.
    """

    iteration: list[int]
    loss: list[float]
    held_out: list[float | None] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)
    score_name: str = "accuracy"
    score_iteration: list[int] = field(default_factory=list)
    train_score: list[float] = field(default_factory=list)
    held_out_score: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Model:
    """The model and how to load it.

    ``parameters`` are those that were set or chosen; all others are at their defaults.
    """

    name: str
    parameters: dict[str, str]
    versions: dict[str, str]
    code: str
    file: str | None = None


@dataclass(frozen=True)
class Contents:
    """A whole page; a part that is None is left out.

    Parameters
    ----------
    title : str
    sentences : list of str
        What the page is about, the verdict, and what was learnt, in plain words.
    facts : dict of str
        Rows, columns, classes, method, time of the fit: short texts by short names.
    scores : list of Score
    scores_note : str
        How the scores were computed.
    score_name : str
        What a score is: "accuracy" and "neighbours kept" are shares from 0 to 1, "R²" is at most 1.
    warnings : list of str
        What the reader must know, such as over-fitting.
    verdict : Verdict or None
    confusion : Confusion or None
    mistakes : Mistakes or None
    left_out : dict of str
        Why columns of the table were not used, by their names.
    table_notes : list of str
        What else was done with the table, such as rows that have no label.
    """

    title: str
    sentences: list[str]
    facts: dict[str, str]
    scores: list[Score]
    scores_note: str
    embedding: Embedding
    neighbors: Neighbours | None = None
    table: Table | None = None
    thumbnails: Thumbnails | None = None
    metric: Metric | None = None
    history: History | None = None
    model: Model | None = None
    warnings: list[str] = field(default_factory=list)
    score_name: str = "accuracy"
    verdict: Verdict | None = None
    confusion: Confusion | None = None
    mistakes: Mistakes | None = None
    left_out: dict[str, str] = field(default_factory=dict)
    table_notes: list[str] = field(default_factory=list)
