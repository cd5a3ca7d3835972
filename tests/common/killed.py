"""Fits in processes of their own, which are killed at random moments and resumed until they end.

``python tests/common/killed.py NAME PATH EVERY`` fits a configuration with a checkpoint, which it
resumes if there is one, and writes the result beside it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

__all__ = ["CONFIGURATIONS", "Kills", "fit", "result"]

#: name -> the estimator and the name of its rows; what is imported stays small
CONFIGURATIONS = {
    "nca": ("NCA(2, alpha=3e-3, solver='lbfgs')", "classes"),
    "nca cg": ("NCA(2, alpha=3e-3, objective='accuracy', solver='cg')", "classes"),
    "nca momentum": ("NCA(mapping='diagonal', alpha=3e-3, solver='momentum')", "classes"),
    "nca bold driver": ("NCA(2, alpha=3e-3, solver='bold_driver')", "classes"),
    "nca adam, early stopping": (
        "NCA(2, alpha=3e-3, solver='adam', early_stopping=True, n_iter_no_change=50)", "classes"),
    "nca sgd, tuned rate": (
        "NCA(2, alpha=3e-3, solver='sgd', sampling=samplers.StochasticQueries(30))", "classes"),
    "nca schedule on batches": (
        "NCA(2, alpha=3e-3, sampling=samplers.MiniBatches(40, 'random'))", "classes"),
    "nca clustered batches": (
        "NCA(2, alpha=3e-3, sampling=samplers.MiniBatches(40, 'fpc', 'input'))", "classes"),
    "nca subsample": ("NCA(2, alpha=3e-3, sampling=samplers.Subsample(40))", "classes"),
    "nca lists": ("NCA(2, alpha=3e-3, pairs=neighbourhoods.Nearest(40))", "classes"),
    "nca random lists": ("NCA(2, alpha=3e-3, pairs=neighbourhoods.RandomPairs(30))", "classes"),
    "nca trees": ("NCA(2, alpha=3e-3, pairs=neighbourhoods.Tree(0.05, always=True))", "classes"),
    "nca restarts": ("NCA(2, alpha=3e-3, init=initialise.Random(3))", "classes"),
    "nca annealing": ("NCA(2, alpha=3e-3, init='annealing')", "classes"),
    "nca search": ("NCA('auto', alpha='auto', cv=2)", "classes"),
    "nca background by em": ("NCA(2, alpha=3e-3, kernel=densities.Compact(beta='em'))", "classes"),
    "nca background by gradient": (
        "NCA(2, alpha=3e-3, kernel=densities.Compact(beta='gradient'))", "classes"),
    "nca periodic": ("NCA(2, alpha=3e-3, mapping=maps.Periodic(3, 2))", "classes"),
    "nca network on batches": (
        "NCA(2, alpha=3e-3, mapping=maps.MLP((4,)), sampling=samplers.MiniBatches(40))", "classes"),
    "nca distributions": ("NCA(2, alpha=3e-3)", "distributions"),
    "nca unseeded": ("NCA(2, alpha=3e-3, sampling=samplers.MiniBatches(40), "
                     "random_state=np.random.RandomState(7))", "classes"),
    "nca float32, then float64": ("NCA(2, alpha=3e-3, max_iter=60, tol=1e-4)", "many"),
    "knca": ("KNCA(2, k=3)", "classes"),
    "knca lists": ("KNCA(2, k=3, pairs=neighbourhoods.Nearest(40))", "classes"),
    "mcml": ("MCML(2)", "classes"),
    "mlkr": ("MLKR(2, alpha=3e-3)", "numbers"),
    "mlkr search": ("MLKR('auto', alpha='auto', cv=2)", "numbers"),
    "nca regressor": ("NCARegressor(2, alpha=3e-3)", "numbers"),
    "lmnn": ("LMNN(2)", "classes"),
    "lmnn new targets": ("LMNN(3, refresh_targets=4, early_stopping=True)", "classes"),
    "lmnn batches": ("LMNN(2, sampling=samplers.MiniBatches(20, 'random'))", "classes"),
    "chi2 lmnn projected": ("Chi2LMNN(3, solver='projected')", "histograms"),
    "chi2 lmnn adaptive": ("Chi2LMNN(3, solver='adaptive', refresh_targets=2)", "histograms"),
    "pair nca": ("PairNCA(2)", "pairs"),
    "ksne": ("KSNE(k=3, perplexity=8, early_exaggeration_iter=6)", "rows"),
    "ksne gaussian, random start": (
        "KSNE(1, 2, kernel='gaussian', perplexity=8, init='random')", "rows"),
    "ksne linear": ("KSNE(k=3, mapping='linear', perplexity=8)", "rows"),
}  # fmt: skip
#: columns of the history that count work: a resumed fit evaluates once more
_WORK = ("seconds", "n_evaluations", "share_of_pairs")


def model_of(name):
    """The estimator of a configuration, and the arguments of its ``fit``."""
    import vicinal
    from vicinal import densities, initialise, maps, neighbourhoods, samplers

    expression, kind = CONFIGURATIONS[name]
    parts = {"densities": densities, "initialise": initialise, "maps": maps, "np": np,
             "neighbourhoods": neighbourhoods, "samplers": samplers}  # fmt: skip
    model = eval(expression, {**{key: getattr(vicinal, key) for key in vicinal.__all__}, **parts})
    short = {"max_iter": 12, "tol": 0.0, "random_state": 0}
    known = [key for key in short if key in model.get_params() and f"{key}=" not in expression]
    model.set_params(**{key: short[key] for key in known})
    return model, _rows(kind)


def _rows(kind):
    rng = np.random.RandomState(0)
    n = 1100 if kind == "many" else 90
    y = np.arange(n) % 3
    X = rng.standard_normal((3, 6))[y] + rng.standard_normal((n, 6))
    if kind == "rows":
        return {"X": X}
    if kind == "histograms":
        X = rng.dirichlet(np.ones(6), n) + 0.3 * np.eye(6)[y]
        return {"X": X / X.sum(axis=1, keepdims=True), "y": y}
    if kind == "numbers":
        return {"X": X, "y": np.sin(X[:, 0]) + 0.3 * y}
    if kind == "distributions":
        return {"X": X, "y": 0.8 * np.eye(3)[y] + 0.2 / 3}
    if kind == "pairs":
        return {"X": X, "pairs": np.column_stack([np.arange(n - 3), np.arange(3, n)])}
    return {"X": X, "y": y}


def result(model):
    """What a fit ends in, as arrays, without what counts work."""
    history = {f"history.{k}": v for k, v in model.history_.items() if k not in _WORK}
    kept = {key: value for key, value in vars(model).items()
            if key in ("components_", "embedding_", "objective_", "kl_divergence_", "n_iter_",
                       "alpha_", "n_components_")}  # fmt: skip
    theta = getattr(getattr(model, "_map", None), "theta", None)
    parameters = {} if theta is None else {"theta": theta}
    return {k: np.asarray(v) for k, v in {**history, **kept, **parameters}.items()}


def fit(name, path=None, every=1):
    """The result of a fit that is saved to ``path`` and goes on from there if it exists."""
    from vicinal.callbacks import Checkpoint

    model, data = model_of(name)
    if path is not None:
        model.set_callbacks(Checkpoint(path, every=every))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        resume_from = path if path is not None and path.exists() else None
        return result(model.fit(**data, resume_from=resume_from))


class Kills:
    """Kills the fits of a configuration at random moments, and counts when.

    Attributes
    ----------
    counts : Counter
        ``kills``, and of these: ``before`` the first save, ``writing`` a file, ``between`` saves,
        ``after`` the last one, with the result not yet written.
    """

    def __init__(self, name, folder, seed=0, every=1):
        self.name, self.folder, self.every = name, Path(folder), every
        self.rng, self.counts = np.random.RandomState(seed), Counter()
        self.path = self.folder / "fit.vic"
        self.found = self.folder / "result.npz"

    def start(self):
        """A new process, which has just begun to fit."""
        command = [sys.executable, __file__, self.name, str(self.path), str(self.every)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout.readline() == b"begins\n"
        self.litter = self.unfinished()
        return process

    def unfinished(self):
        """The files that are being written, or whose writers were killed."""
        return {name for name in os.listdir(self.folder) if name.endswith(".tmp")}

    def to_the_end(self, n_kills):
        """The result of a fit that is killed so many times at most."""
        for file in (self.path, self.found):
            file.unlink(missing_ok=True)
        began = time.perf_counter()
        with self.start() as process:  # how long it takes
            process.communicate()
        assert process.returncode == 0
        length = time.perf_counter() - began
        self.path.unlink(), self.found.unlink()
        for _ in range(n_kills):
            with self.start() as process:
                time.sleep(self.rng.uniform(0, 0.6 * length))
                ended = process.poll() is not None
                if not ended:
                    process.send_signal(signal.SIGSTOP)  # so that it does not go on while we look
                    self.note()
                    process.send_signal(signal.SIGKILL)
            if ended:
                assert process.returncode == 0
                break
            assert process.returncode == -signal.SIGKILL
            self.check_file()
        else:
            with self.start() as process:
                process.communicate()
            assert process.returncode == 0
        with np.load(self.found) as found:
            return dict(found)

    def note(self):
        """Count a kill by what the process was doing."""
        self.counts["kills"] += 1
        writing = self.unfinished() - self.litter
        when = "writing" if writing else "between" if self.path.exists() else "before"
        self.counts["after" if self.found.exists() else when] += 1

    def check_file(self):
        """What a kill leaves is no file yet, or a complete one."""
        import vicinal

        if self.path.exists():
            vicinal.load(self.path)
            self.counts["readable"] += 1


def main(name, path, every):
    """Fit, and write the result in one step."""
    path = Path(path)
    model_of(name)  # imports
    print("begins", flush=True)
    found = fit(name, path, int(every))
    part = path.with_name("part.npz")
    np.savez(part, **found)
    part.replace(path.with_name("result.npz"))


if __name__ == "__main__":
    main(*sys.argv[1:])
