from dataclasses import dataclass


@dataclass(frozen=True)
class Nearest:
    refresh: int = 10


@dataclass(frozen=True)
class RandomPairs:
    refresh: int = 1


@dataclass(frozen=True)
class Tree:
    tolerance: float = 0.01


def resolve(p, owner="NCA"):
    return None


def mass_left_out(*a, **k): ...
