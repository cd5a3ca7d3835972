"""The benchmark of clusters runs and prints its tables. Nothing here looks at a time."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "dask_speed.py"


@pytest.mark.skipif(not SCRIPT.exists(), reason="not shipped in wheels")
def test_quick_report(tmp_path):
    path = tmp_path / "report.md"
    words = ["--quick", "--only", "costs", "--output", str(path), "--busy"]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *words],
        capture_output=True, text=True, check=False, env=dict(os.environ),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = path.read_text(encoding="utf-8")
    assert report.strip() == done.stdout.strip()
    found = re.findall(r"(?:^\|.*\|\n)+", report, re.M)
    assert [len(block.splitlines()) for block in found] == [2 + 5, 2 + 6]
