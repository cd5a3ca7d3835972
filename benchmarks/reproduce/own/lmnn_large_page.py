"""The page of LMNN on usps and mnist, from the rows of `lmnn_large`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reproduce.framework.experiment import Claim, Done, Experiment
from reproduce.framework.machine import machine_words
from reproduce.framework.pages import bullets, table
from reproduce.own.lmnn_large import RANKS, STEPS, VOTES, K, jobs, work

WORDS = {"pixels": "k-NN on the pixels", "PCA": "PCA", "NCA": "NCA", "LMNN": "LMNN"}


#: the same within a sentence
NAMES = {**WORDS, "pixels": "the pixels"}


#: test error in per cent of the authors' code after PCA, the figure nearest to ours in protocol
AUTHORS = 1.73


#: data, method, test error in per cent, where it stands, and whether we could read it there
PUBLISHED = (
    ("mnist", "LMNN", "1.3", "[Weinberger2006], abstract",
     "yes, the abstract; the later paper has another figure"),
    ("mnist", "LMNN after PCA", "1.73", "the authors' Matlab code, as in [Weinberger2009]",
     "at second hand: J. Chiotellis, scikit-learn pull request 8602, 30 April 2017"),
    ("mnist", "LMNN after PCA, by L-BFGS", "2.0 ± 0.1", "the same comment",
     "yes: the code of that pull request"),
    ("mnist", "k-NN after PCA to 164", "2.4", "[Weinberger2009]",
     "no: as cited by others; the tables could not be read"),
    ("mnist", "LMNN, a metric for each class", "1.2", "[Weinberger2009]",
     "no: as cited by others; the tables could not be read"),
    ("usps9298", "LMNN", "", "[Kedem2012] and others",
     "no figure could be read, so none is given"),
)  # fmt: skip


def parts(done: list[Done]) -> dict[str, Any]:
    """Finding, the peers, what was published, time and memory."""
    return {
        "finding": _finding(done),
        "peers": _peers(done),
        "differences": _differences(done),
        "table": table(["data", "method", "test error", "source", "read by us"], PUBLISHED),
        "published": _published(done),
        "times": _times(done),
        "plans": _plans(done),
        "minus_lmnn": _minus_lmnn(done),  # for a quote in the guide
        "k": K,
        "machine": machine_words(done),
    }


def _of(done: list[Done], data: str, d: int, method: str) -> Done | None:
    wanted = {"data": data, "d": 0 if method == "pixels" else d, "method": method}.items()
    return next((each for each in done if wanted <= each.job.items()), None)


def _error(each: Done, k: int = K) -> str:
    """Test error in per cent, with the standard error of a share of this many rows."""
    n, wrong = each.result["test rows"], len(each.result["wrong rows"][str(k)])
    share = wrong / n
    return f"{100 * share:.2f} ± {100 * (share * (1 - share) / n) ** 0.5:.2f}"


def less(one: Done, other: Done, k: int = K) -> tuple[float, float]:
    """By how many points one has a lower test error, and the standard error over the test rows."""
    n = one.result["test rows"]
    wrong = [set(each.result["wrong rows"][str(k)]) for each in (one, other)]
    only_other, only_one = len(wrong[1] - wrong[0]), len(wrong[0] - wrong[1])
    gap = (only_other - only_one) / n
    spread = (only_other + only_one) / n - gap**2
    return 100 * gap, 100 * (max(spread, 0.0) / n) ** 0.5


def _standing(gap: float, error: float) -> str:
    """Whether the test error of LMNN is lower than another one."""
    if abs(gap) <= 2 * error:
        return "not clear"
    return "clearly lower" if gap > 0 else "clearly higher"


def _pairs(done: list[Done]) -> Iterator[tuple[str, int, str, float, float]]:
    """LMNN next to each other method of its set and rank."""
    for data, ranks in RANKS.items():
        for d in ranks:
            ours = _of(done, data, d, "LMNN")
            for method in ("pixels", "PCA", "NCA"):
                other = _of(done, data, d, method)
                if ours and other:
                    yield data, d, method, *less(ours, other)


def _peers(done: list[Done]) -> str:
    cells = []
    for each in sorted(
        done,
        key=lambda e: (list(RANKS).index(e.job["data"]), e.job["d"],
                       list(WORDS).index(e.job["method"])),
    ):  # fmt: skip
        job, result = each.job, each.result
        took = [
            _number(result.get(key)) for key in ("seconds", "core seconds", "MiB", "iterations")
        ]
        cells.append(
            [job["data"], job["d"] or "", WORDS[job["method"]], *(_error(each, k) for k in VOTES),
             *took]
        )  # fmt: skip
    return table(
        ["data", "d", "method", *(f"{k}-NN" for k in VOTES), "seconds", "core seconds", "MiB",
         "iterations"],
        cells,
    )  # fmt: skip


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}" if value < 10.0 else f"{value:.0f}"


def _differences(done: list[Done]) -> str:
    cells = [
        [data, d, WORDS[method], f"{gap:+.2f} ± {error:.2f}", _standing(gap, error)]
        for data, d, method, gap, error in _pairs(done)
    ]
    minus = "its test error minus that of LMNN, points, 3-NN"
    return table(["data", "d", "other method", minus, "LMNN's error"], cells)


def _times(done: list[Done]) -> str:
    cells = [
        [each.job["data"], each.job["d"],
         _number(each.result.get("profiled core seconds", each.result["core seconds"])),
         *(_number(each.result["steps"][words]) for words in STEPS.values()),
         f"{each.result['evaluations']:.0f}"]
        for each in done if each.job["method"] == "LMNN"
    ]  # fmt: skip
    return table(["data", "d", "the profiled fit", *STEPS.values(), "evaluations"], cells)


def _finding(done: list[Done]) -> str:
    """LMNN's error against the others', and what mnist takes."""
    told = []
    for data, ranks in RANKS.items():
        for d in ranks:
            beside = [
                f"{_saved(gap, error)} than {NAMES[method]} ({_standing(gap, error)})"
                for name, rank, method, gap, error in _pairs(done)
                if (name, rank) == (data, d)
            ]
            if beside:
                ours = _error(_of(done, data, d, "LMNN"))  # type: ignore[arg-type]
                told.append(f"{data} at d = {d}: {ours} %; {', '.join(beside)}.")
    took = [
        f"{_number(each.result['core seconds'])} core seconds at d = {d}"
        for d in RANKS["mnist"]
        if (each := _of(done, "mnist", d, "LMNN"))
    ]
    words = f"\n\nA fit to all of mnist takes {' and '.join(took)} (one run)." if took else ""
    return f"Test error of LMNN by 3-NN (one split):\n\n{bullets(*told)}{words}"


def _saved(gap: float, error: float) -> str:
    return f"{abs(gap):.2f} ± {error:.2f} points {'less' if gap >= 0 else 'more'}"


def _plans(done: list[Done]) -> str:
    """What the fits chose by themselves."""
    told = [
        f"{each.job['data']}, d = {each.job['d']}, {each.job['method']}: {each.result['plan']}"
        for each in done
        if "plan" in each.result
    ]
    return bullets(*told)


def _minus_lmnn(done: list[Done]) -> str:
    """PCA and NCA against LMNN on mnist, for a sentence."""
    d = RANKS["mnist"][0]
    gaps = {m: f"{gap:+.2f} ± {e:.2f}" for name, k, m, gap, e in _pairs(done)
            if (name, k) == ("mnist", d)}  # fmt: skip
    if not {"PCA", "NCA"} <= set(gaps):
        return "(not run yet)"
    return (
        f"the test error of PCA is higher than that of LMNN by {gaps['PCA']}, that of NCA by "
        f"{gaps['NCA']} points"
    )


def _published(done: list[Done]) -> str:
    """Whether the figure of the authors' code is reached, at the rank that it has."""
    d = max(RANKS["mnist"])
    ours = _of(done, "mnist", d, "LMNN")
    if ours is None:
        return "LMNN on mnist is not run yet."
    share = len(ours.result["wrong rows"][str(K)]) / ours.result["test rows"]
    error = 100 * (share * (1 - share) / ours.result["test rows"]) ** 0.5
    gap = 100 * share - AUTHORS
    word = "reached" if gap <= 0 else "not reached"
    near = " (not clear)" if abs(gap) <= 2 * error else ""
    return f"LMNN on mnist at d = {d}: {_error(ours)} %, the authors' {AUTHORS} is {word}{near}."


def claims(done: list[Done]) -> Iterator[Claim]:
    """LMNN against PCA and NCA, and against the figure of its authors."""
    for data, ranks in RANKS.items():
        found = {
            method: f"{gap:+.2f} ± {error:.2f}"
            for name, d, method, gap, error in _pairs(done)
            if (name, d) == (data, ranks[0])
        }
        if "PCA" in found and "NCA" in found:
            says = f"Test error on {data}, d = {ranks[0]}, 3-NN: PCA and NCA against LMNN, points"
            figure = f"PCA against LMNN {found['PCA']}, NCA against LMNN {found['NCA']} (one split)"
            yield Claim(says, "answer", figure)
    ours = _of(done, "mnist", max(RANKS["mnist"]), "LMNN")
    if ours:
        says = f"Does LMNN reach the test error of its authors' code on mnist, {AUTHORS} %?"
        yield Claim(says, "answer", f"{_error(ours)} % (one split)")


EXPERIMENTS = (
    Experiment(
        "lmnn-large",
        "LMNN on usps and mnist: its peers, published figures, time and memory",
        jobs,
        work,
        parts,
        threads=None,
        claims=claims,
    ),
)
