"""The parts of the page that need no script, as HTML: words, tables and still pictures."""

from __future__ import annotations

import math

import numpy as np

from vicinal.learner.errors import number_text
from vicinal.reporting.contents import (
    Confusion,
    Contents,
    History,
    Metric,
    Mistake,
    Mistakes,
    Model,
    Score,
)
from vicinal.reporting.page import _charts
from vicinal.reporting.page._text import SHARES, clean, element, escape, score_text

# A heat map with more rows cannot be read.
MOST_IN_HEAT_MAP = 40
# Bars that are shown at once, and with those behind "more".
FEW_BARS, MOST_BARS = 20, 200
# Classes that a confusion matrix shows; with more, the most frequent confusions are listed.
MOST_IN_MATRIX, FEW_CLASSES, CONFUSIONS = 12, 15, 15


def sections(contents: Contents) -> dict[str, str]:
    """Each part of the page by its name in page.html; "" for a part that is left out."""
    picture, neighbours = contents.embedding, contents.neighbors
    parts = {
        "scores": _scores(contents),
        "columns": _columns(contents),
        "convergence": _history(contents.history),
        "model": _model(contents.model),
    }
    return {
        **parts,
        "facts": _facts(contents.facts),
        "links": _links(parts),
        "headline": _headline(contents),
        "sentences": _paragraphs(contents.sentences),
        "warnings": _warnings(contents.warnings),
        "picture_note": _paragraphs([picture.note] if picture.note else []),
        "neighbours_note": escape(neighbours.note if neighbours else ""),
        "before_title": escape(picture.before_title),
        "after_title": escape(picture.after_title),
    }


def _links(parts: dict[str, str]) -> str:
    """Links to the sections that the page has."""
    names = [name for name in ("scores", "picture", *parts) if parts.get(name, "picture")]
    return "".join(
        element("li", element("a", name.capitalize(), href=f"#{name}"))
        for name in dict.fromkeys(names)
    )


def _section(name: str, title: str, *inside: str) -> str:
    heading = element("h2", title, id=f"{name}-title")
    return element("section", heading, *inside, id=name, aria_labelledby=f"{name}-title")


def _paragraphs(sentences: list[str]) -> str:
    return "".join(element("p", escape(sentence)) for sentence in sentences)


def _title(name: str) -> str:
    return name[:1].upper() + name[1:]


# Summary ------------------------------------------------------------------------------------------


def _facts(facts: dict[str, str]) -> str:
    return "".join(
        element("div", element("dt", escape(name)), element("dd", escape(value)))
        for name, value in facts.items()
    )


def _warnings(warnings: list[str]) -> str:
    if not warnings:
        return ""
    items = element("ul", *(element("li", escape(text)) for text in warnings))
    heading = element("h2", "What to know")
    return element("aside", heading, items, class_="warnings", aria_label="What to know")


_BADGES = {
    "better": "better than the best usual method",
    "level": "no clear difference from the best usual method",
    "worse": "worse than the best usual method",
}


def _headline(contents: Contents) -> str:
    """The score of the best of the others and that of the learnt method, in large figures."""
    before = next((score for score in contents.scores if score.best), None)
    after = next((score for score in contents.scores if score.learnt), None)
    if after is None:
        return ""
    name = contents.score_name
    parts = [_figure("after", after, name)]
    if before is not None:
        parts.append(_figure("before", before, name, "against "))
    what = "Accuracy on rows it has not seen" if name == "accuracy" else _title(name)
    badge = ""
    if contents.verdict is not None:
        kind = contents.verdict.kind
        badge = element("p", escape(_BADGES.get(kind, kind)), class_=f"badge {escape(kind)}")
    inside = element("p", escape(what), class_="what"), element("div", *parts, class_="figures")
    return element("div", *inside, badge, class_="headline", role="group", aria_label=what)


def _figure(kind: str, score: Score, name: str, what: str = "") -> str:
    rest = f"± {score_text(score.error, name)}" if math.isfinite(score.error) else ""
    return element(
        "div",
        element("span", score_text(score.mean, name), class_="value"),
        element("span", rest, class_="rest"),
        element("span", what, escape(score.inside if what else score.name), class_="of"),
        class_=kind,
    )


