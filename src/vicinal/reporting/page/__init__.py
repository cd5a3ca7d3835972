"""The page of a report: one HTML file with its data, pictures and scripts inside.

The page asks nothing of a network: its Content-Security-Policy forbids every load and runs only the
scripts whose hash it names.  Texts from the data are escaped where Python writes them; all data of
the points travel as base64 and are shown by scripts that set text, never markup.
"""

from __future__ import annotations

import base64
import hashlib
import re
from importlib.resources import files

from vicinal.reporting.contents import Contents
from vicinal.reporting.page._payload import check, payload
from vicinal.reporting.page._sections import sections
from vicinal.reporting.page._text import escape

__all__ = ["render"]

# In this order: later files use the names of earlier ones.
SCRIPTS = (
    "dom.js",
    "payload.js",
    "marks.js",
    "rows.js",
    "picture.js",
    "labels.js",
    "overlay.js",
    "player.js",
    "legend.js",
    "neighbours.js",
    "search.js",
    "keys.js",
    "figures.js",
    "main.js",
)


def render(contents: Contents) -> str:
    """The page as HTML, which needs no other file.

    Parameters
    ----------
    contents : Contents
        What the page shows.

    Returns
    -------
    html : str
        To be written as UTF-8.

    Raises
    ------
    ImportError
        If plotly, whose script draws the points, is not installed.
    ValueError
        If parts of the contents do not fit together.
    """
    check(contents)
    plotly = _plotly_script()
    script = '"use strict";\n(() => {\n' + "\n".join(_asset(name) for name in SCRIPTS) + "})();\n"
    parts = {
        "title": escape(contents.title),
        "policy": _policy(plotly, script),
        "style": _asset("page.css"),
        "plotly": plotly,
        "script": script,
        "payload": base64.b64encode(payload(contents)).decode("ascii"),
        **sections(contents),
    }
    # One pass: what is filled in is not searched for names again.
    return re.sub(r"\{\{(\w+)\}\}", lambda name: parts[name[1]], _asset("page.html"))


def _asset(name: str) -> str:
    """A file of this package."""
    asset = files("vicinal.reporting.page").joinpath("assets", name)
    return asset.read_text(encoding="utf-8").replace("\r\n", "\n")


def _plotly_script() -> str:
    """plotly.js as the package plotly brings it, safe to stand in a page."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ImportError(
            "A report page needs the package plotly: pip install 'vicinal[report]'"
        ) from error
    # HTML reads other line ends as \n, and the hash is taken of what it reads.
    script = str(get_plotlyjs()).replace("\r\n", "\n").replace("\r", "\n")
    if "</script" in script.lower() or "<!--" in script:
        raise ValueError("This release of plotly has a script that cannot stand inside a page.")
    return script


def _policy(*scripts: str) -> str:
    """The Content-Security-Policy: no load from anywhere, and no script but the given ones.

    plotly sets styles of its own, and compiles code for the graphics card from text of its own
    ('unsafe-eval'); no script of ours evaluates text.  Pictures are made inside the page.
    """
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
        for text in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes} 'unsafe-eval'; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
