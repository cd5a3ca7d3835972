"""Check and time the GPU engine on the GPU of this machine, against the bars that it was built to.

    python benchmarks/gpu_speed.py                     # under ten minutes on an H200
    python benchmarks/gpu_speed.py --only check bars
    python benchmarks/gpu_speed.py --output            # also writes benchmarks/results/gpu_speed.md
    python benchmarks/gpu_speed.py --tune              # times other shapes of blocks as well
    python benchmarks/gpu_speed.py --smoke             # tiny sizes, in Triton's interpreter

A row that fails prints its error, and the next one follows.  Fits need mnist, usps and covtype15120
in VICINAL_DATA.  "Evaluation" is the loss and its gradient by the points, from a call to the value
on the host.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

SMOKE = "--smoke" in sys.argv
if SMOKE:
    os.environ["TRITON_INTERPRET"] = "1"

# ruff: noqa: E402  Triton reads the variable when it is imported
import numpy as np
import torch

from vicinal import KNCA, KSNE, MLKR, NCA
from vicinal.datasets import load
from vicinal.densities import Gaussian
from vicinal.engines import cuda
from vicinal.engines.base import Data
from vicinal.engines.cuda import backend, class_sums, dots, votes
from vicinal.engines.cuda.arrays import DeviceArray
from vicinal.objectives import (
    KNCALoss,
    KSNELoss,
    MLKRLoss,
    NCALoss,
    knca_posterior,
    nca_posterior,
)
from vicinal.targets import Affinities, Labels, Numbers

warnings.simplefilter("ignore")
if SMOKE:
    cuda.STAND_IN = "cpu"
    torch.set_num_threads(1)
DEVICE = "cpu" if SMOKE else "cuda"
N, MANY = (300, 600) if SMOKE else (60_000, 1_000_000)
FLOOR = {2: 1.87, 5: 3.36}  # ms of 60,000 rows, from the measured rates of an H200
LINES: list[str] = []


def say(line: str = "") -> None:
    """Print a line, and keep it for the page."""
    print(line, flush=True)
    LINES.append(line)


def table(title: str, columns: str) -> None:
    """The head of a table."""
    heads = columns.split(", ")
    say(f"\n## {title}\n\n| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")


def row(name: str, work: Callable[[], list[Any]]) -> None:
    """A row of a table; an error is its content."""
    try:
        say(f"| {name} | {' | '.join(map(str, work()))} |")
    except Exception as error:
        say(f"| {name} | failed: {type(error).__name__}: {str(error)[:300]} |".replace("\n", " "))
        traceback.print_exc(limit=-4)
    if not SMOKE:
        torch.cuda.empty_cache()


def bar(value: float, must: float, stretch: float | None, more: bool = False) -> list[str]:
    """The value, its bars, and whether they are met; ``more`` means that large is good."""
    sign = -1.0 if more else 1.0

    def met(limit: float | None) -> str:
        return "–" if limit is None else ("met" if sign * value <= sign * limit else "**missed**")

    shown = "–" if stretch is None else f"{stretch:g}"
    return [f"{value:.3g}", f"{must:g}", met(must), shown, met(stretch)]


def blobs(n: int, d: int, classes: int = 10, within: float = 1.0, between: float = 2.0) -> Any:
    """Points of overlapping classes on the device, and their labels on the host."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, n)
    Z = within * rng.standard_normal((n, d), dtype=np.float32)
    Z += between * rng.standard_normal((classes, d), dtype=np.float32)[y]
    return torch.from_numpy(Z).to(DEVICE), y


def wait() -> None:
    """Wait for the device."""
    if not SMOKE:
        torch.cuda.synchronize()


def clock(work: Callable[[], Any], repeat: int = 9) -> float:
    """Median milliseconds after two calls, from the call to the end of all work."""
    times = []
    for _ in range(2 + (0 if SMOKE else repeat)):
        wait()
        began = time.perf_counter()
        work()
        wait()
        times.append(1e3 * (time.perf_counter() - began))
    return float(np.median(times[2:] or times))


