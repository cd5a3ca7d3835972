"""Where the benchmarks are; importing this puts them on the path."""

import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "benchmarks"

if FOLDER.exists():  # not shipped in wheels
    sys.path.insert(0, str(FOLDER))
