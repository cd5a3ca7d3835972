"""The report on Tarlow et al. figure 4: a panel and a table for each share of wrong labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from reproduce.experiment import Done
from reproduce.protocol import Summary
from reproduce.report import picture, plain_frame, pyplot, table
from reproduce.tarlow_common import FAMILIES, LEARNERS, colour, words

__all__ = ["ALPHA", "NOISES", "TEST_K", "report"]

NOISES = (0.0, 0.25, 0.5)
TEST_K = (*range(1, 16), 20, 30, 40, 50)
SHOWN_K = (1, 3, 5, 9, 15, 30, 50)
MAX_ITER = 200
ALPHA = 1e-3

#: accuracies over the splits, test k in columns, by noise and by method and k
Scores = dict[float, dict[tuple[str, int], Any]]


def report(done: list[Done], folder: Path) -> str:
    """Markdown; the picture goes beside it."""
    if not done:
        return "Not run yet."
    free = [each for each in done if "alpha" in each.job]
    done = [each for each in done if "alpha" not in each.job]
    if not done:
        return "Not run yet."
    test, train = _scores(done, "test"), _scores(done, "train")
    parts = [
        _finding(test),
        _draw(test, folder),
        *(_table(test[noise], train[noise], noise) for noise in test),
        "## The paper's claims",
        _claims(test),
        _without_penalty(free),
        _protocol(done),
    ]
    return "\n\n".join(part for part in parts if part)


def _scores(done: list[Done], what: str) -> Scores:
    """Of the splits that all methods of a noise level have in common."""
    found: dict[float, dict[tuple[str, int], dict[int, Any]]] = {}
    for each in done:
        by_method = found.setdefault(each.job["noise"], {})
        key = each.job["method"], each.job["k"]
        by_method.setdefault(key, {})[each.job["split"]] = each.result[what]
    scores: Scores = {}
    for noise in sorted(found):
        common = set.intersection(*(set(splits) for splits in found[noise].values()))
        order = sorted(found[noise], key=lambda key: (list(LEARNERS).index(key[0]), key[1]))
        if common:
            scores[noise] = {
                key: np.array([found[noise][key][split] for split in sorted(common)])
                for key in order
            }
    return scores


def _column(k: int) -> int:
    return TEST_K.index(k)


def _best(scores: dict[tuple[str, int], Any], vote: str, test_k: int) -> tuple[int, Any]:
    """The training k of a vote with the highest mean at a test k, and its scores."""
    ks = [k for method, k in scores if method == vote]
    k = max(ks, key=lambda k: scores[vote, k][:, _column(test_k)].mean())
    return k, scores[vote, k][:, _column(test_k)]


def _gap(one: Any, other: Any) -> str:
    each = Summary(np.asarray(one) - np.asarray(other))
    return f"{each.mean:+.1f} ± {each.error:.1f}" if len(one) > 1 else f"{each.mean:+.1f}"


def _finding(test: Scores) -> str:
    parts = []
    for noise, scores in test.items():
        text = []
        if ("NCA", 1) in scores:
            nca = scores["NCA", 1]
            text.append(
                f"NCA {100 * nca[:, _column(1)].mean():.1f} % with 1 and "
                f"{100 * nca[:, _column(15)].mean():.1f} % with 15 voters"
            )
            for vote in FAMILIES:
                if (vote, 10) in scores:
                    gap = _gap(scores[vote, 10][:, _column(15)], nca[:, _column(15)])
                    text.append(f"{vote} (k = 10) {gap} points from it with 15")
        if text:
            parts.append(f"at {100 * noise:g} % resampled labels {', '.join(text)}")
    return "Test accuracy against the true labels: " + "; ".join(parts) + "."


def _draw(test: Scores, folder: Path) -> str:
    plt = pyplot()
    figure, axes = plt.subplots(
        1, len(test), figsize=(4.2 * len(test), 4.4), layout="constrained", squeeze=False
    )
    for ax, (noise, scores) in zip(axes[0], test.items(), strict=True):
        for key in [key for key in scores if key[1] in (1, 3, 5, 10)]:
            values = 100 * scores[key]
            mean = values.mean(axis=0)
            ax.plot(TEST_K, mean, color=colour(*key), label=words(*key))
            if len(values) > 1:
                error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
                ax.fill_between(TEST_K, mean - error, mean + error, color=colour(*key), alpha=0.15)
        ax.set(xlabel="k at test time", title=f"{100 * noise:g} % of the labels resampled")
        plain_frame(ax)
    axes[0, 0].set_ylabel("test accuracy, per cent")
    shown = picture(
        figure,
        folder,
        "tarlow-figure-4",
        "Test accuracy on usps by the k of the vote and the noise",
    )
    plt.close(figure)
    return shown


def _table(test: dict[tuple[str, int], Any], train: dict[Any, Any], noise: float) -> str:
    header = ["learnt by", *(f"{k}-NN" for k in SHOWN_K), "training rows, 15-NN"]
    rows = []
    for key, scores in test.items():
        cells = [_shown(scores[:, _column(k)]) for k in SHOWN_K]
        rows.append([words(*key), *cells, _shown(train[key][:, _column(15)])])
    n = len(next(iter(test.values())))
    return f"**{100 * noise:g} % of the training labels resampled, {n} splits**\n\n" + table(
        header, rows
    )


def _shown(scores: Any) -> str:
    each = Summary(scores)
    return f"{each.mean:.1f} ± {each.error:.1f}" if len(scores) > 1 else f"{each.mean:.1f}"


def _claims(test: Scores) -> str:
    """Paired differences, one row for each claim and method."""
    rows: list[list[Any]] = []

    def add(words: str, gap: Any) -> None:
        cells = []
        for scores in test.values():
            try:
                cells.append(_gap(*gap(scores)))
            except (KeyError, ValueError):  # not run
                cells.append(None)
        if any(cells):
            rows.append([words, *cells])

    methods = list(dict.fromkeys(key for scores in test.values() for key in scores))
    for key in methods:
        add(
            f"{words(*key)}: 15-NN − 1-NN",
            lambda s, key=key: (s[key][:, _column(15)], s[key][:, _column(1)]),
        )
    for key in methods:
        for k in (1, 5, 15) if key[0] != "NCA" else ():
            add(
                f"{words(*key)} − NCA, {k}-NN",
                lambda s, key=key, k=k: (s[key][:, _column(k)], s["NCA", 1][:, _column(k)]),
            )
    for k in sorted({k for method, k in methods if method == "all"}):
        for voters in (1, 15):
            add(
                f"all − majority, k = {k}, {voters}-NN",
                lambda s, k=k, v=voters: (
                    s["all", k][:, _column(v)], s["majority", k][:, _column(v)]
                ),
            )  # fmt: skip
    for vote in FAMILIES:
        add(
            f"{vote}, best k − NCA, 15-NN",
            lambda s, vote=vote: (_best(s, vote, 15)[1], s["NCA", 1][:, _column(15)]),
        )
    return (
        table(["difference in points", *(f"{100 * noise:g} %" for noise in test)], rows)
        + "\n\nMean ± standard error of the paired differences over the splits. The paper: larger "
        "k at test time gives better accuracy, most so with noise; kNCA is substantially ahead of "
        'NCA; all is ahead of majority. "Best k" is picked on the test rows and favours kNCA.'
    )


def _without_penalty(free: list[Done]) -> str:
    """The same without a penalty, which the paper does not mention."""
    test, train = _scores(free, "test"), _scores(free, "train")
    tables = [_table(test[noise], train[noise], noise) for noise in test]
    if not tables:
        return ""
    words = (
        f"The paper mentions no penalty on the map. With α = 0 in place of {ALPHA:g}, and all else "
        "the same:"
    )
    return "\n\n".join(["## Without a penalty", words, *tables])


def _protocol(done: list[Done]) -> str:
    cut = sum(each.result["iterations"] >= MAX_ITER for each in done)
    seconds = [each.seconds for each in done]
    return f"""## Protocol and assumptions

