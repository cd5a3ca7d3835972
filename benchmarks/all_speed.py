"""All reports of speed and memory, one after the other, on an idle machine.

    python benchmarks/environments.py                # once: the other libraries
    VICINAL_DATA=... python benchmarks/all_speed.py --minutes 45
    python benchmarks/all_speed.py --list            # what would run, with the minutes it takes
    python benchmarks/all_speed.py --only methods_speed ksne_speed

Every script waits until the machine is idle, measures, and writes its report to
``benchmarks/results/`` (or to the folder that ``--output`` names).  ``methods_speed``, which the
documentation quotes, comes first, then the cheapest.  A script that would not end in time is not
begun; what was not done is said at the end, and makes the exit status 1.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from _common import RESULTS, commit, progress, seconds
from environments import REQUIREMENTS, python_of
from quote_speed import write_quotes

#: minutes of two idle cores, generously
SCRIPTS = {
    "methods_speed": 13.0,
    "ksne_lists": 1.0,
    "nca_few_queries": 1.0,
    "nca_skipping": 1.0,
    "nca_trees": 1.0,
    "small_fits": 1.0,
    "match_speed": 1.5,
    "chi2_lmnn_memory": 1.5,
    "knca_speed": 4.0,
    "peer_facts": 1.5,
    "prediction_speed": 1.5,
    "ksne_engines": 2.5,
    "maps_speed": 2.5,
    "nca_speed": 4.0,
    "ksne_speed": 5.0,
    "metric_learn_migration": 7.0,
}
FIRST = "methods_speed"
#: a script is given up after this many times the minutes above
TOO_LONG = 2.0


def in_order(names: list[str]) -> list[str]:
    """What is quoted first, then the cheapest."""
    return sorted(names, key=lambda name: (name != FIRST, SCRIPTS[name]))


def run(name: str, output: Path, busy: bool, limit: float) -> str:
    """Run a script; in words, what went wrong, or nothing."""
    command = [sys.executable, str(Path(__file__).with_name(f"{name}.py"))]
    command += ["--output", str(output / f"{name}.md"), *(["--busy"] if busy else [])]
    # one thread is what some shells ask for; the reports are of all cores
    free = {key: value for key, value in os.environ.items() if not key.endswith("_NUM_THREADS")}
    try:
        done = subprocess.run(command, check=False, env=free, stdout=-3, timeout=limit)
    except subprocess.TimeoutExpired:
        return f"given up after {limit / 60:.0f} minutes"
    if done.returncode == 3:
        return "the machine was busy"
    return f"failed (exit status {done.returncode})" if done.returncode else ""


def run_all(names: list[str], options: argparse.Namespace) -> dict[str, str]:
    """Run what there is time for; why the others were not done."""
    end = time.perf_counter() + 60.0 * options.minutes
    undone = {}
    for name in names:
        left = max(0.0, end - time.perf_counter()) / 60.0
        if SCRIPTS[name] > left:
            undone[name] = f"{left:.1f} minutes were left, it takes up to {SCRIPTS[name]:g}"
            continue
        progress(f"{name}: up to {SCRIPTS[name]:g} of {left:.0f} minutes")
        began = time.perf_counter()
        limit = 60.0 * min(TOO_LONG * SCRIPTS[name], left)
        trouble = run(name, options.output, options.busy, limit)
        if trouble:
            undone[name] = trouble
        progress(f"{name}: {trouble or 'done'}, {seconds(time.perf_counter() - began)}")
    return undone


def main(arguments: list[str] | None = None) -> None:
    """Run the scripts and say what was not done."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0, help="time for all of them")
    parser.add_argument("--only", nargs="+", choices=SCRIPTS, default=list(SCRIPTS))
    parser.add_argument("--output", type=Path, default=RESULTS, help="folder of the reports")
    parser.add_argument("--busy", action="store_true", help="measure on a busy machine too")
    parser.add_argument("--list", action="store_true", help="say what would run, and end")
    options = parser.parse_args(arguments)
    names = in_order(options.only)
    if options.list:
        for name in names:
            print(f"{SCRIPTS[name]:5.1f} min  {name}")
        print(f"{sum(SCRIPTS[name] for name in names):5.1f} min  together")
        return
    missing = [name for name in REQUIREMENTS if python_of(name) is None]
    if missing:
        parser.error(f"{', '.join(missing)} not installed: run benchmarks/environments.py first.")
    progress(f"library of commit {commit()}")
    undone = run_all(names, options)
    for name in names:
        print(f"{name}: {'not done: ' + undone[name] if name in undone else 'done'}")
    if options.output == RESULTS:
        for page in write_quotes():
            print(f"{page}: quotes the new figures")
    sys.exit(bool(undone))


if __name__ == "__main__":
    main()
