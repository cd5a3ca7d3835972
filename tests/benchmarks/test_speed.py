"""The benchmark scripts run and print their tables. Nothing here looks at a time."""

import argparse
import json
import os
import re
import subprocess
import sys
import time

import numpy as np
import pytest
from benchmarks_common import FOLDER

SCRIPT = FOLDER / "nca_speed.py"
KNCA_SCRIPT = SCRIPT.with_name("knca_speed.py")
METHODS_SCRIPT = SCRIPT.with_name("methods_speed.py")
KSNE_SCRIPT = SCRIPT.with_name("ksne_speed.py")
ENGINES_SCRIPT = SCRIPT.with_name("ksne_engines.py")
LISTS_SCRIPT = SCRIPT.with_name("ksne_lists.py")
CHI2_SCRIPT = SCRIPT.with_name("chi2_lmnn_memory.py")
ALL_SCRIPT = SCRIPT.with_name("all_speed.py")
MIGRATION_SCRIPT = SCRIPT.with_name("metric_learn_migration.py")

pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="not shipped in wheels")


def run(*arguments, script=SCRIPT, **variables):
    """Run a script without data sets and other libraries; a busy machine is all right."""
    environment = {name: value for name, value in os.environ.items() if name != "VICINAL_DATA"}
    environment |= {"VICINAL_PEERS": "nowhere", **variables}
    if "--output" in arguments:
        arguments = (*arguments, "--busy")
    return subprocess.run(
        [sys.executable, str(script), *arguments],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip


def tables(report):
    """The widths of all tables of a report, each a list with an entry for each line."""
    blocks = re.findall(r"(?:^\|.*\|\n)+", report, re.M)
    return [[line.count("|") for line in block.splitlines()] for block in blocks]


def test_help_names_the_sections():
    done = run("--help")
    assert done.returncode == 0, done.stderr
    for section in ("evaluation", "memory", "limit", "fits", "first-use"):
        assert re.search(rf"^  {section} ", done.stdout, re.M)


def test_unknown_section():
    done = run("--only", "speed")
    assert done.returncode == 2
    assert "invalid choice: 'speed'" in done.stderr


@pytest.mark.slow
def test_quick_report(tmp_path):
    path = tmp_path / "new" / "report.md"
    done = run("--quick", "--only", "limit", "fits", "--output", str(path))
    assert done.returncode == 0, done.stderr
    report = path.read_text(encoding="utf-8")
    assert report.strip() == done.stdout.strip()
    assert [title for title in report.splitlines() if title.startswith("#")] == [
        "# Exact NCA: speed and memory",
        "## The limit that exponentials and multiply-adds set",
        "## Whole fits to the same objective",
    ]
    found = tables(report)
    assert len(found) == 3
    for widths in found:
        assert len(widths) > 2
        assert len(set(widths)) == 1
    assert "[bench] done" in done.stderr


@pytest.mark.long
def test_quick_report_of_knca(tmp_path):
    path = tmp_path / "report.md"
    small = ("--quick", "--sizes", "80", "--ks", "1", "5", "15", "--list-length", "20")
    done = run(*small, "--repeats", "1", "--output", str(path), script=KNCA_SCRIPT)
    assert done.returncode == 0, done.stderr
    report = path.read_text(encoding="utf-8")
    assert report.strip() == done.stdout.strip()
    evaluations, lists = tables(report)
    assert len(evaluations) == 2 + 2 * 2  # precisions and votes
    assert len(lists) == 2 + 2
    for widths in (evaluations, lists):
        assert len(set(widths)) == 1
    assert "k = 5, majority: at most 8 was asked for" in report


@pytest.mark.slow
def test_quick_report_of_histograms(tmp_path):
    path = tmp_path / "report.md"
    small = ("--quick", "--sizes", "80", "120", "--ranks", "2", "3", "--max-iter", "2")
    done = run(*small, "--output", str(path), script=CHI2_SCRIPT)
    assert done.returncode == 0, done.stderr
    report = path.read_text(encoding="utf-8")
    assert report.strip() == done.stdout.strip()
    (widths,) = tables(report)
    assert len(widths) == 2 + 2 * 2  # sizes and ranks
    assert len(set(widths)) == 1
    assert "| 120 | 40 | 3 |" in report


def test_ksne_refuses_an_unknown_size():
    done = run("--only", "7", script=KSNE_SCRIPT)
    assert done.returncode == 2
    assert "--only must name sizes of (20000,), or 'growth'. Got ['7']" in done.stderr


@pytest.mark.long
def test_quick_report_of_ksne(tmp_path):
    path = tmp_path / "report.md"
    done = run("--quick", "--output", str(path), script=KSNE_SCRIPT)
    assert done.returncode == 0, done.stderr
    report = path.read_text(encoding="utf-8")
    assert report.strip() == done.stdout.strip()
    assert [len(set(widths)) for widths in tables(report)] == [1, 1]
    assert "k = 5 takes" in report
    assert "grow with the power" in report


@pytest.mark.long
def test_quick_report_of_the_engines_of_ksne(tmp_path):
    path = tmp_path / "report.md"
    done = run("--quick", "--output", str(path), script=ENGINES_SCRIPT)
    assert done.returncode == 0, done.stderr
    assert path.read_text(encoding="utf-8").strip() == done.stdout.strip()
    assert re.search(r"^- library of commit `\w+", done.stdout, re.M)
    (widths,) = tables(done.stdout)
    assert len(widths) == 2 + 3 * 2  # three pictures, two k
    assert len(set(widths)) == 1


@pytest.mark.slow
def test_quick_report_of_the_lists_of_ksne(tmp_path):
    path = tmp_path / "report.md"
    done = run("--quick", "--output", str(path), script=LISTS_SCRIPT)
    assert done.returncode == 0, done.stderr
    assert path.read_text(encoding="utf-8").strip() == done.stdout.strip()
    (widths,) = tables(done.stdout)
    assert len(widths) == 2 + 3  # three k
    assert len(set(widths)) == 1
    times = r"1,000 lists of 90 with k = 5: .* \w?s for the weights, .* \w?s for the marginals"
    assert re.search(times, done.stdout)


def test_help_of_the_migration_table():
    done = run("--help", script=MIGRATION_SCRIPT)
    assert done.returncode == 0, done.stderr
    assert "interpreter with metric-learn" in done.stdout


def test_worker_of_the_migration_table(tmp_path, rng):
    """One of ours, on a tiny table, and the other: an error is told, not raised."""
    X = rng.standard_normal((30, 3))
    y, train = np.arange(30) % 2, np.arange(30) < 20
    np.savez(tmp_path / "data.npz", X=X, y=y, numbers=False, train=train[None])
    worker = MIGRATION_SCRIPT.with_name("_migration_worker.py")
    done = run("vicinal.compat", "LSML_Supervised", str(tmp_path), "1", script=worker)
    answer = json.loads(done.stdout)
    assert len(answer["scores"]) == len(answer["cpu"]) == len(answer["peak"]) == 1
    answer = json.loads(run("vicinal", "SCML", str(tmp_path), "1", script=worker).stdout)
    assert answer["scores"] == []
    assert "SCML" in answer["error"]


@pytest.mark.long
def test_quick_report_of_maps(tmp_path):
    path = tmp_path / "report.md"
    done = run("--quick", "--output", str(path), script=SCRIPT.with_name("maps_speed.py"))
    assert done.returncode == 0, done.stderr
    widths = tables(path.read_text(encoding="utf-8"))
    assert [len(lines) for lines in widths] == [2 + 4, 2 + 6]
    assert all(len(set(lines)) == 1 for lines in widths)


@pytest.mark.slow
def test_quick_report_of_some_methods(tmp_path):
    path = tmp_path / "report.md"
    some = ("--quick", "--only", "RCA", "MMC", "--output", str(path))
    done = run(*some, script=METHODS_SCRIPT)
    assert done.returncode == 0, done.stderr
    report = path.read_text(encoding="utf-8")
    assert report.strip() == done.stdout.strip()
    (widths,) = tables(report)
    assert len(widths) == 2 + 2  # without the other libraries
    assert len(set(widths)) == 1
    assert "failed" not in report
    assert re.search(r"^- library of commit `\w+.* of \d+ cores busy at the start$", report, re.M)
    assert "**metric-learn is left out**: it is not installed." in report
    assert "other programs used" in report


def test_a_worker_that_fails_is_told(tmp_path):
    """Here: nothing to learn from."""
    worker = METHODS_SCRIPT.with_name("_methods_worker.py")
    np.savez(tmp_path / "data.npz", X=np.zeros((3, 2)))
    done = run("vicinal", "RCA", str(tmp_path), script=worker)
    assert done.returncode == 1
    assert "KeyError: 'chunks'" in done.stderr


def test_all_scripts_are_listed_and_named():
    """What is quoted comes first; every script has its report in the table of the README."""
    done = run("--list", script=ALL_SCRIPT)
    assert done.returncode == 0, done.stderr
    names = re.findall(r"min  (\w+)", done.stdout)
    assert names[0] == "methods_speed"
    assert names.pop() == "together"
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    for name in names:
        assert (FOLDER / f"{name}.py").exists()
        assert re.search(rf"^\| \[?`{name}`", readme, re.M), name


def test_all_scripts_need_the_other_libraries(tmp_path):
    done = run(script=ALL_SCRIPT, VICINAL_PEERS=str(tmp_path))
    assert done.returncode == 2
    assert "metric-learn, PyLMNN, mlpack, openTSNE, tables not installed" in done.stderr


def test_what_there_is_no_time_for_is_said(tmp_path):
    from environments import REQUIREMENTS

    for name, packages in REQUIREMENTS.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "installed").write_text("\n".join(packages))
    nothing = ("--minutes", "0", "--output", str(tmp_path))
    done = run(*nothing, script=ALL_SCRIPT, VICINAL_PEERS=str(tmp_path))
    assert done.returncode == 1
    assert "ksne_speed: not done: 0.0 minutes were left, it takes up to" in done.stdout


