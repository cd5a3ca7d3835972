"""Count what makes the library hard to read: lines, files, frames of a fit, and what hides a part.

``python tools/size.py`` prints the figures next to the ones in ``size.json``.  ``--check`` fails if
a figure has risen, or if the table in docs/architecture.md is not the one that the traces give.
``--write`` writes both; a commit in which a figure rises says why.

The traces follow a fit until its first kernel: the files that it enters, the deepest stack of the
package's own frames, and the calls from other code back into a method of the estimator.  Imports
are left out.  ``--trace`` prints the files in order.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "vicinal"
KEPT = ROOT / "tools" / "size.json"
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = (f"<!-- tools/size.py --write: {word} -->\n" for word in ("begin", "end"))

HEAD = "| | files | frames, at most | back into the estimator |", "| --- | --- | --- | --- |"

#: packages that run a fit, and those whose parts should state what they have
FITS = ("estimators", "fit")
NUMERIC = ("core", "estimators", "fit", "maps", "starts", "objectives")
#: figures that a commit should bring down to these
AIMS = {
    "lines": 55_000,
    "files in estimators/": 25,
    "Any in estimators/ and fit/": 200,
    "getattr and hasattr in the numeric packages": 50,
    "import-linter layers": 14,
    "own classes of an estimator, at most": 6,
    "short files with one importer": 15,
    "modules loaded by a string": 0,
    "NCA().fit: files": 32,
    "NCA().fit: frames": 18,
}


class Source(NamedTuple):
    """A file of the package."""

    module: str
    path: Path
    package: str
    lines: list[str]
    nodes: list[ast.AST]


def sources(root: Path) -> list[Source]:
    """All files of the package in a folder, such as ``src/vicinal``."""
    found = []
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        text = path.read_text(encoding="utf-8")
        nodes = list(ast.walk(ast.parse(text)))
        found.append(Source(".".join(parts), path, "".join(parts[1:2]), text.splitlines(), nodes))
    return found


def code_lines(source: Source) -> int:
    """Lines that are neither blank, nor a comment, nor part of a docstring."""
    doc: set[int] = set()
    for node in source.nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            if ast.get_docstring(node, clean=False) is not None:
                doc |= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return sum(
        bool(line.strip()) and not line.lstrip().startswith("#") and number not in doc
        for number, line in enumerate(source.lines, 1)
    )


def uses(files: list[Source], *names: str) -> int:
    """How often some names are used, imports aside."""
    return sum(isinstance(n, ast.Name) and n.id in names for f in files for n in f.nodes)


def imports(source: Source, modules: set[str]) -> Iterator[tuple[str, str, str]]:
    """Module, name there and name here of each import from the package."""
    for node in source.nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                place = inner if inner in modules else node.module
                if place in modules:
                    yield place, alias.name, alias.asname or alias.name
        elif isinstance(node, ast.Import):
            yield from ((a.name, "", a.asname or a.name) for a in node.names if a.name in modules)


def loaded(source: Source) -> list[str]:
    """Modules that the file names in a string, as ``"vicinal.package.module:name"``."""
    package = source.module.partition(".")[0]
    pattern = re.compile(rf"({package}(?:\.\w+)+):\w+")
    texts = (n.value for n in source.nodes if isinstance(n, ast.Constant))
    return [found[1] for t in texts if isinstance(t, str) and (found := pattern.fullmatch(t))]


def short_with_one_importer(files: list[Source]) -> list[str]:
    """Files of fewer than 120 lines that a single other file imports."""
    modules = {f.module for f in files}
    importers: dict[str, set[str]] = {module: set() for module in modules}
    for file in files:
        for place in {place for place, _, _ in imports(file, modules)} | set(loaded(file)):
            importers.get(place, set()).add(file.module)
    return [
        f.module
        for f in files
        if f.path.name != "__init__.py"
        and len(f.lines) < 120
        and len(importers[f.module] - {f.module}) == 1
    ]


def ancestry(files: list[Source]) -> dict[str, int]:
    """Own classes in the MRO of each public estimator, itself included."""
    modules = {f.module for f in files}
    bases: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for file in files:
        classes = [node for node in file.nodes if isinstance(node, ast.ClassDef)]
        place = {c.name: (file.module, c.name) for c in classes}
        place |= {here: (module, name) for module, name, here in imports(file, modules)}
        for node in classes:
            held = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
            known = [place[b.id] for b in held if isinstance(b, ast.Name) and b.id in place]
            bases[file.module, node.name] = known

    def above(kind: tuple[str, str]) -> set[tuple[str, str]]:
        return {kind}.union(*(above(base) for base in bases.get(kind, ()) if base in bases))

    return {
        name: len(above((module, name)))
        for module, name in bases
        if ".estimators." in module and not module.split(".")[-1].startswith("_")
        if not name.startswith("_") and len(above((module, name))) > 1
    }


def static_figures(root: Path, project: Path) -> dict[str, int]:
    """What can be counted without running anything."""
    files = sources(root)
    fits = [f for f in files if f.package in FITS]
    numeric = [f for f in files if f.package in NUMERIC]
    contracts = tomllib.loads(project.read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = [len(c["layers"]) for c in contracts["contracts"] if c["type"] == "layers"]
    own = ancestry(files)
    return {
        "lines": sum(len(f.lines) for f in files),
        "lines of code": sum(map(code_lines, files)),
        "files": len(files),
        "files in estimators/": sum(f.package == "estimators" for f in files),
        "Any in estimators/ and fit/": uses(fits, "Any"),
        "getattr and hasattr in the numeric packages": uses(numeric, "getattr", "hasattr"),
        "import-linter layers": sum(layers),
        "short files with one importer": len(short_with_one_importer(files)),
        "modules loaded by a string": sum(len(loaded(f)) for f in files),
        "own classes of an estimator, at most": max(own.values(), default=0),
        **{f"own classes of {name}": n for name, n in sorted(own.items())},
    }


class FirstKernel(Exception):
    """Ends the trace at the first kernel."""


def trace(fit: Callable[[], Any], estimator: Any) -> dict[str, Any]:
    """Files entered, frames of the deepest stack, and calls back into the estimator."""
    start, kernels = f"{PACKAGE}{os.sep}", f"{PACKAGE / 'kernels'}{os.sep}"
    files, deepest, back = {}, 0, []

    def watch(frame: Any, event: str, argument: Any) -> None:
        nonlocal deepest
        path = frame.f_code.co_filename
        if event != "call" or not path.startswith(start):
            return
        stack, above = [], frame
        while above is not None:
            if above.f_code.co_filename.startswith(start):
                stack.append(above)
            above = above.f_back
        if any(f.f_code.co_name == "<module>" for f in stack):
            return  # an import
        files.setdefault(path[len(start) :])
        deepest = max(deepest, len(stack))
        if path.startswith(kernels):
            raise FirstKernel
        own = [f.f_locals.get("self") is estimator for f in stack[:2]]
        if own == [True, False]:
            back.append(frame.f_code.co_name)

    sys.setprofile(watch)
    try:
        fit()
    except FirstKernel:
        pass
    finally:
        sys.setprofile(None)
    return {"files": list(files), "frames": deepest, "back": back}


def traces() -> dict[str, Any]:
    """Trace the fits."""
    import warnings

    import numpy as np

    import vicinal

    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 5000)
    X = rng.standard_normal((3, 8))[y] + rng.standard_normal((5000, 8))
    shares = np.abs(X) / np.abs(X).sum(axis=1, keepdims=True)
    few = X[:501], y[:501]  # as few as the compiled engines take, since kernels are slow here
    half = vicinal.NCA(2, alpha=3e-3, max_iter=1, warm_start=True, random_state=0).fit(*few)
    cases = {
        "NCA().fit": (vicinal.NCA(random_state=0), (X, y)),
        'KNCA(neighborhood="nearest").fit': (
            vicinal.KNCA(neighborhood="nearest", random_state=0),
            (X, y),
        ),
        "Chi2LMNN().fit": (vicinal.Chi2LMNN(random_state=0), (shares, y)),
        "NCA(warm_start=True).fit, resumed": (half, few),
        "KSNE().fit": (vicinal.KSNE(random_state=0), (X,)),
    }
    return {
        title: trace(lambda m=model, r=rows: m.fit(*r), model)
        for title, (model, rows) in cases.items()
    }


def run_traces() -> dict[str, Any]:
    """The traces, from a new process."""
    # one thread, since what the threads take from each other is another stack each time
    plain = {"NUMBA_DISABLE_JIT": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, __file__, "--traces-as-json"]
    done = subprocess.run(command, env={**os.environ, **plain}, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def page_with(text: str, found: dict[str, Any]) -> str:
    """The text of docs/architecture.md with the table of these traces."""
    rows = list(HEAD)
    for title, t in found.items():
        call, comma, how = title.partition(",")
        counts = f"{len(t['files'])} | {t['frames']} | {len(t['back'])}"
        rows.append(f"| `{call}`{comma}{how} | {counts} |")
    (before, _, rest), table = text.partition(BEGIN), "\n".join(rows)
    return f"{before}{BEGIN}{table}\n{END}{rest.partition(END)[2]}"


def main() -> int:
    """Count, print, and check or write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="fail if a figure has risen")
    parser.add_argument("--write", action="store_true", help="keep the present figures")
    parser.add_argument("--trace", action="store_true", help="print the files that fits enter")
    parser.add_argument("--traces-as-json", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.traces_as_json:
        print(json.dumps(traces()))
        return 0
    found = run_traces()
    figures = static_figures(PACKAGE, ROOT / "pyproject.toml")
    for title, t in found.items():
        figures |= {f"{title}: files": len(t["files"]), f"{title}: frames": t["frames"]}
        if options.trace:
            print(title, " -> ".join(t["files"]), f"back: {', '.join(t['back'])}", sep="\n  ")
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    risen = {name for name, now in figures.items() if now > kept.get(name, 0)}
    print(f"{'':45} {'kept':>7} {'now':>7} {'aim':>7}")
    for name, now in figures.items():
        rose = " risen" if name in risen else ""
        print(f"{name:45} {kept.get(name, '-'):>7} {now:>7} {AIMS.get(name, ''):>7}{rose}")
    text = PAGE.read_text(encoding="utf-8")
    page = page_with(text, found)
    if options.write:
        KEPT.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
        PAGE.write_text(page, encoding="utf-8")
    elif options.check and risen:
        print("Bring down what has risen, or run tools/size.py --write and say why in the commit.")
    elif options.check and page != text:
        print(f"The table in {PAGE.name} is not the present one. Run tools/size.py --write.")
    return int(options.check and not options.write and (bool(risen) or page != text))


if __name__ == "__main__":
    sys.exit(main())
