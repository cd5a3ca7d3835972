"""Ctrl-C in real processes, at random times: it ends a fit, never the process.

SciPy's threads (``KDTree.query(workers=2)``) outlive an interrupt and write into freed memory: the
child below died of SIGSEGV within the first ten interrupts.
"""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")

# Repeats `job` until it has been interrupted `hits` times; the job must then still give the same.
CHILD = """
import signal, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X = rng.standard_normal((int(sys.argv[2]), 4))
y = (X[:, 0] + 0.3 * rng.standard_normal(len(X)) > 0).astype(int)
exec(sys.argv[1])
expected = job() if {warm} else None
hits, inside = 0, False

def interrupt(*_):
    global hits
    hits += 1
    if inside:
        raise KeyboardInterrupt

signal.signal(signal.SIGINT, interrupt)
print("ready", flush=True)
while hits < int(sys.argv[3]):
    try:
        try:
            inside = True
            job()
        finally:
            inside = False
    except KeyboardInterrupt:
        pass
signal.signal(signal.SIGINT, signal.SIG_IGN)
print("done", flush=True)
np.testing.assert_array_equal(job(), job() if expected is None else expected)
"""

SEARCH = """
from vicinal import _search
def job():
    return _search.finder("tree", X)(X, 20)[0]
"""
LMNN = """
from vicinal import LMNN
def job():
    return LMNN(n_components=3, refresh_targets=1, max_iter=8, random_state=0).fit(X, y).components_
"""
NCA = """
from vicinal import NCA
from vicinal.neighborhoods import Nearest
def job():
    pairs = Nearest(m=20, refresh=1)
    model = NCA(n_components=3, alpha=3e-3, neighborhood=pairs, max_iter=8, random_state=0)
    return model.fit(X, y).components_
"""


def interrupt_often(job, rows, hits, longest, warm=True, seed=0, **environment):
    """Interrupt a child at random times until it says that it is done; it must end well."""
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD.format(warm=warm), job, str(rows), str(hits)],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    draw = np.random.default_rng(seed)
    with child:
        try:
            assert child.stdout.readline() == "ready\n", child.stderr.read()
            done = threading.Event()
            threading.Thread(target=lambda: child.stdout.readline() and done.set()).start()
            began = time.monotonic()
            while not done.wait(draw.uniform(0.0, longest)) and child.poll() is None:
                child.send_signal(signal.SIGINT)
                assert time.monotonic() - began < 60 + 20 * hits * longest, "the child hangs"
            _, errors = child.communicate(timeout=120)
        finally:
            child.kill()
    assert child.returncode == 0, (child.returncode, errors)


def test_a_search_survives_interrupts():
    interrupt_often(SEARCH, rows=10_000, hits=12, longest=0.04)


@pytest.mark.slow
@pytest.mark.parametrize("job", [LMNN, NCA], ids=["LMNN", "NCA"])
def test_a_fit_survives_interrupts(job):
    interrupt_often(job, rows=3000, hits=10, longest=0.2)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("job", [LMNN, NCA], ids=["LMNN", "NCA"])
def test_a_fit_survives_a_hundred_interrupts(job, seed):
    interrupt_often(job, rows=4000, hits=100, longest=0.3, seed=seed)


@pytest.mark.long
@pytest.mark.parametrize("job", [LMNN, NCA], ids=["LMNN", "NCA"])
def test_compilation_survives_interrupts(job, tmp_path):
    interrupt_often(job, rows=3000, hits=10, longest=3.0, warm=False, NUMBA_CACHE_DIR=str(tmp_path))


@pytest.mark.long
@pytest.mark.parametrize("job", [LMNN, NCA], ids=["LMNN", "NCA"])
def test_an_interrupted_process_ends(job):
    """As a script would: the fit returns what it has, or the interpreter ends by the interrupt."""
    code = (
        "import numpy as np, sys; X = np.random.default_rng(0).standard_normal((4000, 4))\n"
        f"y = (X[:, 0] > 0).astype(int)\n{job}\njob(); print('ready', flush=True); job(); job()"
    )
    draw = np.random.default_rng(0)
    for _ in range(10):
        with subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout.readline() == "ready\n", child.stderr.read()
            time.sleep(draw.uniform(0.0, 1.0))
            child.send_signal(signal.SIGINT)
            _, errors = child.communicate(timeout=120)
        assert child.returncode in (0, 1, -signal.SIGINT), errors
        assert child.returncode == 0 or "KeyboardInterrupt" in errors