# Scores -------------------------------------------------------------------------------------------


def _scores(contents: Contents) -> str:
    """The comparison as a table, with a dot and its error bar in each row, and what went wrong."""
    if not contents.scores:
        return ""
    name, share = contents.score_name, contents.score_name in SHARES
    limits = _charts.score_range(contents.scores, share)
    more = list(dict.fromkeys(key for score in contents.scores for key in score.more))
    rows = [_score_row(score, name, limits, more) for score in contents.scores]
    bars = any(math.isfinite(score.error) for score in contents.scores)
    note = element("span", "± one standard error" if bars else "", class_="note")
    head = element(
        "tr",
        element("th", "Method", scope="col"),
        element("th", escape(_title(name)), scope="col", class_="number"),
        element("td", note, class_="dots"),
        *(element("th", escape(_title(key)), scope="col", class_="number more") for key in more),
    )
    axis = element("td", _charts.dot_axis(limits, share), class_="dots")
    rest = element("td", class_="more") * len(more)
    table = element(
        "table",
        element("caption", escape(contents.scores_note)),
        element("thead", head),
        element("tbody", *rows),
        element("tfoot", element("tr", element("td"), element("td"), axis, rest)),
        class_="scores",
    )
    parts = [_confusion(contents.confusion), _mistakes(contents.mistakes)]
    errors = element("div", *parts, class_="pair") if any(parts) else ""
    return _section("scores", "How well it does on rows it has not seen", table, errors)


def _score_row(score: Score, name: str, limits: tuple[float, float], more: list[str]) -> str:
    mark = element("span", "this page", class_="tag") if score.learnt else ""
    if score.best:
        mark = element("span", "best of the usual", class_="tag plain")
    note = element("span", escape(score.note), class_="note") if score.note else ""
    return element(
        "tr",
        element("th", escape(score.name), " ", mark, note, scope="row"),
        element("td", score_text(score.mean, name, score.error), class_="number"),
        element("td", _charts.dot(score, limits), class_="dots"),
        *(_further(score, key) for key in more),
        class_="learnt" if score.learnt else None,
    )


def _further(score: Score, key: str) -> str:
    """Another measure; the narrow layout names it, as it has no head."""
    value = score.more.get(key)
    text = "–" if value is None else _measure(value, key)
    name = element("span", escape(_title(key)), " ", class_="narrow")
    return element(
        "td", name, text, class_="number more" if value is not None else "number more none"
    )


def _measure(value: float, key: str) -> str:
    if "accuracy" in key:
        return f"{100 * value:.1f} %"
    return number_text(value) if "error" in key else f"{value:.3f}"


def _confusion(confusion: Confusion | None) -> str:
    """True classes by predicted ones, with the recall of each; lists where there are many."""
    if confusion is None:
        return ""
    counts = np.asarray(confusion.counts)
    totals = counts.sum(axis=1)
    if len(counts) <= MOST_IN_MATRIX:
        inside = _confusion_table(confusion.classes, counts, totals)
    else:
        inside = _recall_table(confusion.classes, counts, totals) + _confused(
            confusion.classes, counts
        )
    return element("div", element("h3", "What is taken for what"), inside, class_="confusion")


def _confusion_table(names: list[str], counts: np.ndarray, totals: np.ndarray) -> str:
    head = element(
        "tr",
        element("th", "True class", scope="col"),
        element("th", "Recall", scope="col", class_="number recall"),
        *(element("th", _short(name), scope="col", class_="number") for name in names),
    )
    lines = []
    for c, name in enumerate(names):
        recall = f"{100 * counts[c, c] / totals[c]:.0f} %" if totals[c] else "–"
        cells = [element("td", recall, class_="number recall")]
        for other, value in enumerate(counts[c]):
            share = float(value / totals[c]) if totals[c] else 0.0
            kind = "right" if other == c else "wrong"
            style = f"--share:{round(60 * share)}%" if value else None
            text = f"{int(value):,}" if value else "·"
            cells.append(element("td", text, class_=f"number {kind}", style=style))
        lines.append(element("tr", element("th", _short(name), scope="row"), *cells))
    caption = (
        "Rows: the true class, and its recall: the share that was predicted right. Columns: what "
        "was predicted."
    )
    inside = element("thead", head), element("tbody", *lines)
    table = element("table", *inside, class_="matrix-table")
    region = {"tabindex": 0, "role": "region", "aria-label": "Confusion matrix, scrollable"}
    told = element("p", caption, class_="note")
    return told + element("div", table, class_="scroll", **region)


