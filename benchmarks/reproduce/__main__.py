"""Command line: ``python benchmarks/reproduce oneata-table-5.2`` writes docs/results/."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from reproduce.framework import catalogue, check, index, quotes, runner


def main() -> int:
    """Run, render or check the named experiments."""
    experiments = catalogue.experiments()
    parser = _parser(experiments)
    options = parser.parse_args()
    if options.list:
        print(_listing(experiments))
        return 0
    names = options.names
    if "all" in names or (not names and (options.render or options.check)):
        names = list(experiments)
    unknown = [name for name in names if name not in experiments]
    if unknown:
        choices = _listing(experiments)
        parser.error(f"unknown experiment: {', '.join(unknown)}; choose from\n{choices}")
    if not names:
        parser.error("name an experiment, or 'all'; --list shows them")
    chosen = [experiments[name] for name in names]
    if options.check:
        return check.main(chosen, options)
    if options.render:
        folders = {options.output or runner.RESULTS}
        changed = [name for folder in folders for name in runner.render_all(chosen, folder)]
        if options.output is None:
            changed += _requote(experiments)
        print(f"changed: {', '.join(changed)}" if changed else "every page is as its numbers say")
    else:
        folders = {runner.run(each, options) for each in chosen}
    for folder in folders:
        if folder.exists():
            index.write_index(experiments.values(), folder)
    return 0


def _requote(experiments: dict[str, catalogue.Experiment]) -> list[str]:
    """Fill in the numbers that the documentation quotes; the documents that changed."""
    changed = []
    for path in quotes.documents(runner.ROOT):
        before = path.read_text("utf-8")
        after = quotes.fill_quotes(before, experiments.values(), runner.RESULTS)
        if after != before:
            path.write_text(after, "utf-8")
            changed.append(path.name)
    return changed


def _listing(experiments: dict[str, catalogue.Experiment]) -> str:
    return "\n".join(f"  {name:<24} {each.title}" for name, each in experiments.items())


def _parser(experiments: dict[str, catalogue.Experiment]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python benchmarks/reproduce",
        description="Compute a table or figure of the papers again, render its page, or check it.",
        epilog=f"experiments:\n{_listing(experiments)}\n\n"
        "VICINAL_DATA must name the folder of the data sets.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="one below, or 'all'")
    add("--list", action="store_true", help="print the names and titles")
    add("--render", action="store_true", help="write the pages of the committed numbers, no jobs")
    add("--check", action="store_true", help="recompute a few jobs and compare with the numbers")
    add("--seed", type=int, default=0, help="of the jobs drawn by --check")
    add("--seconds", type=float, default=60.0, help="for each page of --check; default: 60")
    add("--jobs", type=int, default=None, help="processes; default: one a core")
    add("--splits", type=int, default=None, help="fewer than the protocol's")
    add("--sets", nargs="+", default=None, help="only these data sets, for a quick look")
    add(
        "--where",
        nargs="+",
        metavar="KEY=VALUE",
        default=None,
        help="do only the jobs with these values, e.g. fit=cg; the page takes all that is done",
    )
    add("--reuse", action="store_true", help="take results that other versions of the code left")
    add("--output", type=Path, default=None, help="folder of pages and data; default: docs/results")
    add("--store", type=Path, default=runner.STORE, help="finished jobs")
    return parser


if __name__ == "__main__":
    sys.exit(main())
