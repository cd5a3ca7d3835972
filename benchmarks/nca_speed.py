"""Speed and memory of exact NCA, side by side with scikit-learn, in one run.

    python benchmarks/nca_speed.py                  # some four minutes on two cores
    python benchmarks/nca_speed.py --quick          # under a minute, small data
    python benchmarks/nca_speed.py --only limit fits
    python benchmarks/nca_speed.py --output         # also writes benchmarks/results/nca_speed.md

Prints one report in markdown on standard output, and progress on standard error.
"""

from __future__ import annotations

import argparse
import os
import sys

from _common import (
    ALLOCATOR,
    Options,
    add_output,
    compile_kernels,
    progress,
    read_options,
    report_sections,
)

#: name: (title, module, function, one line of help)
SECTIONS = {
    "evaluation": (
        "Time per value and gradient", "_evaluation", "evaluation_section",
        "time per value and gradient against scikit-learn, N from 500 to 60,000",
    ),
    "memory": (
        "60,000 rows of 784 features: time and memory", "_evaluation", "memory_section",
        "seconds and peak memory at 60,000 x 784 (MNIST too, if VICINAL_DATA has mnist.npz)",
    ),
    "limit": (
        "The limit that exponentials and multiply-adds set", "_limit", "limit_section",
        "measured rates of both operations, and the share of that limit reached",
    ),
    "fits": (
        "Whole fits to the same objective", "_fits", "fits_section",
        "scikit-learn's fit, and vicinal until it reaches the same value",
    ),
    "first-use": (
        "First use", "_evaluation", "first_use_section",
        "import and fit in a fresh process, without and with compiled code on disk",
    ),
}  # fmt: skip


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    sections = "\n".join(f"  {name:<14}{entry[3]}" for name, entry in SECTIONS.items())
    parser = argparse.ArgumentParser(
        description="Measure speed and memory of exact NCA and scikit-learn's; print one markdown "
        "report.  Other libraries and methods: methods_speed.py.",
        epilog=f"sections:\n{sections}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="small data only, under a minute")
    size.add_argument(
        "--large",
        action="store_true",
        help="also what takes long or much memory: scikit-learn at N = 20,000 (12.5 GB), float64 "
        "at N = 60,000 and d = 32",
    )
    parser.add_argument(
        "--only", nargs="+", choices=SECTIONS, metavar="SECTION", default=list(SECTIONS),
        help="run these sections alone (see below)",
    )  # fmt: skip
    add_output(parser, "nca_speed")
    return read_options(parser, arguments)


def keep_memory() -> None:
    """Start over with an allocator that keeps freed memory: glibc reads this once, at its start."""
    if sys.platform.startswith("linux") and not ALLOCATOR.keys() <= os.environ.keys():
        os.execve(sys.executable, sys.orig_argv, {**os.environ, **ALLOCATOR})


def main(arguments: list[str] | None = None) -> None:
    """Run the sections and print the report."""
    options = parse(arguments)
    keep_memory()
    progress("compiling")
    compile_kernels()
    how = Options(quick=options.quick, large=options.large)
    sections = (
        (title, lambda module=module, name=name: getattr(__import__(module), name)(how))
        for key, (title, module, name, _) in SECTIONS.items()
        if key in options.only
    )
    report_sections("Exact NCA: speed and memory", sections, options.output)


if __name__ == "__main__":
    main()