def _short(name: str) -> str:
    """A name that is cut where the table has no room for it."""
    return element("span", escape(name), class_="short", title=name)


def _recall_table(names: list[str], counts: np.ndarray, totals: np.ndarray) -> str:
    """The recall of each class, the lowest first."""
    recalls = np.diag(counts) / np.maximum(totals, 1)
    order = [int(c) for c in np.argsort(recalls, kind="stable") if totals[c]]

    def table(rows: list[int], caption: str) -> str:
        lines = []
        for c in rows:
            bar = element("span", style=f"width:{100 * recalls[c]:.1f}%")
            number = element("td", f"{100 * recalls[c]:.0f} % of {totals[c]:,}", class_="number")
            lines.append(element(
                "tr", element("th", escape(names[c]), scope="row"),
                element("td", bar, class_="bar"), number,
            ))  # fmt: skip
        inside = element("caption", caption), element("tbody", *lines)
        return element("table", *inside, class_="bars")

    shown = table(order[:FEW_CLASSES], "Recall, the share of a class that was predicted right.")
    if len(order) <= FEW_CLASSES:
        return shown
    rest = order[FEW_CLASSES:]
    more = element("summary", f"{len(rest)} more classes"), table(rest, "The next ones.")
    return shown + element("details", *more)


def _confused(names: list[str], counts: np.ndarray) -> str:
    """The most frequent confusions."""
    wrong = counts * (1 - np.eye(len(counts), dtype=counts.dtype))
    order = np.argsort(-wrong, axis=None, kind="stable")[:CONFUSIONS]
    pairs = [np.unravel_index(int(i), wrong.shape) for i in order if wrong.flat[i] > 0]
    if not pairs:
        return ""
    lines = [
        element(
            "tr", element("th", escape(names[int(a)]), scope="row"),
            element("td", escape(names[int(b)])),
            element("td", f"{wrong[a, b]:,}", class_="number"),
        )
        for a, b in pairs
    ]  # fmt: skip
    head = element(
        "tr", element("th", "True class", scope="col"), element("th", "Predicted", scope="col"),
        element("th", "Rows", scope="col", class_="number"),
    )  # fmt: skip
    inside = element("thead", head), element("tbody", *lines)
    caption = element("caption", "The most frequent confusions.")
    return element("table", caption, *inside, class_="plain-table")


def _mistakes(mistakes: Mistakes | None) -> str:
    """The rows that are most surely wrong; a row leads to its point."""
    if mistakes is None or not mistakes.rows:
        return ""
    sure = any(math.isfinite(row.sureness) for row in mistakes.rows)
    last = [element("th", "Probability", scope="col", class_="number")] if sure else []
    head = element(
        "tr",
        element("th", "Row", scope="col"),
        element("th", "It is", scope="col"),
        element("th", "Predicted", scope="col"),
        *last,
    )
    lines = [_mistake(row, sure) for row in mistakes.rows]
    caption = element(
        "caption", escape(mistakes.note), " Click a row to see it and its neighbours."
    )
    table = element(
        "table", caption, element("thead", head), element("tbody", *lines), class_="plain-table"
    )
    table = element("div", table, class_="scroll")
    title = "The most surely wrong rows" if sure else "The rows that are farthest off"
    return element("div", element("h3", title), table, class_="mistakes")


