"""Run the Python code of the pages, each page by itself, and keep the figures that they draw.

    python docs/run_code.py                  # all pages
    python docs/run_code.py howto/picture    # some of them

A page runs from top to bottom in an empty folder that holds table.csv, wine with a column "label".
If it shows ``images/NAME.png``, the figure it drew last is written there; code that only draws it
stands in a comment, ``<!-- picture ... -->``, which the site leaves out.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import traceback
import warnings
from importlib.util import find_spec
from multiprocessing.pool import ThreadPool
from pathlib import Path

DOCS = Path(__file__).resolve().parent
FOLDERS = ("start", "howto")


def blocks(page: Path) -> list[str]:
    """The Python code of a page."""
    text = page.read_text(encoding="utf-8")
    shown = re.findall(r"^```python\n(.*?)^```", text, re.S | re.M)
    return [*shown, *re.findall(r"^<!-- picture\n(.*?)^-->", text, re.S | re.M)]


def run(page: Path) -> str:
    """What went wrong, or nothing."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from sklearn.datasets import load_wine

    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            frame = load_wine(as_frame=True).frame.rename(columns={"target": "label"})
            frame.to_csv("table.csv", index=False)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(compile("\n".join(blocks(page)), str(page), "exec"), {"__name__": "page"})
            picture = re.search(r"\]\(images/([\w-]+\.png)\)", page.read_text(encoding="utf-8"))
            if picture:
                (page.parent / "images").mkdir(exist_ok=True)
                figure = plt.figure(plt.get_fignums()[-1])
                figure.savefig(page.parent / "images" / picture[1], dpi=90, bbox_inches="tight")
        except Exception:
            return traceback.format_exc(limit=-2)
        finally:
            plt.close("all")
            os.chdir(here)
    return ""


def run_apart(page: Path) -> str:
    """The same in a process of its own, so that one page cannot change another."""
    words = [sys.executable, __file__, "--here", str(page)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    return (done.stdout + done.stderr).strip() if done.returncode else ""


def run_here(page: Path) -> int:
    """Run a page in this process, and print what went wrong."""
    problem = run(page)
    print(problem)
    return int(bool(problem))


def main(names: list[str]) -> int:
    """Run the pages, two at a time, and say which failed."""
    if names[:1] == ["--here"]:
        return run_here(Path(names[1]))
    found = sorted(page for folder in FOLDERS for page in (DOCS / folder).glob("*.md"))
    pages = [DOCS / f"{name}.md" for name in names] or [page for page in found if blocks(page)]
    if find_spec("torch") is None:  # gigabytes: `make test-torch` runs these
        apart = [page for page in pages if "import torch" in "".join(blocks(page))]
        for page in apart:
            print(f"{page.relative_to(DOCS)}: not run, it needs torch")
        pages = [page for page in pages if page not in apart]
    failed = 0
    with ThreadPool(2) as pool:
        for page, problem in zip(pages, pool.imap(run_apart, pages), strict=True):
            print(f"{page.relative_to(DOCS)}: {problem or 'runs'}", flush=True)
            failed += bool(problem)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
