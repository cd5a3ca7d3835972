"""The site: `make docs` builds it from the whole repository, so that links between files hold."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

import vicinal  # noqa: E402

project, author = "vicinal", "The vicinal developers"
copyright = author
version = release = vicinal.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
root_doc = "docs/index"
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
suppress_warnings = ["ref.citation"]  # the keys of references are plain text
exclude_patterns = [
    "**/.*", ".*", "CODE_OF_CONDUCT.md", "SECURITY.md", "recipe", "build", "demo", "dist",
    "node_modules", "src", "tests", "tools", "examples", "README.md", "benchmarks/reproduce",
    ".github",
]  # fmt: skip

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath", "html_image"]
myst_heading_anchors = 4

mathjax_path = "mathjax/tex-chtml.js"  # no server is asked

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = True
numpydoc_class_members_toctree = False
numpydoc_show_inherited_class_members = True

sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples"),
    "gallery_dirs": str(ROOT / "docs/gallery"),
    "filename_pattern": r"plot_",
    "ignore_pattern": r"front_page",  # it draws the picture of the README, in minutes
    "download_all_examples": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "vicinal"
html_theme_options = {"show_toc_level": 2, "navigation_with_keys": False}
html_extra_path = [
    str(each) for each in (ROOT / "docs/site", ROOT / "build/extra") if each.exists()
]
html_static_path = []


def _read(app, docname, source):
    """Anchors in HTML become targets, and links to examples lead to their pages in the gallery."""
    text = re.sub(r"^<!-- picture\n.*?^-->\n", "", source[0], flags=re.S | re.M)
    text = re.sub(r'<a id="([\w-]+)"></a>', r"(\1)=", text)
    source[0] = re.sub(r"\]\((?:\.\./)+examples/(plot_\w+)\.py\)", r"](/docs/gallery/\1.rst)", text)


def _plain(app, what, name, obj, options, lines):
    """Names such as loss_ are no links, keys of references need none, and long lines are joined."""
    for at in range(len(lines) - 2, -1, -1):
        if lines[at].endswith("\\"):
            lines[at] = lines[at][:-1].rstrip() + " " + lines.pop(at + 1).strip()
    for at, line in enumerate(lines):
        if line.lstrip().startswith((">>>", "...", ".. [")):
            continue
        parts = re.split(r"(``.*?``|`[^`]*`_*)", re.sub(r":ref:`(.*?) <.*?>`", r"\1", line))
        for each in range(0, len(parts), 2):
            parts[each] = re.sub(r"\[(\w+)\]_(?!\w)", r"[\1]", parts[each])
            parts[each] = re.sub(r"\b(\w*[A-Za-z0-9])_(?![\w`{^])", r"\1\\_", parts[each])
        lines[at] = "".join(parts)


def setup(app):
    app.connect("source-read", _read)
    app.connect("autodoc-process-docstring", _plain, priority=100)  # before numpydoc