def _mistake(row: Mistake, sure: bool) -> str:
    name = escape(row.name)
    if row.point >= 0:
        name = element("button", name, type="button", class_="go", data_point=row.point)
    cells = [element("td", escape(row.truth)), element("td", escape(row.predicted))]
    if sure:
        text = f"{100 * row.sureness:.0f} %" if math.isfinite(row.sureness) else "–"
        cells.append(element("td", text, class_="number"))
    return element("tr", element("th", name, scope="row"), *cells)


# Columns ------------------------------------------------------------------------------------------


def _columns(contents: Contents) -> str:
    """What each column weighs, the matrix of the metric, and which columns were left out."""
    metric = contents.metric
    weights = [] if metric is None else [_bars(metric), _heat_map(metric)]
    parts = [element("div", *weights, class_="pair")] if any(weights) else []
    parts.append(_left_out(contents))
    if not any(parts):
        return ""
    note = _paragraphs([metric.note] if metric is not None and metric.note else [])
    return _section("columns", "Which columns matter", note, *parts)


def _left_out(contents: Contents) -> str:
    """The columns that are not used and why, and what else was done with the table."""
    told = [note for note in contents.table_notes if ": left out, " not in note]
    inside = element("ul", *(element("li", escape(note)) for note in told)) if told else ""
    if contents.left_out:
        inside = _named_table("Left out, and why", contents.left_out) + inside
    if not inside:
        return ""
    return element(
        "div", element("h3", "What was done with the table"), inside, class_="table-notes"
    )


def _bars(metric: Metric) -> str:
    """The importances, largest first, as tables with bars."""
    if metric.importances is None or len(metric.importances) == 0:
        return ""
    values = np.nan_to_num(np.asarray(metric.importances, dtype=np.float64))
    order = [int(i) for i in np.argsort(-values, kind="stable")[:MOST_BARS]]
    some, more = order[:FEW_BARS], order[FEW_BARS:]
    which = "All" if len(some) == len(values) else f"The {len(some)} largest of {len(values)}"
    table = _bar_table(metric, values, some, f"{which} importances, as shares of their sum.")
    if more:
        rest = _bar_table(metric, values, more, "The next ones.")
        table += element("details", element("summary", f"{len(more)} more"), rest)
    return element("div", table)


def _bar_table(metric: Metric, values: np.ndarray, rows: list[int], caption: str) -> str:
    highest, total = float(values.max()) or 1.0, float(values.sum()) or 1.0
    lines = []
    for i in rows:
        bar = element("span", style=f"width:{max(0.0, 100 * values[i] / highest):.1f}%")
        lines.append(
            element(
                "tr",
                element("th", escape(metric.features[i]), _part_note(metric, i), scope="row"),
                element("td", bar, class_="bar"),
                element("td", f"{100 * values[i] / total:.1f} %", class_="number"),
            )
        )
    head = element(
        "tr",
        element("th", "Column", scope="col"),
        element("td"),
        element("th", "Importance", scope="col", class_="number"),
    )
    inside = element("thead", head), element("tbody", *lines)
    return element("table", element("caption", escape(caption)), *inside, class_="bars")


def _part_note(metric: Metric, i: int) -> str:
    """What the features of an encoded column weigh."""
    if not metric.parts or not metric.parts[i]:
        return ""
    return element("span", escape(metric.parts[i]), class_="note")


def _heat_map(metric: Metric) -> str:
    if metric.matrix is None or len(metric.matrix_features) == 0:
        return ""
    matrix = np.nan_to_num(np.asarray(metric.matrix, dtype=np.float64))
    names = [clean(name) for name in metric.matrix_features]
    rest = ""
    if len(names) > MOST_IN_HEAT_MAP:
        kept = np.sort(np.argsort(-np.diag(matrix), kind="stable")[:MOST_IN_HEAT_MAP])
        rest = f" The {len(kept)} of {len(names)} features with the largest weights are shown."
        matrix, names = matrix[np.ix_(kept, kept)], [names[i] for i in kept]
    words = _matrix_words(matrix, names)
    caption = f"{words}{rest} Orange with + is positive, purple with − negative; darker is larger."
    return element(
        "figure",
        element("h3", "The learnt metric"),
        _charts.heat_map(matrix, names, words),
        element("figcaption", escape(caption)),
        class_="matrix",
    )


