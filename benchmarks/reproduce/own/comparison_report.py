"""Tables of the comparison: what each choice is worth, averaged over all others."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from reproduce.framework.experiment import Done
from reproduce.framework.pages import table
from reproduce.framework.protocol import SMALL
from reproduce.framework.statistics import Summary

RULES = ("posterior", "1-NN", "5-NN")


FACTORS = ("d", "objective", "alpha", "early", "scaling", "init")


#: what NCA() has
DEFAULT = {"objective": "log", "alpha": "0.003", "early": "no", "scaling": "standard",
           "init": "auto"}  # fmt: skip


def parts(done: list[Done]) -> dict[str, Any]:
    """f against g; then scalings, starts, early stopping; then the best of all combinations."""
    scores = _Scores(done)
    n_sets, n_splits = len(scores.sets), len(scores.splits)
    at_default = {key: DEFAULT[key] for key in ("scaling", "init")}
    gap = scores.difference(
        "objective", "log", "accuracy", "posterior", **DEFAULT, skip="objective"
    )
    free = scores.difference(
        "objective", "log", "accuracy", "posterior", **at_default, alpha="0.0", early="no"
    )
    return {
        "gap": gap,
        "free": free,
        "n_sets": n_sets,
        "n_splits": n_splits,
        "objectives": _objectives(scores, at_default),
        **_by_set(scores, at_default),
        **_factors(scores),
        "best": _best(scores),
        "leave_one_out": _leave_one_out(scores),
        **_consequences(scores),
    }


def alpha_parts(done: list[Done]) -> dict[str, Any]:
    """Held-out accuracy and log-probability along the path, by rank, rule and objective."""
    sets = [name for name in SMALL if any(each.job["data"] == name for each in done)]
    path = [key.split()[1] for key in done[0].result if key.startswith("log ")]
    n_splits = len({each.job["split"] for each in done})
    header = ["d", "objective", "score", *(f"{float(alpha):g}" for alpha in path)]
    rows: list[list[Any]] = []
    for d in ("2", "full"):
        for objective in ("log", "accuracy"):
            for score in (*RULES, "log"):
                values = []
                for alpha in path:
                    by_set = [
                        np.mean([e.result[f"{objective} {alpha}"][score] for e in done
                                 if e.job["d"] == d and e.job["data"] == name])
                        for name in sets
                    ]  # fmt: skip
                    values.append(np.mean(by_set))
                shown = [f"{v:.3f}" if score == "log" else f"{100 * v:.2f}" for v in values]
                shown[int(np.argmax(values))] = f"**{shown[int(np.argmax(values))]}**"
                rows.append([d, objective, "log-probability" if score == "log" else score, *shown])
                if objective == "log" and score == "posterior":
                    rows.append(["", "", "to 0.003", *_to_default(done, d, sets, path)])
    per_set = []
    for d in ("2", "full"):
        for name in sets:
            values = [
                np.mean([e.result[f"log {alpha}"]["posterior"] for e in done
                         if e.job["d"] == d and e.job["data"] == name])
                for alpha in path
            ]  # fmt: skip
            shown = [f"{100 * v:.1f}" for v in values]
            shown[int(np.argmax(values))] = f"**{shown[int(np.argmax(values))]}**"
            per_set.append([d, name, *shown])
    best = {row[0]: _bold(row, path) for row in rows if row[1:3] == ["log", "posterior"]}
    return {
        "finding": _alpha_finding(best, [_bold(row, path) for row in per_set]),
        "table": table(header, rows),
        "n_sets": len(sets),
        "n_splits": n_splits,
        "by_set": table(["d", "set", *(f"{float(alpha):g}" for alpha in path)], per_set),
    }


def _bold(row: list[Any], path: list[str]) -> float:
    """The alpha of the best cell of a row."""
    return next(float(a) for a, cell in zip(path[::-1], row[::-1], strict=False) if "**" in cell)


def _alpha_finding(best: dict[str, float], of_sets: list[float]) -> str:
    """The best alpha of either rank, and the range over the sets."""
    return (
        "**By the posterior rule, on the mean over the sets, the best alpha is "
        f"{best['2']:g} at d = 2 and {best['full']:g} at full rank; single sets are best at values "
        f'from {min(of_sets):g} to {max(of_sets):g}, which is what `alpha="auto"` is for.**'
    )


def _to_default(done: list[Done], d: str, sets: list[str], path: list[str]) -> list[str]:
    """Differences to the default along the path, ± the standard error over the sets."""

    def scores(alpha: str) -> Any:
        return np.array(
            [
                100 * np.mean([e.result[f"log {alpha}"]["posterior"] for e in done
                               if e.job["d"] == d and e.job["data"] == name])
                for name in sets
            ]
        )  # fmt: skip

    return [_over_sets((scores(alpha) - scores("0.003"))[:, None]) for alpha in path]


class _Scores:
    """All held-out accuracies as an array over sets, splits, factors and rules."""

    def __init__(self, done: list[Done]) -> None:
        splits = sorted({each.job["split"] for each in done})
        # only whole splits count, so that every level sees the same sets
        count = {s: sum(each.job["split"] == s for each in done) for s in splits}
        splits = [s for s in splits if count[s] == max(count.values())]
        self.sets = [name for name in SMALL if any(e.job["data"] == name for e in done)]
        self.splits = splits
        self.levels: dict[str, list[str]] = {factor: [] for factor in FACTORS}
        records = []
        for each in done:
            if each.job["split"] not in splits:
                continue
            for key, result in each.result.items():
                objective, alpha, early = key.split()
                record = {
                    **{f: str(each.job[f]) for f in ("d", "scaling", "init")},
                    "objective": objective,
                    "alpha": alpha,
                    "early": "yes" if early == "True" else "no",
                }
                for factor in FACTORS:
                    if record[factor] not in self.levels[factor]:
                        self.levels[factor].append(record[factor])
                records.append((each.job["data"], each.job["split"], record, result))
        shape = [len(self.sets), len(splits), *(len(self.levels[f]) for f in FACTORS), len(RULES)]
        self.values = np.full(shape, np.nan)
        for name, split, record, result in records:
            at = [self.levels[f].index(record[f]) for f in FACTORS]
            cell = (self.sets.index(name), splits.index(split), *at)
            self.values[cell] = [100.0 * result[rule] for rule in RULES]

    def of(self, rule: str, **levels: str) -> Any:
        """Accuracies with sets and splits in front, at the levels given, flat otherwise."""
        index: list[Any] = [slice(None), slice(None)]
        for factor in FACTORS:
            level = levels.get(factor)
            index.append(slice(None) if level is None else [self.levels[factor].index(level)])
        values = self.values[..., RULES.index(rule)]
        for axis, part in enumerate(index):
            values = values[tuple([slice(None)] * axis + [part])]
        return values.reshape(len(self.sets), len(self.splits), -1)

    def mean(self, rule: str, **levels: str) -> float:
        return float(np.mean(self.of(rule, **levels)))

    def difference(self, factor: str, one: str, other: str, rule: str, **levels: str) -> str:
        """Mean difference of two levels, ± its standard error over the sets."""
        levels = {key: value for key, value in levels.items() if key != factor}
        gap = self.of(rule, **levels, **{factor: one}) - self.of(rule, **levels, **{factor: other})
        return _over_sets(gap)


def _over_sets(gap: Any) -> str:
    """Mean of points over sets (first axis) and all else, ± the standard error over the sets."""
    each = Summary(gap.reshape(len(gap), -1).mean(axis=1) / 100.0)
    return f"{each:+.2f}"


def _objectives(scores: _Scores, fixed: dict[str, str]) -> str:
    rows = []
    for d in scores.levels["d"]:
        for alpha in scores.levels["alpha"]:
            for early in scores.levels["early"]:
                for rule in RULES:
                    at = {**fixed, "d": d, "alpha": alpha, "early": early}
                    rows.append(
                        [
                            d,
                            alpha,
                            early,
                            rule,
                            f"{scores.mean(rule, objective='accuracy', **at):.2f}",
                            f"{scores.mean(rule, objective='log', **at):.2f}",
                            scores.difference("objective", "log", "accuracy", rule, **at),
                            scores.difference(
                                "objective", "log", "accuracy", rule, d=d, alpha=alpha, early=early
                            ),
                        ]
                    )
    header = [
        "d",
        "alpha",
        "early stopping",
        "rule",
        "f",
        "g",
        "g − f",
        "g − f, all starts, scalings",
    ]
    return table(header, rows)


def _by_set(scores: _Scores, fixed: dict[str, str]) -> dict[str, Any]:
    rows = []
    for i, name in enumerate(scores.sets):
        row: list[Any] = [name]
        for d in scores.levels["d"]:
            for alpha in scores.levels["alpha"]:
                for objective in ("accuracy", "log"):
                    at = {**fixed, "d": d, "alpha": alpha, "early": "no", "objective": objective}
                    row.append(f"{np.mean(scores.of('posterior', **at)[i]):.1f}")
        rows.append(row)
    header = ["set"] + [
        f"{'f' if objective == 'accuracy' else 'g'}, d = {d}, alpha = {alpha}"
        for d in scores.levels["d"]
        for alpha in scores.levels["alpha"]
        for objective in ("accuracy", "log")
    ]
    return {"by_set": table(header, rows)}


def _factors(scores: _Scores) -> dict[str, Any]:
    rows = []
    for factor in ("early", "scaling", "init"):
        base = DEFAULT[factor]
        for level in [base, *(v for v in scores.levels[factor] if v != base)]:
            row = [factor if level == base else "", level]
            for d in scores.levels["d"]:
                for alpha in scores.levels["alpha"]:
                    at = {"d": d, "alpha": alpha}
                    if level == base:
                        row.append(f"{scores.mean('posterior', **at, **{factor: level}):.2f}")
                    else:
                        row.append(scores.difference(factor, level, base, "posterior", **at))
            rows.append(row)
    header = ["", ""] + [
        f"d = {d}, alpha = {alpha}" for d in scores.levels["d"] for alpha in scores.levels["alpha"]
    ]
    return {"factors": table(header, rows)}


class _Combinations(NamedTuple):
    """Accuracies over sets, splits and combinations, and the settings of each combination."""

    values: Any
    names: list[dict[str, str]]


def _consequences(scores: _Scores) -> dict[str, Any]:
    """One line for each parameter of ``NCA()``."""

    def to_default(factor: str, level: str) -> str:
        at = {"objective": "log", "alpha": DEFAULT["alpha"]}
        return scores.difference(factor, level, DEFAULT[factor], "posterior", **at)

    rule = _over_sets(scores.of("posterior", **DEFAULT) - scores.of("5-NN", **DEFAULT))
    starts = [level for level in scores.levels["init"] if level != "auto"]
    return {
        "to_default_early_yes": to_default("early", "yes"),
        "to_default_scaling_global": to_default("scaling", "global"),
        "to_default_scaling_none": to_default("scaling", "None"),
        "starts": ", ".join(f"{level} {to_default('init', level)}" for level in starts),
        "rule": rule,
    }


def _combinations(scores: _Scores, d: str) -> _Combinations:
    """All combinations at a rank: their settings and accuracies over sets and splits."""
    others = [factor for factor in FACTORS if factor != "d"]
    at = scores.levels["d"].index(d)
    values = scores.values[:, :, at].reshape(len(scores.sets), len(scores.splits), -1)
    settings = [
        (*combination, rule)
        for combination in np.ndindex(*(len(scores.levels[f]) for f in others))
        for rule in range(len(RULES))
    ]
    names = [
        {**{f: scores.levels[f][c[i]] for i, f in enumerate(others)}, "rule": RULES[c[-1]]}
        for c in settings
    ]
    return _Combinations(values, names)


def _best(scores: _Scores, shown: int = 6) -> str:
    parts = []
    for d in scores.levels["d"]:
        all_of = _combinations(scores, d)
        mean = all_of.values.mean(axis=(0, 1))
        order = np.argsort(-mean)
        default = all_of.names.index({**DEFAULT, "rule": "posterior"})
        rows = []
        for place, c in enumerate(order, 1):
            if place > shown and c != default:
                continue
            worth = _over_sets(all_of.values[..., c] - all_of.values[..., default])
            setting = all_of.names[c]
            words = [setting[f] for f in ("objective", "alpha", "early", "scaling", "init", "rule")]
            mark = "**" if c == default else ""
            rows.append([f"{mark}{place}{mark}", *words, f"{mean[c]:.2f}", worth])
        header = ["place", "objective", "alpha", "early stopping", "scaling", "start", "rule",
                  "accuracy", "to the default"]  # fmt: skip
        parts.append(
            f"d = {d}, of {len(order)} combinations (bold: the defaults of `NCA()`, which at full "
            "rank stops at 32 of the 33 and 44 columns of ionosphere and spectf)"
        )
        parts.append(table(header, rows))
    return "\n\n".join(parts)


def _leave_one_out(scores: _Scores) -> str:
    """What the winner over the other sets is worth on a set that had no say."""
    gaps = []
    for d in scores.levels["d"]:
        all_of = _combinations(scores, d)
        default = all_of.names.index({**DEFAULT, "rule": "posterior"})
        for i in range(len(scores.sets)):
            others = np.delete(all_of.values, i, axis=0).mean(axis=(0, 1))
            winner = int(np.argmax(others))
            gap = all_of.values[i, :, winner] - all_of.values[i, :, default]
            gaps.append(gap.mean())
    summary = Summary(np.array(gaps) / 100.0)
    return (
        "The best of many combinations is partly luck. Chosen on all sets but one and scored on "
        f"that one, the winner is {summary:+.2f} points from the "
        "defaults."
    )