def evaluation(Z: torch.Tensor, labels: Any, loss: Any = None) -> Callable[[], Any]:
    """An evaluation as a fit makes it: new points each time, the same labels."""
    loss, known = loss or NCALoss(), {}
    return lambda: loss(DeviceArray(Z, known), labels)


def plain_torch(Z: torch.Tensor, y: torch.Tensor, rows: int = 4096, exact: bool = False) -> Any:
    """The loss and its gradient in closed form, a block of rows by all columns at a time.

    ``exact`` has distances by differences: the reference, in float64.
    """
    n, dZ, total = len(Z), torch.zeros_like(Z), 0.0
    squares = (Z * Z).sum(1)
    for first in range(0, n, rows):
        part = Z[first : first + rows]
        if exact:
            e = Z.new_zeros(len(part), n)
            for a, b in zip(part.T, Z.T, strict=True):
                e.add_((a[:, None] - b).square_())
        else:
            e = squares[first : first + rows, None] + squares - 2 * part @ Z.T
        k = torch.arange(len(part), device=Z.device)
        e[k, k + first] = math.inf
        own = y[first : first + rows, None] == y
        a = torch.logsumexp(torch.where(own, -e, -math.inf), 1)
        b = torch.logsumexp(torch.where(own, -math.inf, -e), 1)
        total += torch.nn.functional.softplus(b - a).sum()
        slope = torch.sigmoid(b - a) / n
        w = slope[:, None] * torch.where(own, (-e - a[:, None]).exp(), -(-e - b[:, None]).exp())
        dZ[first : first + rows] += 2 * (w.sum(1)[:, None] * part - w @ Z)
        dZ += 2 * (w.sum(0)[:, None] * Z - w.T @ part)
    return total / n, dZ


# Correctness


def check() -> None:
    """Value and gradient against float64, and the same bits twice."""
    table("Correctness, float32 against float64",
          "points, engine, share of pairs, loss, error of the loss, of the gradient, bar, , "
          "same bits")  # fmt: skip
    cases: list[tuple[str, int, dict[str, Any]]] = []
    for d in (2, 5, 8, 16, 32):
        size = {} if d <= 8 else {"within": 0.7, "between": 0.7}
        for scale in (1, 10, 100):
            scaled = {
                key: value * scale
                for key, value in (size or {"within": 1.0, "between": 2.0}).items()
            }
            cases.append((f"d = {d}, Z × {scale}", d, scaled))
        cases.append((f"d = {d}, converged", d, {"within": 8 / d**0.5, "between": 40 / d**0.5}))
    cases.append(("d = 2, 97 classes", 2, {"classes": 97}))
    cases.append(("d = 2, 3,000 classes", 2, {"classes": 20 if SMOKE else 3000}))
    for name, d, how in cases:

        def work(d: int = d, how: Any = how) -> list[Any]:
            Z, y = blobs(N, d, **how)
            evaluate = evaluation(Z, Labels(y))
            found, again = evaluate(), evaluate()
            block = 1024 if d <= 8 else 512
            value, dZ = plain_torch(Z.double(), torch.from_numpy(y).to(DEVICE), block, exact=True)
            error = float((found.dZ.tensor.double() - dZ).norm() / dZ.norm())
            same = found.value == again.value and bool((found.dZ.tensor == again.dZ.tensor).all())
            off = abs(found.value - float(value)) / max(float(value), 1e-300)
            limit = 1e-5 if d <= 8 else 2e-5
            met = "met" if error <= limit else "**missed**"
            if float(value) < 1e-30:  # the gradient is below the range of float32
                met = "–"
            return [found.facts["engine"], f"{found.facts['share_of_pairs']:.3f}",
                    f"{float(value):.4g}",
                    f"{off:.1e}",
                    f"{error:.1e}", f"{limit:g}", met,
                    "yes" if same else "**no**"]  # fmt: skip

        row(name, work)


