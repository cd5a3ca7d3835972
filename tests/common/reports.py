"""Contents of report pages, made up: points that part by class as the frames go on."""

import struct
import zlib

import numpy as np

from vicinal.reporting.contents import (
    Confusion,
    Contents,
    Embedding,
    Frame,
    History,
    Metric,
    Mistake,
    Mistakes,
    Model,
    Neighbours,
    Score,
    Table,
    Thumbnails,
    Verdict,
)

K = 10


def png(grey):
    """A grey picture as PNG."""

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    height, width = grey.shape
    lines = np.hstack([np.zeros((height, 1), np.uint8), grey.astype(np.uint8)])
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    data = zlib.compress(lines.tobytes())
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def thumbnails(rng, codes, n_pictures, side=16, per_row=50):
    """Pictures of the first points: noise, and a bar at the place of their class."""
    rows = -(-n_pictures // per_row)
    sheet = rng.integers(0, 60, (rows * side, per_row * side))
    for i in range(n_pictures):
        y, x = side * (i // per_row), side * (i % per_row)
        at = codes[i] % side
        sheet[y : y + side, x + at : x + at + 2] = 250
    return Thumbnails(np.arange(n_pictures), png(sheet), side, side, per_row)


def neighbours(rng, codes, k=K):
    """Random neighbours before; after, nine of ten are of the point's class."""
    n = len(codes)
    order = np.argsort(codes, kind="stable")
    first = np.searchsorted(codes[order], codes)
    size = np.bincount(codes)[codes]
    own = order[first[:, None] + rng.integers(0, size[:, None], (n, k))]
    anyone = rng.integers(0, n, (n, k))
    after = np.where(rng.random((n, k)) < 0.9, own, anyone)
    p = np.sort(rng.dirichlet(np.full(k, 0.7), n), axis=1)[:, ::-1]
    return Neighbours(anyone, after, p * 0.4, p * 0.9, "Nearest among the rows learnt from.")


def make_contents(
    n=300, n_classes=3, n_frames=12, d=2, *, seed=0, values=False, pictures=0, columns=3, **changes
):
    """A page about n points; `changes` replace parts of it."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, max(n_classes, 1), n)
    centres = rng.normal(size=(max(n_classes, 1), d)) * 4
    noise = rng.normal(size=(n, d))
    before = rng.normal(size=(n, d)) + 0.3 * centres[codes]
    target = centres[codes] + 0.7 * noise
    frames = [
        Frame(int(7 * i), ((1 - t) * before + t * target).astype(np.float32))
        for i, t in enumerate(np.linspace(0, 1, n_frames) ** 0.5)
    ]
    held_out = rng.random(n) < 0.25
    wrong = rng.random(n) < 0.1
    guess = np.where(wrong, (codes + 1) % max(n_classes, 1), codes)
    classes = [f"class {c}" for c in range(n_classes)]
    embedding = Embedding(
        before=before.astype(np.float32),
        frames=frames,
        before_title="PCA of the scaled columns",
        after_title="NCA, two dimensions",
        codes=codes,
        classes=[] if values else classes,
        values=target[:, 0] if values else None,
        names=[f"row {i}" for i in range(n)],
        held_out=held_out,
        predicted=np.where(held_out, guess, -1) if n_classes > 1 and not values else None,
        target="species",
        note="",
    )
    parts = dict(
        title="What NCA learnt about the flowers",
        sentences=[
            "Nearest neighbours under the learnt metric name the right species more often than "
            "under the distance of the scaled columns.",
            "Of the 12 columns, three carry most of the weight.",
        ],
        facts={"Rows": f"{n:,}", "Columns": "12", "Classes": str(n_classes), "Fit": "1.3 s"},
        scores=[
            Score("Euclidean distance", 0.712, 0.018, note="scaled columns"),
            Score("PCA, 2 components", 0.655, 0.021),
            Score("LDA", 0.874, 0.014, best=True, more={"log loss": 0.31}),
            Score("NCA, 2 components", 0.941, 0.009, learnt=True, more={"log loss": 0.2}),
        ],
        scores_note="Accuracy of 5 nearest neighbours, mean of 5 folds.",
        embedding=embedding,
        neighbors=neighbours(rng, codes),
        table=Table(
            [f"column {c}" for c in range(columns)],
            [[f"{x:.2f}" for x in rng.normal(size=n)] for _ in range(columns)],
        ),
        thumbnails=thumbnails(rng, codes, pictures) if pictures else None,
        metric=_metric(rng),
        history=_history(),
        model=Model(
            "NCA(n_components=2)",
            {"n_components": "2", "alpha": "0.003", "init": "auto"},
            {"vicinal": "0.1.0", "numpy": "2.3.1"},
            'import vicinal\n\nmodel = vicinal.load("model.vic")\nmodel.predict(X)\n',
            "model.vic",
        ),
        verdict=Verdict("better", "NCA is better than LDA."),
        confusion=_confusion(codes, guess, classes),
        mistakes=Mistakes([Mistake("row 7", 7, "class 0", "class 1", 0.93)], "1 of 75 is wrong."),
        left_out={"id": "row numbers"},
        table_notes=["3 of 303 rows have no label and are left out."],
        warnings=["Two columns had no variance and were left out: id, batch."],
    )
    return Contents(**(parts | changes))


def _confusion(codes, guess, classes):
    if not classes:
        return None
    counts = np.zeros((len(classes), len(classes)), int)
    np.add.at(counts, (codes, guess), 1)
    return Confusion(classes, counts)


def _metric(rng, n_features=12):
    A = rng.normal(size=(2, n_features)) * np.linspace(1.5, 0.1, n_features)
    names = [f"feature {i}" for i in range(n_features)]
    M = A.T @ A
    return Metric(names, np.diag(M), M, names, "Weights of the scaled columns.")


def _history():
    i = np.arange(0, 78)
    return History(
        iteration=i.tolist(),
        loss=(0.1 + 0.9 * np.exp(-i / 15)).tolist(),
        held_out=(0.16 + 0.8 * np.exp(-i / 13) + 0.0006 * i).tolist(),
        sentences=["The loss no longer fell after 77 iterations. Held-out rows do nearly as well."],
        score_iteration=list(range(0, 78, 7)),
        train_score=(0.98 - 0.3 * np.exp(-np.arange(12) / 3)).tolist(),
        held_out_score=(0.94 - 0.25 * np.exp(-np.arange(12) / 3)).tolist(),
    )
