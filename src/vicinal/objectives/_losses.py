"""Temporary."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from vicinal.core.types import Array, Evaluation, Units
from vicinal.densities import Gaussian, Kernel
from vicinal.engines.cpu.impostors import Candidates
from vicinal.objectives.knca import knca
from vicinal.objectives.lmnn import lmnn
from vicinal.objectives.nca import nca


@dataclass(frozen=True, eq=False)
class NCALoss:
    kind: str = "log"
    kernel: Kernel = field(default_factory=Gaussian)
    background: Any = None

    @property
    def units(self) -> Units:
        return Units()

    def __call__(
        self, Z: Array, target: Any, *, queries=None, references=None, pairs=None, gradient=True
    ):
        facts: dict = {}
        value, dZ = nca(
            Z,
            target,
            self.kind,
            queries,
            references,
            kernel=self.kernel,
            pairs=pairs,
            background=self.background,
            gradient=gradient,
            warn=False,
            report=facts,
        )
        return Evaluation(value, dZ, facts)


@dataclass(frozen=True)
class KNCALoss:
    k: int = 5
    vote: str = "majority"
    kind: str = "log"

    @property
    def units(self) -> Units:
        return Units()

    def __call__(
        self, Z: Array, target: Any, *, queries=None, references=None, pairs=None, gradient=True
    ):
        facts: dict = {}
        value, dZ = knca(
            Z,
            target,
            self.k,
            self.vote,
            self.kind,
            queries,
            references,
            pairs=pairs,
            gradient=gradient,
            warn=False,
            report=facts,
        )
        return Evaluation(value, dZ, facts)


@dataclass(frozen=True, eq=False)
class LMNNLoss:
    mu: float = 1.0
    margin: float = 1.0
    distance: str = "squared"
    candidates: Candidates | None = None

    @property
    def units(self) -> Units:
        return Units(self.margin, True)

    def __call__(
        self, Z: Array, target: Any, *, queries=None, references=None, pairs=None, gradient=True
    ):
        facts: dict = {}
        value, dZ = lmnn(
            Z,
            target,
            queries,
            references,
            mu=self.mu,
            margin=self.margin,
            distance=self.distance,
            candidates=self.candidates,
            gradient=gradient,
            report=facts,
        )
        return Evaluation(value, dZ, facts)
