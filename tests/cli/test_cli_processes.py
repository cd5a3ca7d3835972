"""The command line in processes of its own: Ctrl-C, pipes, and what stands on which stream."""

import os
import signal
import subprocess
import sys
import time

import pytest
from common.checks import needs_callbacks

pytest.importorskip("click")
pytest.importorskip("pandas")

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and pipes of POSIX")

VICINAL = [sys.executable, "-m", "vicinal"]


@pytest.fixture
def endless(tmp_path):
    """A fit that only Ctrl-C ends, and the file that shows that it iterates."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((200, 6)), columns=list("abcdef"))
    table["y"] = rng.integers(3, size=200)
    table.to_csv(tmp_path / "t.csv", index=False)
    words = ["fit", "t.csv", "--label", "y", "--set", "alpha=1e-3", "--set", "tol=None",
             "--set", "solver=adam", "--set", "max_iter=1000000", "--checkpoint", "c.vic",
             "--every", "1", "-o", "m.vic", "--json"]  # fmt: skip
    child = subprocess.Popen(
        [*VICINAL, *words], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        deadline = time.monotonic() + 120
        while not (tmp_path / "c.vic").exists() and child.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield child
    finally:
        child.kill()
        child.communicate()


@needs_callbacks
def test_interrupt_keeps_the_best_model(endless, tmp_path):
    endless.send_signal(signal.SIGINT)
    out, errors = endless.communicate(timeout=120)
    assert endless.returncode == 130, errors
    assert '"interrupted": true' in out
    assert "m.vic holds the best model so far" in errors
    assert "Traceback" not in errors
    done = subprocess.run(
        [*VICINAL, "predict", "m.vic", "t.csv"], cwd=tmp_path, capture_output=True, text=True
    )
    assert len(done.stdout.splitlines()) == 201, done.stderr


def test_broken_pipe_is_quiet(tmp_path):
    child = subprocess.Popen(
        [*VICINAL, "datasets", "digits"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    child.stdout.readline()
    child.stdout.close()
    assert child.stderr.read() == b""
    assert child.wait(timeout=120) == 141


def test_pipes_join_commands(tmp_path):
    script = (
        f"set -o pipefail; {sys.executable} -m vicinal datasets iris | "
        f"{sys.executable} -m vicinal fit - --label label --set alpha=0.01 --dim 2 -o m.vic"
    )
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""  # no progress where nobody watches
    assert "Learnt nca from standard input: 150 rows" in done.stdout
    assert (tmp_path / "m.vic").exists()
