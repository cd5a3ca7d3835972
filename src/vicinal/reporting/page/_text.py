"""Texts of the data, made safe and readable."""

from __future__ import annotations

import html
import math

# Scores from 0 to 1 that are shown in per cent.
SHARES = ("accuracy", "5-NN accuracy", "neighbours kept")


def clean(text: object) -> str:
    """The text without what UTF-8 or HTML cannot hold: lone surrogates, control characters."""
    known = str(text).encode("utf-8", "replace").decode("utf-8")
    return "".join(c if c in "\n\t" or c.isprintable() or c.isspace() else "\ufffd" for c in known)


def escape(text: object) -> str:
    """The text as HTML shows it, inside an element or an attribute in quotes."""
    return html.escape(clean(text), quote=True)


def score_text(value: float, name: str, error: float | None = None) -> str:
    """A score with its standard error: "94.1 ± 0.6 %" for an accuracy, "0.871 ± 0.012" for R²."""
    if not math.isfinite(value):
        return "–"
    share = name in SHARES
    known = error is not None and math.isfinite(error)
    scale, digits = (100, 1) if share else (1, 3)
    text = f"{scale * value:.{digits}f}"
    if known:
        text += f" ± {scale * float(error or 0):.{digits}f}"
    return (text + (" %" if share else "")).replace("-", "\u2212")


def element(name: str, *inside: str, **attributes: object) -> str:
    """An element as HTML: ``inside`` is HTML already, the attributes are escaped.

    A trailing underscore of an attribute is dropped (``class_``), others are written as hyphens;
    an attribute that is None is left out.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{written}>{''.join(inside)}</{name}>"