def test_times_of_a_busy_machine_are_refused(monkeypatch, tmp_path, capsys):
    import _common

    parser = argparse.ArgumentParser()
    _common.add_output(parser, "nothing")
    monkeypatch.setattr(_common, "_load", None)
    monkeypatch.setattr(_common, "wait_until_idle", lambda patience: 1.5)
    with pytest.raises(SystemExit) as stopped:
        _common.read_options(parser, ["--output", str(tmp_path / "report.md")])
    assert stopped.value.code == 3
    assert "other programs keep 1.5 cores busy" in capsys.readouterr().err
    options = _common.read_options(parser, ["--output", str(tmp_path / "report.md"), "--busy"])
    assert options.output == tmp_path / "report.md"
    assert _common.read_options(parser, []).output is None


def test_busy_cores():
    from _idle import Others, busy_cores

    assert 0.0 <= busy_cores(0.1) <= os.cpu_count()
    others = Others()
    assert str(others) == "an unknown share of the cores"
    with others:
        time.sleep(0.6)
    assert "on average" in str(others)


def test_a_result_that_is_not_finite_is_said():
    from _methods_tasks import Task
    from methods_speed import judged

    task = Task("RCA", "rows", {}, [], lambda data, learnt: f"{learnt['Z'].sum():.0f} %", "votes")
    assert judged(task, {"Z": np.ones(3), "names": np.array(["a"])}) == "3 %"
    assert judged(task, {"Z": np.array([1.0, np.nan])}) == "not finite"
