"""Trace a fit until the first kernel runs: which files it enters, and how deep the stack gets.

``python tools/trace_fit.py`` traces four fits on digits and prints what docs/architecture.md
lists: the files in the order they are first entered, the deepest stack of the package's own frames,
and how often other code calls back into a method of the estimator.
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from typing import Any

from sklearn.datasets import load_digits

import vicinal

PACKAGE = Path(vicinal.__file__).parent


class FirstKernel(Exception):
    """Ends the trace at the first kernel."""


def trace(fit: Any, estimator: Any) -> tuple[list[str], int, list[str]]:
    """Files entered, deepest stack, and methods of the estimator called from other code."""
    files: dict[str, None] = {}
    deepest, back = 0, []

    def name_of(frame: Any) -> str | None:
        path = Path(frame.f_code.co_filename)
        return str(path.relative_to(PACKAGE)) if PACKAGE in path.parents else None

    def stack(frame: Any) -> list[Any]:
        frames = []
        while frame is not None:
            if name_of(frame) is not None:
                frames.append(frame)
            frame = frame.f_back
        return frames

    def watch(frame: Any, event: str, argument: Any) -> None:
        nonlocal deepest
        if event != "call" or (name := name_of(frame)) is None:
            return
        files.setdefault(name)
        frames = stack(frame)
        deepest = max(deepest, len(frames))
        if name.startswith("kernels"):
            raise FirstKernel
        own = frame.f_locals.get("self") is estimator
        caller = frames[1] if len(frames) > 1 else None
        if own and caller is not None and caller.f_locals.get("self") is not estimator:
            back.append(frame.f_code.co_name)

    sys.setprofile(watch)
    try:
        fit()
    except FirstKernel:
        pass
    finally:
        sys.setprofile(None)
    return list(files), deepest, back


def main() -> None:
    """Trace the four fits."""
    warnings.simplefilter("ignore")
    X, y = load_digits(return_X_y=True)
    half = vicinal.NCA(2, alpha=3e-3, max_iter=3, warm_start=True, random_state=0).fit(
        X[:700], y[:700]
    )
    cases = {
        "NCA(alpha=3e-3).fit": vicinal.NCA(alpha=3e-3, random_state=0),
        'KNCA(pairs="nearest").fit': vicinal.KNCA(pairs="nearest", random_state=0),
        "Chi2LMNN().fit": vicinal.Chi2LMNN(random_state=0),
        "NCA(warm_start=True).fit, resumed": half,
    }
    for title, model in cases.items():
        rows = slice(None, 700) if model is half else slice(None)
        files, deepest, back = trace(lambda m=model, r=rows: m.fit(X[r], y[r]), model)
        print(f"{title}: {len(files)} files, {deepest} frames, back into the estimator {len(back)}")
        print("  " + " -> ".join(files))
        print("  back: " + ", ".join(back))


if __name__ == "__main__":
    # run kernels as plain Python, so that the tracer sees the first call of one
    if os.environ.get("NUMBA_DISABLE_JIT") != "1":
        os.environ["NUMBA_DISABLE_JIT"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.argv])
    main()
