"""The kernels compile for an A100 and an H100, without a device."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not find_spec("triton"), reason="needs triton")


@pytest.mark.parametrize("architecture", [80, 90])
def test_kernels_compile_without_atomic_operations(architecture):
    # apart: in the interpreter, of the other tests, functions are not compiled
    plain = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    script = Path(__file__).with_name("compile_kernels.py")
    done = subprocess.run(
        [sys.executable, str(script), str(architecture)], env=plain, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