def check_votes() -> None:
    """kNCA against the CPU in float64 on few rows, and against the GPU in float64 on all."""
    table("Correctness of kNCA, float32 against float64",
          "points, rows, counted in logarithms, loss, error of the loss, of the gradient, bar, , "
          "same bits")  # fmt: skip
    few = 60 if SMOKE else 2000
    cases: list[tuple[str, int, int, int, str, dict[str, Any]]] = [
        (f"d = {d}, k = {k}, {vote}, Z × {scale}", few, d, k, vote,
         {"within": 1.0 * scale, "between": 2.0 * scale})
        for d, k, vote, scale in (
            (2, 5, "majority", 1), (2, 5, "majority", 10), (2, 5, "majority", 100),
            (5, 5, "all", 1), (5, 1, "majority", 1), (16, 5, "majority", 0.5),
            (32, 3, "majority", 0.5), (2, 15, "majority", 1),
        )
    ]  # fmt: skip
    cases.append(
        ("d = 2, k = 5, 97 classes", few, 2, 5, "majority", {"classes": 6 if SMOKE else 97})
    )
    cases.append(("d = 2, k = 5", N, 2, 5, "majority", {}))
    cases.append(("d = 5, k = 5, converged", N, 5, 5, "majority", {"within": 4, "between": 20}))
    for name, n, d, k, vote, how in cases:

        def work(n: int = n, d: int = d, k: int = k, vote: str = vote, how: Any = how) -> list[Any]:
            Z, y = blobs(n, d, **how)
            loss = KNCALoss(2 if SMOKE else k, vote)
            evaluate = evaluation(Z, Labels(y), loss)
            found, again = evaluate(), evaluate()
            if n == few:
                exact = loss(Z.double().cpu().numpy(), Labels(y))
                dZ = torch.from_numpy(exact.dZ).to(DEVICE)
            else:
                exact = loss(DeviceArray(Z.double()), Labels(y))
                dZ = exact.dZ.tensor
            error = float((found.dZ.tensor.double() - dZ).norm() / dZ.norm())
            off = abs(found.value - exact.value) / max(abs(exact.value), 1e-300)
            same = found.value == again.value and bool((found.dZ.tensor == again.dZ.tensor).all())
            return [f"{n:,}", found.facts["log_domain"], f"{exact.value:.4g}", f"{off:.1e}",
                    f"{error:.1e}", "1e-05", "met" if error <= 1e-5 else "**missed**",
                    "yes" if same else "**no**"]  # fmt: skip

        row(name, work)

    def chances() -> list[Any]:
        (Z, y), new = blobs(few, 3), blobs(few // 2, 3, within=3.0)[0]
        here = knca_posterior(new.cpu().numpy().astype(float), Z.cpu().numpy().astype(float), y, 3)
        there = knca_posterior(DeviceArray(new), DeviceArray(Z), y, 3)
        return [f"{len(new):,}", "–", "–", f"{np.abs(here - there).max():.1e}", "–", "–", "–", "–"]

    row("chances of new points, k = 3", chances)


def graph(n: int, k: int, length: int = 90) -> Affinities:
    """Affinities of random pairs: evaluations take as long as with those of neighbours."""
    rng = np.random.default_rng(0)
    length = min(length, n - 1)
    picked = (np.arange(n)[:, None] + 1 + np.sort(rng.integers(0, n - 1, (n, length)))) % n
    indices = np.sort(picked, axis=1).astype(np.int32).ravel()
    marginals = np.full(n * length, k / length)
    return Affinities(np.arange(n + 1) * length, indices, marginals, k, np.zeros(n))


def check_sets() -> None:
    """kSNE against the CPU in float64 on few rows, and against the GPU in float64 on all."""
    table("Correctness and time of kSNE",
          "picture, rows, error of the loss, of the gradient, bar, , same bits, float32 (ms), "
          "float64 (ms)")  # fmt: skip
    few = 90 if SMOKE else 2000
    for k, kernel, scale, n in ((1, "cauchy", 1.0, few), (1, "cauchy", 1e-4, few),
                                (5, "cauchy", 20.0, few), (3, "gaussian", 1.0, few),
                                (1, "cauchy", 20.0, N), (5, "cauchy", 20.0, N)):  # fmt: skip

        def work(k: int = k, kernel: str = kernel, scale: float = scale, n: int = n) -> list[Any]:
            Z = scale * blobs(n, 2)[0].double()
            target, known = graph(n, k), {}
            loss, double = (KSNELoss(k, kernel, method=method) for method in ("auto", "exact"))
            found, again = (loss(DeviceArray(Z, known), target) for _ in range(2))
            if n == few:
                exact = double(Z.cpu().numpy(), target)
                dZ = torch.from_numpy(exact.dZ).to(DEVICE)
            else:
                exact = double(DeviceArray(Z, known), target)
                dZ = exact.dZ.tensor
            error = float((found.dZ.tensor - dZ).norm() / dZ.norm())
            off = abs(found.value - exact.value) / abs(exact.value)
            same = found.value == again.value and bool((found.dZ.tensor == again.dZ.tensor).all())
            times = [
                clock(lambda way=way: way(DeviceArray(Z, known), target), 3)  # type: ignore[misc]
                for way in (loss, double)
            ]
            return [f"{n:,}", f"{off:.1e}", f"{error:.1e}", "1e-05",
                    "met" if error <= 1e-5 else "**missed**", "yes" if same else "**no**",
                    *(f"{t:.2f}" for t in times)]  # fmt: skip

        row(f"{kernel}, k = {k}, Z × {scale:g}", work)


# The bars


def bars() -> None:
    """Whole evaluations, in milliseconds."""
    table("Evaluations", "evaluation, measured, must, , stretch, , details")
    measured: dict[int, float] = {}
    limits = {2: (4, 3), 5: (7, 5), 16: (8, 5), 32: (9, 6)}
    for d, limit in limits.items():

        def work(d: int = d, limit: Any = limit) -> list[Any]:
            size = {} if d <= 8 else {"within": 0.7, "between": 0.7}
            Z, y = blobs(N, d, **size)
            measured[d] = clock(evaluation(Z, Labels(y)))
            return bar(measured[d], *limit)

        row(f"NCA {N:,} rows, d = {d} (ms)", work)
    for d in (2, 5):
        row(f"share of the floor, d = {d} (%)",
            lambda d=d: bar(100 * FLOOR[d] / measured[d], 45, 65, more=True))  # fmt: skip
    for d, must, stretch in ((2, 55, 75), (5, 35, 47)):

        def against(d: int = d, must: float = must, stretch: float = stretch) -> list[Any]:
            Z, y = blobs(N, d)
            labels = torch.from_numpy(y).to(DEVICE)
            plain = clock(lambda: plain_torch(Z, labels), 3)
            return bar(plain / measured[d], must, stretch, more=True)

        row(f"against blocked torch, d = {d} (×)", against)
    for d, must, stretch in ((2, 1.0, 0.7), (5, 1.9, 1.25)):

        def million(d: int = d, must: float = must, stretch: float = stretch) -> list[Any]:
            Z, y = blobs(MANY, d)
            before, class_sums.SKIP_FROM = class_sums.SKIP_FROM, 2**62
            try:
                seconds = clock(evaluation(Z, Labels(y)), 3) / 1e3
            finally:
                class_sums.SKIP_FROM = before
            return bar(seconds, must, stretch)

        row(f"NCA {MANY:,} rows, d = {d}, nothing skipped (s)", million)
    for d in (2, 5):

        def over(d: int = d) -> list[Any]:
            Z, y = blobs(N, d)
            whole = [clock(evaluation(Z, Labels(y), loss), 5) for loss in (KNCALoss(5), NCALoss())]
            return [*bar(whole[0] / whole[1], 4, 3), f"{whole[0]:.1f} ms"]

        row(f"kNCA k = 5 over NCA, d = {d} (×)", over)


def parts() -> None:
    """Where the time of an evaluation goes, other states of a fit, and what is not in the bars."""
    table("Parts and other evaluations (ms)", "what, measured")
    for d in (2, 5, 8, 16, 32):

        def work(d: int = d) -> list[Any]:
            size = {} if d <= 8 else {"within": 0.7, "between": 0.7}
            Z, y = blobs(N, d, **size)
            labels, known = Labels(y), {}
            data = NCALoss()._prepare(len(Z), labels, None, None, None).data
            data = data._replace(Z=DeviceArray(Z, known))
            host = clock(lambda: NCALoss()._prepare(len(Z), labels, None, None, None))

            def engine() -> Any:
                made = backend.class_sums(data, Gaussian())
                made.near = (made.unused,) * 4
                return made

            begin = clock(engine)
            summed = clock(lambda: engine().on_device())
            made = engine()
            log2, shift = made.on_device()
            slopes = torch.full_like(log2, 1e-5)
            pulled = clock(lambda: made.pulled(log2, shift, slopes))
            value = clock(lambda: NCALoss()(DeviceArray(Z, known), labels, gradient=False))
            peak = 0 if SMOKE else torch.cuda.max_memory_allocated() / 2**20
            return [f"checks on the host {host:.2f}, layout {begin:.2f}, with sums {summed:.2f}, "
                    f"pull {pulled:.2f}, value alone {value:.2f}; peak {peak:.0f} MiB"]  # fmt: skip

        row(f"NCA {N:,} rows, d = {d}", work)
    for d, how, n in (
        (2, (8.0, 40.0), N),
        (5, (8.0, 40.0), N),
        (2, (1.0, 2.0), MANY),
        (5, (8.0, 40.0), MANY),
    ):

        def late(d: int = d, how: Any = how, n: int = n) -> list[Any]:
            Z, y = blobs(n, d, within=how[0] / d**0.5, between=how[1] / d**0.5)
            evaluate = evaluation(Z, Labels(y))
            milliseconds = clock(evaluate, 3)
            return [f"{milliseconds:.2f}, share of pairs {evaluate().facts['share_of_pairs']:.3f}"]

        row(f"NCA {n:,} rows, d = {d}, {how}, tiles left out where that pays", late)
    for d in (2, 5, 16, 32):

        def double(d: int = d) -> list[Any]:
            Z, y = blobs(N, d)
            return [f"{clock(evaluation(Z.double(), Labels(y)), 3):.2f}"]

        row(f"NCA {N:,} rows, d = {d}, float64", double)
    for d in (16, 32):

        def far(d: int = d) -> list[Any]:
            Z, y = blobs(N, d, within=7.0, between=7.0)
            return [f"{clock(evaluation(Z, Labels(y)), 3):.2f}"]

        row(f"NCA {N:,} rows, d = {d}, norms beyond products: differences", far)

    def regression() -> list[Any]:
        Z, _ = blobs(N, 2)
        numbers = Numbers(np.random.default_rng(0).standard_normal((N, 1)))
        return [f"{clock(evaluation(Z, numbers, MLKRLoss()), 3):.1f}"]

    row(f"MLKR {N:,} rows, d = 2", regression)

    def of_votes(d: int = 2, k: int = 5) -> list[Any]:
        Z, y = blobs(N, d)
        known: dict[str, Any] = {}
        labels, rows = Labels(y), np.arange(N)

        def made() -> Any:
            data = Data(DeviceArray(Z, known), labels.codes, np.ones(N), rows, rows)
            return votes.TritonVotes(data, k, False)

        begin, sets = clock(made), made().sets
        collected = clock(sets.summaries)
        engine = made()
        summed = clock(lambda: engine.sums(lambda odds: 1e-5 * np.ones_like(odds)))
        pulled = clock(lambda: engine.pull(1.0))
        peak = 0 if SMOKE else torch.cuda.max_memory_allocated() / 2**20
        return [f"layout {begin:.2f}, summaries {collected:.2f}, these and votes {summed:.2f}, "
                f"pull {pulled:.2f}; peak {peak:.0f} MiB"]  # fmt: skip

    for d, k in ((2, 1), (2, 5), (5, 5), (16, 5), (2, 15)):
        row(f"kNCA {N:,} rows, d = {d}, k = {k}",
            lambda d=d, k=k: of_votes(d, 2 if SMOKE else k))  # fmt: skip

    def posterior() -> list[Any]:
        Z, y = blobs(MANY // 6, 5)
        Q = DeviceArray(blobs(MANY // 20, 5)[0])
        known = DeviceArray(Z)
        return [f"{clock(lambda: nca_posterior(Q, known, Labels(y)), 3):.1f}"]

    row("posterior of 50,000 rows among 166,666, d = 5", posterior)


def tune() -> None:
    """Other shapes of blocks: columns at a time in the sums, rows and columns in the pull."""
    table("Shapes of blocks (ms)", "d, columns of sums, rows of the pull, columns, evaluation")
    usual = class_sums.TritonSums._shape
    for d in (2, 5, 8):
        Z, y = blobs(N, d)
        for shape in [(c, r, p) for c in (4, 8, 16) for r in (64, 128) for p in (2, 4, 8)]:

            def work(d: int = d, shape: Any = shape, Z: Any = Z, y: Any = y) -> list[Any]:
                def chosen(self: Any, d: int, interpreted: bool) -> Any:
                    rows = min(shape[1], self.layout.block)
                    return class_sums.Shape(self.layout.block, shape[0], rows, shape[2])

                class_sums.TritonSums._shape = chosen
                try:
                    return [*shape, f"{clock(evaluation(Z, Labels(y)), 5):.2f}"]
                finally:
                    class_sums.TritonSums._shape = usual

            row(str(d), work)
    table("Warps of products (ms)", "d, warps and stages, evaluation")
    fused = dict(dots._FUSED)
    for d in (16, 32):
        Z, y = blobs(N, d, within=0.7, between=0.7)
        for warps, stages in ((4, 2), (4, 3), (8, 2), (8, 3)):

            def products(Z: Any = Z, y: Any = y, warps: int = warps, stages: int = stages) -> Any:
                dots._FUSED.update(num_warps=warps, num_stages=stages)
                try:
                    return [f"{warps}, {stages}", f"{clock(evaluation(Z, Labels(y)), 5):.2f}"]
                finally:
                    dots._FUSED.update(fused)

            row(str(d), products)


# Fits


def split(name: str, n_train: int | None = None) -> Any:
    """Training and test rows: the official split, or four fifths of the rows."""
    found = load(name)
    X, y = np.asarray(found.data, dtype=np.float32), np.asarray(found.target)
    train, rng = found.is_train, np.random.default_rng(0)
    n_train = 200 if SMOKE else n_train
    if train is None:
        train = rng.uniform(size=len(y)) < 0.8
    train, test = (rng.permutation(np.flatnonzero(part)) for part in (train, ~train))
    train, test = train[:n_train], test[:n_train]
    return X[train], y[train], X[test], y[test]


def timed(model: Any, X: Any, y: Any) -> float:
    """Seconds of a fit."""
    wait()
    began = time.perf_counter()
    model.fit(X, y)
    wait()
    return time.perf_counter() - began


def fits() -> None:
    """Whole fits after the upload, by the clock, twice: the first one compiles."""
    table("Fits after the upload (s)", "fit, measured, must, , stretch, , details")
    for d, must, stretch in ((2, 0.6, 0.3), (5, 0.9, 0.6)):

        def mnist(d: int = d, must: float = must, stretch: float = stretch) -> list[Any]:
            X, y, X_test, y_test = split("mnist")
            rows = torch.from_numpy(X).to(DEVICE)
            model = NCA(d, alpha="scaled", sampling="full", max_iter=3 if SMOKE else 100)
            timed(model, rows, y)
            first = model.components_
            seconds = timed(model, rows, y)
            same = "same bits" if np.array_equal(first, model.components_) else "BITS DIFFER"
            history = model.history_
            inside = history["seconds"][-1] - history["seconds"][0]
            accuracy = model.set_params(device="cuda").score(X_test, y_test)
            told = (
                f"{model.n_iter_} iterations, {history['n_evaluations'][-1]} evaluations, "
                f"{inside:.2f} s between the first and the last; accuracy {accuracy:.4f}; "
                f"share of pairs at the end {history['share_of_pairs'][-1]:.2f}; {same}"
            )
            return [*bar(seconds, must, stretch), told]

        row(f"mnist 60,000 × 784, d = {d}, 100 iterations", mnist)

    def million() -> list[Any]:
        rng = np.random.default_rng(0)
        y = rng.integers(0, 10, MANY)
        X = rng.standard_normal((MANY, 50), dtype=np.float32)
        X += 0.7 * rng.standard_normal((10, 50), dtype=np.float32)[y]
        rows = torch.from_numpy(X).to(DEVICE)
        model = NCA(2, alpha="scaled", sampling="full", max_iter=2 if SMOKE else 30, tol=None)
        seconds = timed(model, rows, y)
        shares = model.history_["share_of_pairs"]
        return [*bar(seconds, 10, 6), f"share of pairs {shares[0]:.2f} → {shares[-1]:.3f}"]

    row(f"{MANY:,} × 50, d = 2, 30 iterations", million)

    def picture() -> list[Any]:
        rng, n = np.random.default_rng(0), 90 if SMOKE else N
        X = rng.standard_normal((n, 50), dtype=np.float32)
        X += rng.standard_normal((10, 50), dtype=np.float32)[rng.integers(0, 10, n)]
        model = KSNE(
            k=1, device="cuda", max_iter=3 if SMOKE else 750, perplexity=5 if SMOKE else 30
        )
        seconds = timed(model, X, None)
        history = model.history_
        inside = history["seconds"][-1] - history["seconds"][0]
        told = (
            f"{model.n_iter_} iterations take {inside:.2f} s, affinities and start on the CPU the "
            f"rest; divergence {model.kl_divergence_:.3f}"
        )
        return [*bar(seconds, 15, 5), told]

    row(f"KSNE(k=1), {N:,} × 50, 750 iterations, with affinities", picture)

    def many_votes() -> list[Any]:
        X, y, X_test, y_test = split("usps")
        steps = 2 if SMOKE else 60
        parameters = {"k": 2 if SMOKE else 5, "alpha": "scaled", "sampling": "full",
                      "max_iter": steps, "tol": None}  # fmt: skip
        model = KNCA(5, device="cuda", **parameters)
        timed(model, X, y)
        seconds = timed(model, X, y)
        here = KNCA(5, **parameters)
        slow = timed(here, X, y)
        scores = [m.set_params(device=None).score(X_test, y_test) for m in (model, here)]
        told = f"accuracy {scores[0]:.4f}; the CPU {scores[1]:.4f} in {slow:.1f} s"
        return [f"{seconds:.2f}", *"–" * 4, told]

    row("kNCA k = 5, usps, d = 5, 60 iterations", many_votes)

    def kernel_regression() -> list[Any]:
        X, y, *_ = split("covtype15120")
        model = MLKR(2, alpha=1e-3, sampling="full", max_iter=2 if SMOKE else 30, tol=None)
        return [f"{timed(model, torch.from_numpy(X).to(DEVICE), y.astype(float)):.2f}", *"–" * 5]

    row("MLKR, covtype15120, d = 2, 30 iterations", kernel_regression)


def accuracy(long: bool) -> None:
    """Test accuracy and time on the GPU, on the CPU and by scikit-learn."""
    table("Test accuracy", "data and d, GPU, CPU, difference, standard error, GPU s, CPU s")
    jobs = [("usps", 5), ("usps", 10), ("covtype15120", 5), ("covtype15120", 10)]
    jobs += [("mnist", 5), ("mnist", 10)] if long else []
    for name, d in jobs:

        def work(name: str = name, d: int = d) -> list[Any]:
            X, y, X_test, y_test = split(name)
            parameters = {"alpha": "scaled", "sampling": "full", "max_iter": 3 if SMOKE else 60,
                          "random_state": 0, "tol": None}  # fmt: skip
            scores, seconds = [], []
            for device in ("cuda", None):
                model = NCA(d, device=device, **parameters)
                seconds.append(timed(model, X, y))
                scores.append(model.set_params(device=None).score(X_test, y_test))
            error = math.sqrt(scores[0] * (1 - scores[0]) / len(y_test))
            return [f"{scores[0]:.4f}", f"{scores[1]:.4f}", f"{scores[0] - scores[1]:+.4f}",
                    f"{error:.4f}", *(f"{s:.2f}" for s in seconds)]  # fmt: skip

        row(f"{name}, {d}", work)

    def scikit_learn() -> list[Any]:
        from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis

        X, y, X_test, y_test = split("usps", 2000)
        peer = NeighborhoodComponentsAnalysis(5, max_iter=2 if SMOKE else 30, init="pca")
        began = time.perf_counter()
        Z = peer.fit_transform(X, y)
        seconds = time.perf_counter() - began
        votes = KNeighborsClassifier().fit(Z, y).score(peer.transform(X_test), y_test)
        model = NCA(5, alpha="scaled", sampling="full", max_iter=2 if SMOKE else 30, device="cuda")
        ours = timed(model, X, y)
        return [f"{model.score(X_test, y_test):.4f}", f"{votes:.4f}", "–", "–", f"{ours:.2f}",
                f"{seconds:.2f}"]  # fmt: skip

    row("usps, 2,000 rows, 5: scikit-learn in place of our CPU", scikit_learn)


def about() -> str:
    """The machine, and the commit that was measured."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    device = "no GPU: Triton's interpreter" if SMOKE else torch.cuda.get_device_name()
    import triton

    return (
        f"{device}; {platform.processor() or platform.machine()}, {os.cpu_count()} cores; torch "
        f"{torch.__version__}, Triton {triton.__version__}, CUDA {torch.version.cuda}; commit "
        f"{commit.stdout.strip() or 'unknown'}."
    )


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    sections = {"check": check, "votes": check_votes, "sets": check_sets, "bars": bars,
                "parts": parts, "fits": fits}  # fmt: skip
    parser.add_argument("--only", nargs="+", choices=[*sections, "accuracy"])
    for flag in ("tune", "smoke", "long"):
        parser.add_argument(f"--{flag}", action="store_true")
    page = Path(__file__).parent / "results" / "gpu_speed.md"
    parser.add_argument("--output", nargs="?", type=Path, const=page)
    given = parser.parse_args()
    say(f"# The GPU engine\n\n{about()}")
    began = time.perf_counter()
    for name, section in sections.items():
        if given.only is None or name in given.only:
            section()
    if given.only is None or "accuracy" in given.only:
        accuracy(given.long)
    if given.tune:
        tune()
    say(f"\n{time.perf_counter() - began:.0f} seconds in all.")
    if given.output is not None:
        given.output.write_text("\n".join(LINES) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
