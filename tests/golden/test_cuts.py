"""Fits that are cut at any iteration, and resumed, end in the same bits as uncut ones.

The fits of the golden configurations, cut at random iterations: ``python tests/golden/cuts.py``
cuts them as often as you like.  ``tests/contracts/test_estimators.py`` cuts small ones of each
kind at fixed iterations.
"""

import signal
import subprocess
import sys
import warnings

import cuts
import numpy as np
import pytest
from common.checks import needs_callbacks

from vicinal.callbacks import Checkpoint

FITS = cuts.fits()


@needs_callbacks
@pytest.mark.long
@pytest.mark.parametrize("name", FITS)
def test_a_cut_fit_ends_in_the_same_bits(name, tmp_path, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, length, before = cuts.whole_fit(*FITS[name])
        for way in cuts.WAYS * 3:
            after = int(rng.randint(1, length + 1))
            if way == "interrupt" and after in before:
                continue  # it ends the search or the start, and the fit goes on
            model, was_cut = cuts.cut_fit(*FITS[name], after, way, tmp_path)
            found = cuts.resumed(model, was_cut, *FITS[name][1:])
            assert not cuts.differences(model, expected, found), (way, after)


@needs_callbacks
@pytest.mark.filterwarnings("ignore")
def test_a_cut_start_goes_on_although_an_earlier_one_is_better_so_far(tmp_path):
    expected, length, _ = cuts.whole_fit(*FITS["nca_random_starts"])
    for after in range(1, length + 1):
        model, was_cut = cuts.cut_fit(*FITS["nca_random_starts"], after, "callback", tmp_path)
        found = cuts.resumed(model, was_cut, *FITS["nca_random_starts"][1:])
        assert not cuts.differences(model, expected, found), after


KILLED = """
import pathlib, sys, warnings
import numpy as np
from vicinal import NCA
from vicinal.callbacks import Checkpoint
from vicinal.samplers import MiniBatches

warnings.simplefilter("ignore")
path, saves = pathlib.Path(sys.argv[1]), int(sys.argv[2])
rng = np.random.RandomState(0)
y = np.arange(240) % 3
X = rng.standard_normal((3, 6))[y] + rng.standard_normal((240, 6))

class Told(Checkpoint):
    def _write(self, saved):
        super()._write(saved)
        print("saved", flush=True)

if path.exists():
    model = Checkpoint.load(path)
else:
    model = NCA(2, alpha=3e-3, sampling=MiniBatches(60, clusters="random"), early_stopping=True,
                n_iter_no_change=50, max_iter=40, warm_start=True, random_state=0)
if saves:
    model.set_callbacks(Told(path, every=1))
model.fit(X, y)
np.save(path.with_suffix(".npy"), model.components_)
"""


@needs_callbacks
@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_a_fit_on_batches_that_is_killed_ends_in_the_same_bits(tmp_path, monkeypatch):
    """Several times, wherever it is; no unfinished file is left in the end."""

    def fit(path, saves):
        monkeypatch.setattr(sys, "argv", ["", str(path), str(saves)])
        with warnings.catch_warnings():
            exec(KILLED, {"__name__": "fit"})
        return np.load(path.with_suffix(".npy"))

    cut = tmp_path / "cut.joblib"
    for last in (3, 11):
        command = [sys.executable, "-c", KILLED, str(cut), "1"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            for number, _ in enumerate(process.stdout):
                if number == last:
                    process.kill()
        assert process.returncode == -signal.SIGKILL
        assert Checkpoint.load(cut).components_.shape == (2, 6)
    litter = tmp_path / f".{cut.name}.{32 * '0'}.tmp"
    litter.write_bytes(b"half")
    np.testing.assert_array_equal(fit(cut, 1), fit(tmp_path / "whole.joblib", 0))
    assert not list(tmp_path.glob(".*"))
