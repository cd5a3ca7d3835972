"""Hostile files: none runs code, fills the memory or ends the process."""

from __future__ import annotations

import collections
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from storage_models import LARGE, MODELS, fitted

import vicinal

HERE = Path(__file__).parent
STARTS = range(1000, 101_000, 2500)  # of the long test
WORKERS = int(os.environ.get("VICINAL_FUZZ_WORKERS", "2"))
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs a limit of memory")


def open_mutated(folder, first, count):
    """Counts by result; fails if a file did harm."""
    path = os.pathsep.join([str(HERE), *sys.path])
    run = subprocess.run(
        [sys.executable, str(HERE / "mutations.py"), str(folder), str(first), str(count)],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    current = (folder / f"current-{first}").read_text()
    assert run.returncode == 0, f"crash at {current}: {run.stderr[-2000:]}"
    found = json.loads(run.stdout.splitlines()[-1])
    assert not found["failures"], "\n".join(found["failures"][:20])
    return collections.Counter(found["counts"])


def test_thousand_mutated_files_do_no_harm(tmp_path):
    for path in (HERE / "data").glob("v1-*.vic"):
        shutil.copy(path, tmp_path)
    counts = open_mutated(tmp_path, 0, 1000)
    assert sum(counts.values()) == 1000
    # a fuzzer whose files are all refused at the door tests nothing behind it
    assert counts["contents, loaded, answers"] > 20
    assert counts["contents, refused"] > 300


@pytest.mark.long
def test_hundred_thousand_mutated_files_do_no_harm(tmp_path, capsys):
    # of the large models, predictions run in compiled loops, which check no bounds
    for name in (*MODELS, *LARGE):
        vicinal.save(fitted(name), tmp_path / f"{name}.vic")
    counts = collections.Counter()
    with ThreadPoolExecutor(WORKERS) as pool, capsys.disabled():
        for part in pool.map(lambda first: open_mutated(tmp_path, first, 2500), STARTS):
            counts += part
            print(sum(counts.values()), dict(counts), flush=True)
    assert sum(counts.values()) == 100_000
    with capsys.disabled():
        print()
        for kind, number in sorted(counts.items()):
            print(f"| {kind} | {number} |")
