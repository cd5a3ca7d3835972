"""Goldberger et al. figure 3: the plane that pairs of faces span."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.ndimage import affine_transform, gaussian_filter
from scipy.optimize import minimize_scalar
from scipy.stats import spearmanr
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor

from reproduce.framework.experiment import Experiment, Job
from reproduce.framework.protocol import data as stored
from reproduce.goldberger.figure3_report import (
    CUTS,
    HEIGHTS,
    LINEAR,
    NETWORK,
    WEAK,
    claims,
    draw,
    parts,
)
from vicinal import PairNCA
from vicinal.maps import MLP

SEEDS = 10
SIDE = 35  # pixels of a picture
ANGLES = (-45.0, 45.0)  # degrees
NOISE = (1.22, 1.5)  # degrees, pixels
TEST_PERSONS = 10
PAIRS = 2000  # to learn from
TEST_FACES = 1000
SHOWN = 300  # faces of the picture, of the first draw
#: degrees around the centre for a degree of rotation that count as polar coordinates
RATES = (0.25, 4.0)


def _pca(X: Any, pairs: Any, weights: Any, seed: int) -> Any:
    return PCA(2, random_state=seed).fit(X)


def _pairs(**parameters: Any) -> Callable[..., Any]:
    def fit(X: Any, pairs: Any, weights: Any, seed: int) -> Any:
        # pixels have one unit; those at the edge hardly vary, and should not count as others do
        model = PairNCA(2, scaling="global", random_state=seed, **parameters)
        return model.fit(X, pairs, weights)

    return fit


MAPS: dict[str, Callable[..., Any]] = {
    "PCA": _pca,
    LINEAR: _pairs(),
    WEAK: _pairs(alpha=0.01),
    # section 5 of the paper: 35 x 35 pixels, 100 logistic units, two outputs
    NETWORK: _pairs(mapping=MLP(hidden=(100,), activation="logistic", residual=False), alpha=0.03),
}
NEAR = 10  # faces learnt from that tell the rotation and the height of a place in the plane


class Faces(NamedTuple):
    """Pictures, one a row, and how each was turned and scaled."""

    X: Any
    angle: Any
    height: Any


def jobs(splits: int | None) -> Iterator[Job]:
    """Draws of persons, faces and pairs, for each way to cut out a face."""
    for cut, seed in product(CUTS, range(splits or SEEDS)):
        yield {"cut": cut, "seed": seed}


def work(cut: str, seed: int) -> dict[str, Any]:
    """How well each plane tells the rotation and the height of new faces."""
    rng = np.random.RandomState(seed)
    learnt, tested = _persons(cut, rng)
    faces, pairs, weights = draw_pairs(learnt, rng)
    others = {"test": draw_faces(tested, rng), "training": draw_faces(learnt, rng)}
    result: dict[str, Any] = {}
    for name, fit in MAPS.items():
        model = fit(faces.X, pairs, weights, seed)
        plane, *planes = (f._replace(X=model.transform(f.X)) for f in (faces, *others.values()))
        result[name] = {who: judged(plane, new) for who, new in zip(others, planes, strict=True)}
        if seed == 0:
            result[name]["Z"] = np.round(_unit(planes[0].X[:SHOWN]), 4).tolist()
    if seed == 0:
        new = others["test"]
        shown = {"angle": new.angle[:SHOWN], "height": new.height[:SHOWN]}
        result["shown"] = {key: np.round(value, 2).tolist() for key, value in shown.items()}
    return result


def _persons(cut: str, rng: np.random.RandomState) -> tuple[Any, Any]:
    """Cut-out faces, (persons, pictures, 64, 64), to learn from and of other persons."""
    X, y = stored("olivetti")
    faces = cut_out(X.reshape(-1, 64, 64).astype(float), cut)
    order = rng.permutation(np.unique(y))
    by_person = [np.stack([faces[y == c] for c in part])
                 for part in (order[TEST_PERSONS:], order[:TEST_PERSONS])]  # fmt: skip
    return by_person[0], by_person[1]


def cut_out(faces: Any, cut: str) -> Any:
    """Faces without what is around them: black there, and blurred for half as many pixels."""
    place = np.arange(64) - 31.5
    tall, wide = CUTS[cut]
    inside = (place[:, None] / tall) ** 2 + (place / wide) ** 2 <= 1
    return gaussian_filter(faces * inside, (0, 0.8, 0.8))


def turned(face: Any, angle: float, height: float) -> Any:
    """A picture of 35 x 35 pixels of a face, turned to the right and of a height in pixels."""
    t, factor = np.deg2rad(angle), 62.0 / height
    back = factor * np.array([[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]])
    centre = np.full(2, (SIDE - 1) / 2)
    return affine_transform(face, back, 31.5 - back @ centre, (SIDE, SIDE), order=1)


def draw_pairs(persons: Any, rng: np.random.RandomState) -> tuple[Faces, Any, Any]:
    """Faces of which rows 2 i and 2 i + 1 are a pair, the pairs and their weights."""
    angle, height = (np.repeat(rng.uniform(*ends, PAIRS), 2) for ends in (ANGLES, HEIGHTS))
    noise = rng.standard_normal((2, PAIRS))
    angle[1::2] += NOISE[0] * noise[0]
    height[1::2] += NOISE[1] * noise[1]
    who = np.stack([rng.choice(len(persons), 2, replace=False) for _ in range(PAIRS)]).ravel()
    weights = np.exp(-0.5 * np.sum(noise**2, axis=0))  # the density of the noise over its maximum
    pairs = np.arange(2 * PAIRS).reshape(-1, 2)
    return _pictures(persons, who, angle, height, rng), pairs, weights


def draw_faces(persons: Any, rng: np.random.RandomState) -> Faces:
    """New faces, turned and scaled as the first faces of pairs are."""
    angle, height = (rng.uniform(*ends, TEST_FACES) for ends in (ANGLES, HEIGHTS))
    return _pictures(persons, rng.randint(len(persons), size=TEST_FACES), angle, height, rng)


def _pictures(persons: Any, who: Any, angle: Any, height: Any, rng: Any) -> Faces:
    which = rng.randint(persons.shape[1], size=len(who))
    each = zip(who, which, angle, height, strict=True)
    rows = [turned(persons[i, j], t, h).ravel() for i, j, t, h in each]
    return Faces(np.stack(rows), angle, height)


def judged(learnt: Faces, tested: Faces) -> dict[str, Any]:
    """How well polar and straight coordinates, and near faces, tell rotation and height.

    All are fitted to the faces learnt from and judged by those tested.  ``Faces.X`` are the places
    in the plane.
    """
    centre, offset, rate = polar_fit(learnt)
    place = tested.X @ [1, 1j] - centre
    around = np.angle(place * np.exp(-1j * offset))
    goal = np.column_stack([learnt.angle, learnt.height])
    straight = LinearRegression().fit(learnt.X, goal).predict(tested.X)
    near = KNeighborsRegressor(NEAR).fit(learnt.X, goal).predict(tested.X)
    return {
        "angle": _ranks(around, tested.angle),
        "radius": _ranks(np.abs(place), tested.height),
        "turn": abs(rate),
        "straight angle": _ranks(straight[:, 0], tested.angle),
        "straight height": _ranks(straight[:, 1], tested.height),
        "near angle": _ranks(near[:, 0], tested.angle),
        "near height": _ranks(near[:, 1], tested.height),
    }


def _ranks(told: Any, true: Any) -> float:
    return abs(float(spearmanr(told, true).statistic))


def polar_fit(faces: Faces) -> tuple[complex, float, float]:
    """Centre, direction of no rotation, and degrees around the centre for a degree of rotation.

    Least squares of ``z = centre + (a + b height) exp(i rate angle)`` with complex a, b and centre,
    in which only the rate is not linear: it is searched for.
    """
    z = faces.X @ [1, 1j]
    height = faces.height - np.mean(HEIGHTS)

    def fit(rate: float) -> tuple[float, Any]:
        turn = np.exp(1j * rate * np.deg2rad(faces.angle))
        terms = np.column_stack([np.ones_like(turn), turn, turn * height])
        found = np.linalg.lstsq(terms, z, rcond=None)[0]
        return float(np.mean(np.abs(z - terms @ found) ** 2)), found

    rates = np.concatenate([side * np.geomspace(*RATES, 30) for side in (1, -1)])
    best = min(rates, key=lambda rate: fit(rate)[0])
    ends = sorted([best / 1.1, best * 1.1])
    rate = minimize_scalar(lambda r: fit(r)[0], bounds=ends, method="bounded").x
    centre, a, _ = fit(rate)[1]
    return centre, float(np.angle(a)), float(rate)


def _unit(Z: Any) -> Any:
    Z = Z - Z.mean(axis=0)
    return Z / np.abs(Z).max()


EXPERIMENTS = (
    Experiment(
        "goldberger-figure-3",
        "Goldberger et al. figure 3: the plane that pairs of faces span",
        jobs,
        work,
        parts,
        draw,
        drawn=("Z", "shown"),
        claims=claims,
    ),
)
