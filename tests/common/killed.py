"""Fits in processes of their own, which are killed at random moments and resumed until they end.

``python tests/common/killed.py PATH EVERY`` is the server of `Kills`: for each line of standard
input, the name of a configuration, it fits in a new process, which saves a checkpoint every few
iterations, goes on from it if there is one, and writes the result beside it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
import traceback
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
    "nca lists": ("NCA(2, alpha=3e-3, neighborhood=neighborhoods.Nearest(40))", "classes"),
    "nca random lists": (
        "NCA(2, alpha=3e-3, neighborhood=neighborhoods.RandomPairs(30))", "classes"),
    "nca trees": (
        "NCA(2, alpha=3e-3, neighborhood=neighborhoods.Tree(0.05, always=True))", "classes"),
    "nca restarts": ("NCA(2, alpha=3e-3, init=starts.Random(3))", "classes"),
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
    "nca float32, then float64": ("NCA(2, alpha=3e-3, max_iter=60, tol=1e-7)", "many"),
    "knca": ("KNCA(2, k=3)", "classes"),
    "knca lists": ("KNCA(2, k=3, neighborhood=neighborhoods.Nearest(40))", "classes"),
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
    from vicinal import densities, maps, neighborhoods, samplers, starts

    expression, kind = CONFIGURATIONS[name]
    parts = {"densities": densities, "starts": starts, "maps": maps, "np": np,
             "neighborhoods": neighborhoods, "samplers": samplers}  # fmt: skip
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
        return {"X": X, "y": np.column_stack([np.arange(n - 3), np.arange(3, n)])}
    return {"X": X, "y": y}


def result(model):
    """What a fit ends in, as arrays, without what counts work."""
    history = {f"history.{k}": v for k, v in model.history_.items() if k not in _WORK}
    kept = {key: value for key, value in vars(model).items()
            if key in ("components_", "embedding_", "loss_", "kl_divergence_", "n_iter_",
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
    """Kills the fits of configurations at random moments, and counts when.

    A server process imports everything once; each fit runs in a process of its own that is forked
    from it, knows nothing but the file, and is killed by SIGKILL.

    Attributes
    ----------
    counts : Counter
        ``kills``, and of these: ``before`` the first save, while ``writing`` a file, ``between``
        saves, and when the fit had ``ended``; ``readable``: files that were whole after a kill.
    """

    def __init__(self, folder, seed=0, every=1):
        self.folder, self.every = Path(folder), every
        self.rng, self.counts = np.random.RandomState(seed), Counter()
        self.aims = False  # at a moment when the process writes
        self.path, self.found = self.folder / "fit.vic", self.folder / "result.npz"

    def __enter__(self):
        command = [sys.executable, __file__, str(self.path), str(self.every)]
        self.server = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        assert self.server.stdout.readline() == b"ready\n"
        return self

    def __exit__(self, *_):
        self.server.stdin.close()
        assert self.server.wait() == 0

    def run(self, name, patience=None):
        """Run a fit in a new process, and kill it after some seconds; return whether it was."""
        self.litter = self.unfinished()
        self.server.stdin.write(f"{name}\n".encode())
        pid, when = int(self.server.stdout.readline()), "ended"
        if not self.has_ended(patience):
            while self.aims and not self.writes() and not self.has_ended(0):
                pass  # until it writes
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(pid, signal.SIGSTOP)  # so that it does not go on while we look
                when = self.moment()
                os.kill(pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(int(self.server.stdout.readline()))
        if status == -signal.SIGKILL:
            self.counts.update(["kills", when])
        else:
            assert status == 0
        return status != 0

    def to_the_end(self, name, n_kills):
        """The result of a fit that is killed so many times at most."""
        self.forget()
        began = time.perf_counter()
        self.run(name)
        length = time.perf_counter() - began
        self.forget()
        for _ in range(n_kills):
            self.aims = self.path.exists() and self.rng.uniform() < 0.4
            share = (
                0.5 if self.path.exists() else 1.0
            )  # what comes before the first save may be long
            if not self.run(name, self.rng.uniform(0, share * length)):
                break
            self.check_file()
        else:
            self.run(name)
        with np.load(self.found) as found:
            return dict(found)

    def forget(self):
        """Remove the files of the last fit."""
        self.path.unlink(missing_ok=True)
        self.found.unlink(missing_ok=True)

    def unfinished(self):
        """The files that are being written, or whose writers were killed."""
        return {name for name in os.listdir(self.folder) if name.endswith(".tmp")}

    def writes(self):
        """Whether the process is writing a file."""
        return bool(self.unfinished() - self.litter)

    def has_ended(self, patience):
        """Whether the server says within so many seconds that the process has ended."""
        return bool(select.select([self.server.stdout], [], [], patience)[0])

    def moment(self):
        """What the process is doing."""
        if self.found.exists():
            return "ended"
        return "writing" if self.writes() else "between" if self.path.exists() else "before"

    def check_file(self):
        """What a kill leaves is no file yet, or a complete one."""
        import vicinal

        if self.path.exists():
            vicinal.load(self.path)
            self.counts["readable"] += 1


def serve(path, every):
    """Fork a process for each name that is read; print its number and how it ended."""
    path = Path(path)
    for expression in CONFIGURATIONS:
        model_of(expression)  # imports
    import vicinal.callbacks
    import vicinal.storage  # noqa: F401

    print("ready", flush=True)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            try:
                found = fit(line.strip(), path, int(every))
                with open(path.with_name("part.npz"), "wb") as file:
                    np.savez(file, **found)
                path.with_name("part.npz").replace(path.with_name("result.npz"))
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        print(pid, flush=True)
        print(os.waitpid(pid, 0)[1], flush=True)


if __name__ == "__main__":
    serve(*sys.argv[1:])
