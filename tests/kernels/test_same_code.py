"""Code just compiled and code from the cache give the same bits, in whatever order it is loaded.

A helper that is not inlined is a function of its own in the machine code of each of its kernels,
and LLVM may optimise each copy differently: which copy runs must make no difference.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from numba import config

pytestmark = pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")

SCRIPT = Path(__file__).with_name("every_kernel.py")


def run_all(folder, *arguments):
    """What a process with this cache computed."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.long
def test_fresh_and_cached_code_give_the_same_bits(tmp_path):
    fresh = run_all(tmp_path)
    assert fresh["uncalled"] == []
    for arguments in [(), ("reverse",)]:
        cached = run_all(tmp_path, *arguments)
        assert cached["misses"] == 0
        assert cached["digests"] == fresh["digests"]
    # and code that is compiled in the other order
    assert run_all(tmp_path / "other", "reverse")["digests"] == fresh["digests"]
