"""`partial_fit` on a stream, in one pass and bounded memory, against `fit` on the same rows."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from reproduce.framework import protocol
from reproduce.framework.experiment import Claim, Done, Experiment, Job
from reproduce.framework.pages import table
from reproduce.framework.protocol import knn, stratified
from reproduce.framework.statistics import Summary
from reproduce.own.paired import figure, gain, over_sets, present, scores, told_over_sets

SETS = ("landsat", "usps9298", "magic")

#: rows of a batch, rows seen at which the stream is scored, rows that score it
BATCH, SEEN, JUDGES = 500, (500, 1000, 2000, 4000), 1500

RANK, ALPHA = 10, 3e-3

#: rows that the short memory holds
KEPT = 1000

FIT, FIT_KEPT = "fit", "fit, 1,000 rows"
STREAM, STREAM_KEPT, SORTED = "stream", "stream, 1,000 kept", "stream, sorted"
SHORT, LONG = "stream, short steps", "stream, long steps"
START, AFTER = "stream, no first run", "stream after fit"
WAYS = (FIT, STREAM, SHORT, LONG, START, AFTER, FIT_KEPT, STREAM_KEPT, SORTED)
#: rows of a step with defaults, of a short and of a long one
STEP, SHORT_STEP, LONG_STEP = 200, 50, 500
#: ways whose maps are judged apart from the rows that they remember
JUDGED = (FIT, STREAM, SHORT, LONG, START, AFTER)
#: sets of a method, and the most rows of its streams: KNCA takes several times as long as NCA
METHODS = {"NCA": (SETS, 4000), "KNCA": (("landsat",), 2000)}

SPLITS = 10


def jobs(splits: int | None) -> Iterator[Job]:
    """Every set, split and method; all ways within the job, on the same rows."""
    for split, method in product(range(splits or SPLITS), METHODS):
        for name in METHODS[method][0]:
            yield {"data": name, "split": split, "method": method}


def work(data: str, split: int, method: str) -> dict[str, Any]:
    """Test accuracy by rows seen, of streams and of fits on the same rows."""
    X, y = protocol.data(data)
    train, test = stratified(y, split)
    train, test = train[: METHODS[method][1]], test[:JUDGES]
    seen = [n for n in SEEN if n <= len(train)] or [len(train)]
    result: dict[str, Any] = {}
    maps: dict[str, Any] = {}

    def judged(way: str, n: int, model: Any) -> None:
        result[f"{way}, {n}"] = float(model.score(X[test], y[test]))
        maps[f"{way}, {n}"] = model

    for n in seen:
        began = time.process_time()
        judged(FIT, n, _model(method, split).fit(X[train[:n]], y[train[:n]]))
        result[f"core seconds, {FIT}, {n}"] = time.process_time() - began
        # what a memory of this many rows can hold of the rows seen so far, learnt from at once
        some = np.random.RandomState(split).permutation(n)[:KEPT]
        if n > KEPT:
            model = _model(method, split).fit(X[train[some]], y[train[some]])
        judged(FIT_KEPT, n, model if n > KEPT else maps[f"{FIT}, {n}"])
    for way, order, parameters in _streams(train, y):
        began = time.process_time()
        model = _model(method, split)
        first = X[order[:BATCH]], y[order[:BATCH]]
        if way == AFTER:
            model.fit(*first)
        if way == START:  # the map that a fit begins with, which is then used as given
            begun = _model(method, split, tol=1e300).fit(*first)
            model.set_params(init=begun.components_)
        model.set_params(**parameters)
        for n in _streamed(model, X, y, order):
            if n in seen:
                judged(way, n, model)
        result[f"core seconds, {way}, {seen[-1]}"] = time.process_time() - began
    last = train[: seen[-1]]
    for way, n in [*product(JUDGED, seen[-1:]), (FIT, seen[0])]:
        Z, Z_test = maps[f"{way}, {n}"].transform(X[last]), maps[f"{way}, {n}"].transform(X[test])
        result[f"5-NN, {way}, {n}"] = knn(Z, y[last], Z_test, y[test], 5)
    return result


def _model(method: str, seed: int, **parameters: Any) -> Any:
    import vicinal

    return getattr(vicinal, method)(RANK, alpha=ALPHA, random_state=seed, **parameters)


def _streams(train: Any, y: Any) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """The ways to stream: the order of the rows, the rows remembered, the rows of a step."""
    from vicinal.samplers import StochasticQueries

    first, rest = train[:BATCH], train[BATCH:]
    by_class = np.concatenate([first, rest[np.argsort(y[rest], kind="stable")]])
    yield STREAM, train, {}
    yield SHORT, train, {"sampling": StochasticQueries(SHORT_STEP)}
    yield LONG, train, {"sampling": StochasticQueries(LONG_STEP)}
    yield START, train, {}
    yield AFTER, train, {}
    yield STREAM_KEPT, train, {"reservoir_size": KEPT}
    yield SORTED, by_class, {"reservoir_size": KEPT}


def _streamed(model: Any, X: Any, y: Any, order: Any) -> Iterator[int]:
    """Learn batch by batch; after each, how many rows the model has seen."""
    for begin in range(0, len(order), BATCH):
        rows = order[begin : begin + BATCH]
        model.partial_fit(X[rows], y[rows], classes=np.unique(y))
        yield begin + len(rows)


def parts(done: list[Done]) -> dict[str, Any]:
    """Accuracy by rows seen, differences at the end, and the maps apart from the memory."""
    names = present(SETS, done)
    methods = [each for each in METHODS if any(d.job["method"] == each for d in done)]
    return {
        "finding": "\n".join(_findings(done, names, methods)),
        "tables": "\n\n".join(
            f"## {method}\n\n{_table(_of(done, method), names)}" for method in methods
        ),
        "maps": _maps(done, names, methods),
        "seconds": _seconds(done, methods),
        "n_splits": len({each.job["split"] for each in done}),
        "batch": BATCH,
        "step": STEP,
        "short": SHORT_STEP,
        "long": LONG_STEP,
        "kept": f"{KEPT:,}",
        "most": f"{METHODS['NCA'][1]:,}",
        "most_knca": f"{METHODS['KNCA'][1]:,}",
        "judges": f"{JUDGES:,}",
        "rank": RANK,
        "alpha": f"{ALPHA:g}",
    }


def _of(done: list[Done], method: str) -> list[Done]:
    return [each for each in done if each.job["method"] == method]


def _ends(done: list[Done]) -> list[int]:
    """The numbers of rows at which streams were scored."""
    keys = {key for each in done for key in each.result if key.startswith(f"{FIT}, ")}
    tails = {key.removeprefix(f"{FIT}, ") for key in keys}
    return sorted(int(tail) for tail in tails if tail.isdigit())


def _table(done: list[Done], names: list[str]) -> str:
    rows: list[list[Any]] = []
    for name, n in product(names, _ends(done)):
        found = {way: scores(done, f"{way}, {n}", data=name) for way in WAYS}
        if not found[FIT]:
            continue
        cells = [f"{Summary(list(some.values())):.1f}" if some else None for some in found.values()]
        gap = gain(done, f"{STREAM}, {n}", f"{FIT}, {n}", data=name)
        rows.append([f"{name}, {n:,} rows", *cells, f"{gap:+.2f}"])
    titles = {
        FIT: "`fit` on all rows seen", STREAM: "stream, all rows kept",
        SHORT: f"the same, steps of {SHORT_STEP}", LONG: f"the same, steps of {LONG_STEP}",
        START: "the same, no first run",
        AFTER: "the same, after a `fit`",
        FIT_KEPT: f"`fit` on {KEPT:,} of them", STREAM_KEPT: f"stream, {KEPT:,} rows kept",
        SORTED: f"stream sorted by class, {KEPT:,} rows kept",
    }  # fmt: skip
    return table(["test accuracy", *titles.values(), "stream − `fit`, all rows"], rows)


#: pairs of ways that answer a question each
QUESTIONS = {
    "one pass over all rows, kept in memory, against `fit` on them": (STREAM, FIT),
    f"the same in steps of {SHORT_STEP} rows against steps of {STEP}": (SHORT, STREAM),
    f"the same in steps of {LONG_STEP} rows against steps of {STEP}": (LONG, STREAM),
    "the same without the run on the first batch against one with it": (START, STREAM),
    "the same after a `fit` to the first batch against `fit` on all rows": (AFTER, FIT),
    f"one pass with a memory of {KEPT:,} rows against `fit` on {KEPT:,} rows": (
        STREAM_KEPT,
        FIT_KEPT,
    ),
}


def _findings(done: list[Done], names: list[str], methods: list[str]) -> Iterator[str]:
    for method in methods:
        here = _of(done, method)
        n = _ends(here)[-1]
        for question, (one, other) in QUESTIONS.items():
            told = told_over_sets(here, f"{one}, {n}", f"{other}, {n}", names)
            yield f"- {method}, {question}: {told}."
        for when, n in _moments(here).items():
            told = told_over_sets(here, f"{SORTED}, {n}", f"{STREAM_KEPT}, {n}", names)
            yield (
                f"- {method}, the same stream sorted by class against random order, {when} "
                f"({n:,} rows): {told}."
            )


def _moments(done: list[Done]) -> dict[str, int]:
    """Rows seen half way through a sorted stream, and when all classes have passed."""
    ends = _ends(done)
    half = [n for n in ends if 2 * n == ends[-1]]
    found = {"half way": half[0]} if half else {}
    return {**found, "when all classes have passed": ends[-1]}


def _maps(done: list[Done], names: list[str], methods: list[str]) -> str:
    """5-NN among all rows seen, under three maps: the memory apart from what was learnt."""
    rows = []
    for method, name in product(methods, names):
        here = _of(done, method)
        first, last = _ends(here)[0], _ends(here)[-1]
        ends = [*product(JUDGED, [last]), (FIT, first)]
        keys = [f"5-NN, {way}, {n}" for way, n in ends]
        found = [scores(here, key, data=name) for key in keys]
        if all(found):
            cells = [f"{Summary(list(some.values())):.1f}" for some in found]
            gaps = [gain(here, keys[1], other, data=name) for other in (keys[0], keys[-1])]
            cells += [f"{gap:+.2f}" for gap in gaps]
            rows.append([f"{method}, {name}, {last:,} rows", *cells])
    titles = [
        "`fit` on all rows", "the stream", f"steps of {SHORT_STEP}", f"steps of {LONG_STEP}",
        "no first run", "after a `fit`",
        f"`fit` on the first {BATCH} rows", "stream − `fit`", "stream − first rows",
    ]  # fmt: skip
    return table(["5-NN under the map of", *titles], rows)


def _seconds(done: list[Done], methods: list[str]) -> str:
    words = []
    for method, way in product(methods, JUDGED):
        key = f"core seconds, {way}, {_ends(_of(done, method))[-1]}"
        found = [each.result[key] for each in _of(done, method) if key in each.result]
        if found:
            words.append(f"{method}, {way}: {np.mean(found):.1f} s")
    return "; ".join(words)


def claims(done: list[Done]) -> Iterator[Claim]:
    """The differences at the end of the stream."""
    names = present(SETS, done)
    says = {
        ("NCA", STREAM, FIT): "one pass of `partial_fit` against `fit` on the same rows",
        (
            "NCA",
            SHORT,
            STREAM,
        ): f"`partial_fit` in steps of {SHORT_STEP} rows against {STEP}",
        ("NCA", LONG, STREAM): f"`partial_fit` in steps of {LONG_STEP} rows against {STEP}",
        ("NCA", START, STREAM): "`partial_fit` without a run on the first batch against with it",
        ("NCA", STREAM_KEPT, FIT_KEPT): f"one pass, {KEPT:,} rows kept, against `fit` on as many",
        ("KNCA", STREAM, FIT): "one pass of `partial_fit` against `fit` on the same rows",
    }
    for (method, one, other), words in says.items():
        here = _of(done, method)
        n = max(_ends(here), default=0)
        if told := figure(here, f"{one}, {n}", f"{other}, {n}", names):
            sets = present(SETS, here)
            only = f" ({sets[0]} alone)" if len(sets) == 1 else ""
            yield Claim(f"{method}, {words}{only}", "answer", told)
    for method in METHODS:
        here = _of(done, method)
        found = {
            when: over_sets(here, f"{SORTED}, {n}", f"{STREAM_KEPT}, {n}", names)
            for when, n in (_moments(here) if here else {}).items()
        }
        told = ", ".join(f"{when} {gap:+.1f}" for when, gap in found.items() if gap)
        if told:
            says = f"{method}, a stream sorted by class against one in random order, in points"
            yield Claim(says, "answer", told)


EXPERIMENTS = (
    Experiment(
        "streams",
        "`partial_fit` on a stream against `fit` on the same rows: NCA and KNCA",
        jobs,
        work,
        parts,
        claims=claims,
    ),
)
