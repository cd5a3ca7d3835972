"""Cut the fits of the golden configurations at any iteration, resume them, and compare.

``python tests/golden/cuts.py [number] [seed] [names...]`` cuts each fit so many times at random
iterations and in three ways, and prints the arrays that differ from those of the uncut fit.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
import warnings
from pathlib import Path

import configurations
import numpy as np
from make_golden import same_bits
from sklearn.base import clone

from vicinal.callbacks import Checkpoint

#: how a fit is cut: a callback asks to stop, an interrupt, an error after which only a file is left
WAYS = ("callback", "interrupt", "checkpoint")
#: the iterations of the last fit alone are counted, and it evaluates once more when it resumes;
#: LMNN looks for impostors anew then, so that it looks at more or fewer pairs for the same loss
_COUNTED = ("n_iter_", "history_.n_evaluations")
_OF_LMNN = ("history_.share_of_pairs",)


class PowerCut(Exception):
    """Ends a fit at once."""


class Count:
    """A callback that counts the iterations of a fit, and those of its search and its starts."""

    def __init__(self):
        self.n, self.before = 0, set()

    def setup(self, estimator, context): ...
    def teardown(self, estimator, context): ...
    def on_fit_task_begin(self, estimator, context): ...

    def on_fit_task_end(self, estimator, context):
        self.n += context.parent is not None
        if np.isnan(estimator.history_["loss"][-1]):
            self.before.add(self.n)
        return False


class Cut(Count):
    """A callback that ends a fit after some iterations: by a request to stop, or by an error."""

    def __init__(self, after, error=None):
        super().__init__()
        self.after, self.error = after, error

    def on_fit_task_end(self, estimator, context):
        super().on_fit_task_end(estimator, context)
        if self.n < self.after or context.parent is None:
            return False
        if self.error is not None:
            raise self.error
        return True


def fits():
    """The fits of all configurations: a name, an estimator, its data and arguments of ``fit``."""
    found, name = {}, ""

    def fitted(model, data, **kwargs):
        found.setdefault(name, (clone(model), data, kwargs))
        return {}

    def many(models, X, y):
        for label, model in models.items():
            found[f"{name} {label}"] = clone(model), (X, y, X), {}
        return {}

    before = configurations.fitted, configurations.many
    configurations.fitted, configurations.many = fitted, many
    try:
        for name, function in {**configurations.LARGE, **configurations.SMALL}.items():
            if not name.startswith(("values", "margin_search", "rca")) and "stream" not in name:
                function()
    finally:
        configurations.fitted, configurations.many = before
    return found


def whole_fit(model, data, kwargs):
    """The results of the uncut fit, how many iterations it made, and which of them before it."""
    X, y, new = data
    count = Count()
    model = clone(model).set_callbacks(count)
    return configurations.results_of(model.fit(X, y, **kwargs), new), count.n, count.before


def cut_fit(model, data, kwargs, after, way, folder):
    """The estimator that is left of a fit cut after some iterations, and whether it was cut.

    A fit that converges in the iteration in which it is asked to stop has not been cut.
    """
    X, y, _ = data
    model = clone(model).set_params(warm_start=True)
    path = Path(folder) / "checkpoint.joblib"
    path.unlink(missing_ok=True)
    if way == "checkpoint":
        with contextlib.suppress(PowerCut):
            model.set_callbacks(Checkpoint(path, every=after), Cut(after, PowerCut()))
            model.fit(X, y, **kwargs)
        return Checkpoint.load(path), True
    model.set_callbacks(Cut(after, KeyboardInterrupt() if way == "interrupt" else None))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(X, y, **kwargs)
    words = {"callback": "a callback stopped it", "interrupt": "it was interrupted"}[way]
    return model.set_callbacks(), any(words in str(warning.message) for warning in told)


def resumed(model, was_cut, data, kwargs):
    """The results after the fit is resumed."""
    X, y, new = data
    return configurations.results_of(model.fit(X, y, **kwargs) if was_cut else model, new)


def differences(model, expected, found):
    """The names of the arrays whose bits differ."""
    counted = (*_COUNTED, *(_OF_LMNN if "LMNN" in type(model).__name__ else ()))
    names = (expected.keys() | found.keys()) - set(counted)
    missing = [n for n in names if n not in expected or n not in found]
    return sorted(
        {*missing, *(n for n in names if n not in missing and not same_bits(expected[n], found[n]))}
    )


def main(number=1, seed=0, *names):
    """Cut each fit so many times, and print what differs."""
    warnings.simplefilter("ignore")
    rng, n_cuts, n_wrong = np.random.RandomState(int(seed)), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        for name, fit in fits().items():
            if names and not any(part in name for part in names):
                continue
            began = time.perf_counter()
            expected, length, before = whole_fit(*fit)
            for i in range(int(number)):
                after, way = int(rng.randint(1, length + 1)), WAYS[(i + n_cuts) % len(WAYS)]
                if way == "interrupt" and after in before:
                    way = "callback"  # an interrupt ends the search or start, and the fit goes on
                model, was_cut = cut_fit(*fit, after, way, folder)
                n_cuts += 1
                wrong = differences(model, expected, resumed(model, was_cut, *fit[1:]))
                n_wrong += bool(wrong)
                words = f"{wrong[:3]}, {len(wrong)} in all" if wrong else "equal"
                print(f"{name:45} {way:10} {after:3d} of {length:3d}: {words}", flush=True)
            print(f"{name:45} {time.perf_counter() - began:.1f} s", flush=True)
    print(f"{n_wrong} of {n_cuts} cuts differ")
    return n_wrong


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) > 0)