def _matrix_words(matrix: np.ndarray, names: list[str]) -> str:
    """The largest entries of the matrix, in words."""
    largest = np.argsort(-np.diag(matrix), kind="stable")[:3]
    weights = ", ".join(f"{names[i]} ({matrix[i, i]:.3g})" for i in largest)
    words = (
        "What two features add to a squared distance, if both differ by one standard deviation. "
        f"The largest weights: {weights}."
    )
    pairs = np.abs(np.triu(matrix, 1))
    if pairs.max(initial=0.0) > 0:
        i, j = np.unravel_index(int(pairs.argmax()), pairs.shape)
        words += f" The strongest pair: {names[i]} with {names[j]} ({matrix[i, j]:.3g})."
    return words


# Convergence --------------------------------------------------------------------------------------


def _history(history: History | None) -> str:
    if history is None:
        return ""
    charts = _loss_chart(history) + _score_chart(history)
    if not charts and not history.sentences:
        return ""
    words = _paragraphs(history.sentences)
    shown = element("div", charts, class_="charts") if charts else ""
    return _section("convergence", "Convergence and over-fitting", words, shown)


def _loss_chart(history: History) -> str:
    x = [float(i) for i in history.iteration]
    lines: list[_charts.Curve] = [("rows learnt from", x, [float(v) for v in history.loss])]
    if history.held_out:
        held_out = [math.nan if v is None else float(v) for v in history.held_out]
        lines.append(("held-out rows", x, held_out))
    return _chart("Loss", lines, share=False)


def _score_chart(history: History) -> str:
    x = [float(i) for i in history.score_iteration]
    lines: list[_charts.Curve] = [
        (name, x, [float(v) for v in scores])
        for name, scores in [
            ("rows learnt from", history.train_score),
            ("held-out rows", history.held_out_score),
        ]
        if scores
    ]
    return _chart(_title(history.score_name), lines, share=history.score_name in SHARES)


def _chart(title: str, lines: list[_charts.Curve], share: bool) -> str:
    """A figure with curves over the iterations, and their ends in words."""
    ends = _ends(lines, "{:.1%}" if share else "{:.4g}")
    words = f"{title} by iteration. {ends}"
    chart = _charts.curves(lines, words, x_name="iteration", share=share)
    if not chart:
        return ""
    inside = element("h3", escape(title)), chart, element("figcaption", escape(words))
    return element("figure", *inside)


def _ends(lines: list[_charts.Curve], form: str) -> str:
    """The first and the last value of each curve, in words."""
    texts = []
    for name, _, y in lines:
        finite = [value for value in y if math.isfinite(value)]
        if finite:
            texts.append(f"{name}: from {form.format(finite[0])} to {form.format(finite[-1])}")
    return _title("; ".join(texts)).replace("%", " %") + "." if texts else ""


# The model ----------------------------------------------------------------------------------------


def _model(model: Model | None) -> str:
    if model is None:
        return ""
    file = ""
    if model.file:
        file = element("p", "The model is in the file ", element("code", escape(model.file)), ".")
    code = ""
    if model.code:
        button = element(
            "button", "Copy", type="button", class_="copy", data_copies="model-code"
        )  # fmt: skip
        text = element("code", escape(model.code), id="model-code")
        label = "Code that loads the model"
        block = element("pre", text, tabindex=0, role="region", aria_label=label)
        code = element("div", button, block, class_="code")
    tables = element(
        "div",
        _named_table("Parameters that were set or chosen", model.parameters),
        _named_table("Versions", model.versions),
        class_="tables",
    )
    name = element("p", element("strong", escape(model.name)))
    return _section("model", "The model, and how to load it", name, file, code, tables)


def _named_table(caption: str, values: dict[str, str]) -> str:
    if not values:
        return ""
    rows = [
        element("tr", element("th", escape(name), scope="row"), element("td", escape(value)))
        for name, value in values.items()
    ]
    return element("table", element("caption", caption), element("tbody", *rows), class_="named")
