"""The parts of the page that need no script, as HTML: words, tables and still pictures."""

from __future__ import annotations

import math

import numpy as np

from vicinal.reporting.contents import Contents, History, Metric, Model, Score
from vicinal.reporting.page import _charts
from vicinal.reporting.page._text import SHARES, clean, element, escape, score_text

# A heat map with more rows cannot be read.
MOST_IN_HEAT_MAP = 40
# Bars that are shown at once, and with those behind "more".
FEW_BARS, MOST_BARS = 20, 200


def sections(contents: Contents) -> dict[str, str]:
    """Each part of the page by its name in page.html; "" for a part that is left out."""
    picture, neighbours = contents.embedding, contents.neighbors
    parts = {
        "scores": _scores(contents),
        "features": _features(contents.metric),
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


def _headline(contents: Contents) -> str:
    """The score before and after, in large figures."""
    before = next((score for score in contents.scores if not score.learnt), None)
    after = next((score for score in contents.scores if score.learnt), None)
    if after is None:
        return ""
    name = contents.score_name
    parts = [_figure("after", after, name)]
    if before is not None:
        arrow = element("span", "→", class_="arrow", role="img", aria_label="became")
        parts = [_figure("before", before, name), arrow, *parts]
    what = "Held-out accuracy" if name == "accuracy" else _title(name)
    inside = element("p", escape(what), class_="what"), element("div", *parts, class_="figures")
    return element("div", *inside, class_="headline", role="group", aria_label=what)


def _figure(kind: str, score: Score, name: str) -> str:
    rest = f"± {score_text(score.error, name)}" if math.isfinite(score.error) else ""
    return element(
        "div",
        element("span", score_text(score.mean, name), class_="value"),
        element("span", rest, class_="rest"),
        element("span", escape(score.name), class_="of"),
        class_=kind,
    )


# Scores -------------------------------------------------------------------------------------------


def _scores(contents: Contents) -> str:
    """The comparison as a table, with a dot and its error bar in each row."""
    if not contents.scores:
        return ""
    name, share = contents.score_name, contents.score_name in SHARES
    limits = _charts.score_range(contents.scores, share)
    rows = [_score_row(score, name, limits) for score in contents.scores]
    bars = any(math.isfinite(score.error) for score in contents.scores)
    note = element("span", "± one standard error" if bars else "", class_="note")
    head = element(
        "tr",
        element("th", "Method", scope="col"),
        element("th", escape(_title(name)), scope="col", class_="number"),
        element("td", note, class_="dots"),
    )
    axis = element("td", _charts.dot_axis(limits, share), class_="dots")
    table = element(
        "table",
        element("caption", escape(contents.scores_note)),
        element("thead", head),
        element("tbody", *rows),
        element("tfoot", element("tr", element("td"), element("td"), axis)),
        class_="scores",
    )
    return _section("scores", "How well it does on rows it has not seen", table)


def _score_row(score: Score, name: str, limits: tuple[float, float]) -> str:
    mark = element("span", "this page", class_="tag") if score.learnt else ""
    note = element("span", escape(score.note), class_="note") if score.note else ""
    return element(
        "tr",
        element("th", escape(score.name), " ", mark, note, scope="row"),
        element("td", score_text(score.mean, name, score.error), class_="number"),
        element("td", _charts.dot(score, limits), class_="dots"),
        class_="learnt" if score.learnt else None,
    )


# Features -----------------------------------------------------------------------------------------


def _features(metric: Metric | None) -> str:
    if metric is None:
        return ""
    parts = [_bars(metric), _heat_map(metric)]
    if not any(parts):
        return ""
    note = _paragraphs([metric.note] if metric.note else [])
    return _section("features", "Which features matter", note, *parts)


def _bars(metric: Metric) -> str:
    """The importances, largest first, as tables with bars."""
    if metric.importances is None or len(metric.importances) == 0:
        return ""
    values = np.nan_to_num(np.asarray(metric.importances, dtype=np.float64))
    order = [int(i) for i in np.argsort(-values, kind="stable")[:MOST_BARS]]
    some, more = order[:FEW_BARS], order[FEW_BARS:]
    which = "All" if len(some) == len(values) else f"The {len(some)} largest of {len(values)}"
    names = metric.features
    table = _bar_table(names, values, some, f"{which} importances, as shares of their sum.")
    if not more:
        return table
    rest = _bar_table(names, values, more, "The next ones.")
    return table + element("details", element("summary", f"{len(more)} more"), rest)


def _bar_table(names: list[str], values: np.ndarray, rows: list[int], caption: str) -> str:
    highest, total = float(values.max()) or 1.0, float(values.sum()) or 1.0
    lines = []
    for i in rows:
        bar = element("span", style=f"width:{max(0.0, 100 * values[i] / highest):.1f}%")
        lines.append(
            element(
                "tr",
                element("th", escape(names[i]), scope="row"),
                element("td", bar, class_="bar"),
                element("td", f"{100 * values[i] / total:.1f} %", class_="number"),
            )
        )
    head = element(
        "tr",
        element("th", "Feature", scope="col"),
        element("td"),
        element("th", "Importance", scope="col", class_="number"),
    )
    inside = element("thead", head), element("tbody", *lines)
    return element("table", element("caption", escape(caption)), *inside, class_="bars")


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
    caption = f"{words}{rest} Blue with + is positive, orange with − negative; darker is larger."
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
    words = f"A matrix of {len(names)} features. The largest weights: {weights}."
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
    return _title("; ".join(texts)) + "." if texts else ""


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
        _named_table("Parameters", model.parameters),
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
