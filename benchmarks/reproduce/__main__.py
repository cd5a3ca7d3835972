"""Command line: ``python benchmarks/reproduce oneata-table-5.2`` writes docs/results/."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from reproduce import catalogue, runner


def main() -> int:
    """Run the named experiments; print and write their reports."""
    experiments = catalogue.experiments()
    listing = "\n".join(f"  {name:<22} {e.title}" for name, e in experiments.items())
    parser = argparse.ArgumentParser(
        prog="python benchmarks/reproduce",
        description="Compute a table or figure of the papers anew.",
        epilog=f"experiments:\n{listing}\n\nVICINAL_DATA must name the folder of the data sets.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="+", metavar="NAME", help="one below, or 'all'")
    parser.add_argument("--jobs", type=int, default=None, help="processes; default: one a core")
    parser.add_argument("--splits", type=int, default=None, help="fewer than the protocol's")
    parser.add_argument(
        "--sets", nargs="+", default=None, help="only these data sets, for a quick look"
    )
    parser.add_argument(
        "--where",
        nargs="+",
        metavar="KEY=VALUE",
        default=None,
        help="do only the jobs with these values, e.g. fit=cg; the report takes all that is done",
    )
    parser.add_argument(
        "--reuse", action="store_true", help="take results that other versions of the code left"
    )
    parser.add_argument("--output", type=Path, default=runner.RESULTS, help="folder of the reports")
    parser.add_argument("--store", type=Path, default=runner.STORE, help="finished jobs")
    options = parser.parse_args()
    if "all" in options.names:
        options.names = list(experiments)
    unknown = [name for name in options.names if name not in experiments]
    if unknown:
        parser.error(f"unknown experiment: {', '.join(unknown)}; choose from\n{listing}")
    for name in options.names:
        runner.run(experiments[name], options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