- The USPS digits of 9,298 rows, 256 pixels; the paper does not say which USPS set it has. 70 % of
  the rows ({max(each.result["rows"] for each in done):,}) to learn from, 30 % to test, at random;
  the paper has ten such splits.
- Of the training labels 0, 25 or 50 %, at random, are drawn anew from all ten classes uniformly, so
  that a tenth of these stays right. All methods of a split see the same labels. Both the map and
  the votes know these labels only; predictions are judged by the true labels of the test rows.
- Maps to d = 2. All methods of a split begin with the same map: PCA of the pixels, as in the paper,
  at the scale at which NCA's own objective is best on these labels. Log objective, α = 0.001 on
  pixels that share one factor: chosen for NCA on held-out training rows of mnist (see
  [mnist-targets](mnist-targets.md)) and the same for all methods here; beside the loss of "all",
  which grows with k, it weighs less.
- The paper descends by stochastic gradients with momentum on some of the queries at a time. Here:
  L-BFGS on all rows, up to {MAX_ITER} iterations; {cut} of {len(done)} fits were cut off there. A
  fit takes {np.median(seconds):.0f} s on one core in the median, {max(seconds):.0f} s at most.
- Of classes with equally many votes the one that has the nearest row wins. "Training rows":
  leave-one-out, votes by the labels learnt from, judged by the true ones.
- The paper's figure can be read from no table, so no figure of it stands beside ours."""
