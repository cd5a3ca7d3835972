"""The framework of the reproductions on a toy experiment, and some of them on toy data."""

import importlib
import json
import re
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"

pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="not shipped in wheels")

TOY = """
from pathlib import Path
from reproduce.experiment import Experiment

def jobs(splits):
    for split in range(splits or 3):
        yield {"data": "toy", "split": split, "log": LOG}

def work(data, split, log):
    with open(log, "a") as file:
        file.write(f"{split}\\n")
    if split == FAILS:
        raise ValueError(f"split {split} fails")
    return {"square": split * split}

def report(done, folder):
    return f"The squares are {sorted(each.result['square'] for each in done)}."

toy = Experiment("toy", "A toy", jobs, work, report)
"""


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A runner of the toy: ``toy(splits=..., reuse=...)``; what it did and wrote."""
    (tmp_path / "modules").mkdir()
    for folder in (FOLDER, tmp_path / "modules"):
        monkeypatch.syspath_prepend(str(folder))
    # workers are new processes, which take their path from the parent's
    from reproduce import runner

    log = tmp_path / "log"

    def run(splits=None, reuse=False, fails=-1, change="", sets=None):
        # a name of its own for each variant, so that Python imports it anew
        name = f"toy_{abs(hash((tmp_path, fails, change)))}"
        path = tmp_path / "modules" / f"{name}.py"
        source = TOY.replace("LOG", repr(str(log))).replace("FAILS", str(fails))
        path.write_text(source.replace("    return {", f"{change}    return {{"), "utf-8")
        importlib.invalidate_caches()
        module = importlib.import_module(name)
        log.write_text("")
        options = SimpleNamespace(
            splits=splits, sets=sets, reuse=reuse, jobs=1,
            store=tmp_path / "store", output=tmp_path / "out", where=None,
        )  # fmt: skip
        runner.run(module.toy, options)
        return log.read_text().split()

    run.log = log
    run.store = tmp_path / "store" / "toy.jsonl"
    run.report = tmp_path / "out" / "toy.md"
    return run


@pytest.fixture
def command(toy, monkeypatch, capsys):
    """The command line: exit code and what it printed."""
    from reproduce.__main__ import main

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["reproduce", *arguments])
        with pytest.raises(SystemExit) as exit:
            main()
        return exit.value.code, "".join(capsys.readouterr())

    return run


def test_second_run_does_no_work(toy):
    assert toy() == ["0", "1", "2"]
    first = toy.report.read_text("utf-8")
    assert first.startswith("# A toy\n\nThe squares are [0, 1, 4].\n")
    assert "`python benchmarks/reproduce toy`, 3 jobs" in first
    toy.report.unlink()
    assert toy() == []
    assert toy.report.read_text("utf-8") == first
    index = toy.report.with_name("README.md").read_text("utf-8")
    assert "## Others\n\n- [A toy](toy.md). The squares are [0, 1, 4].\n" in index


def test_the_index_has_an_order(toy):
    toy(splits=1)
    for name in ("oneata-b", "goldberger-a", "defaults"):
        toy.report.with_name(f"{name}.md").write_text(f"# {name}\n\n**Found 1.5 %.** More.\n\nEnd")
    assert toy(splits=1) == []
    index = toy.report.with_name("README.md").read_text("utf-8")
    found = re.findall(r"^- \[(.*?)\]\(.*?\)\. (.*)$", index, re.M)
    assert [title for title, _ in found] == ["defaults", "goldberger-a", "oneata-b", "A toy"]
    assert found[0][1] == "Found 1.5 %."


def test_fewer_splits_and_other_sets(toy):
    assert toy(splits=1) == ["0"]
    assert toy(splits=2) == ["1"]
    assert toy(sets=["other"]) == []
    assert "The squares are []." in toy.report.read_text("utf-8")


def test_truncated_last_line_is_done_again(toy):
    toy()
    whole = toy.store.read_text("utf-8")
    toy.store.write_text(whole[:-20], "utf-8")
    assert toy() == ["2"]
    assert "[0, 1, 4]" in toy.report.read_text("utf-8")
    assert toy() == []  # the line after the truncated one is whole


def test_changed_code_starts_anew_unless_told_to_reuse(toy):
    toy(splits=1)
    assert toy(splits=1, change="    # a comment changes nothing\n") == []
    changed = "    split = 10 + split\n"
    assert toy(splits=1, change=changed, reuse=True) == []
    assert "[0]" in toy.report.read_text("utf-8")
    assert toy(splits=1, change=changed) == ["0"]
    assert "[100]" in toy.report.read_text("utf-8")
    codes = [json.loads(line)["code"] for line in toy.store.read_text("utf-8").splitlines()]
    assert len(set(codes)) == 2


def test_failing_job_loses_nothing_already_finished(toy):
    with pytest.raises(ValueError, match="split 2 fails"):
        toy(fails=2)
    assert toy.log.read_text().split() == ["0", "1", "2"]
    assert [json.loads(line)["job"]["split"] for line in toy.store.open()] == [0, 1]
    assert not toy.report.exists()
    with pytest.raises(ValueError, match="split 2 fails"):
        toy(fails=2)
    assert toy.log.read_text().split() == ["2"]


def test_summary_and_table(toy):
    # after the fixture, which puts the folder on the path
    from reproduce.protocol import Summary
    from reproduce.report import Published, table, verdict

    assert str(Summary([0.5, 0.7])) == "60.00 ± 10.00"
    assert str(Summary([0.5])) == "50.00"
    assert verdict(Summary([0.5, 0.7]), Published(95.0, 1.0)).startswith("**-3.5")
    assert verdict(Summary([0.5]), Published(49.0)) == "+1.0 points"
    assert table(["a", "b"], [[1, None]]) == "| a | b |\n|---|---|\n| 1 |  |"


def test_unknown_name(command):
    code, printed = command("table-of-contents")
    assert code == 2
    assert "unknown experiment: table-of-contents" in printed


def test_help_lists_all_experiments(command):
    from reproduce import catalogue

    code, printed = command("--help")
    assert code == 0
    for name, experiment in catalogue.experiments().items():
        assert name == experiment.name
        assert f"  {name} " in printed


def toy_rows(name, rng):
    """Digits or flowers to the eye of an experiment: three classes that overlap a little."""
    n_columns = 256 if name == "usps9298" else 4
    y = np.arange(45) % 3
    X = rng.standard_normal((45, n_columns)) + 2.0 * rng.standard_normal((3, n_columns))[y]
    return X, y


@pytest.mark.parametrize(
    ("name", "jobs"),
    [
        ("tarlow-uci", {"data": ["iris"], "k": [1, 3]}),
        ("tarlow-figure-3", {"k": [1, 3]}),
        ("tarlow-figure-4", {"k": [1, 5], "noise": [0.0, 0.5]}),
        ("tarlow-figure-5", {"k": [1, 10], "pixels": ["8 x 8"], "start": [0, 1]}),
    ],
)
def test_tarlow(toy, name, jobs, rng, monkeypatch, tmp_path):
    from reproduce import catalogue

    experiment = catalogue.experiments()[name]
    rows = toy_rows("usps9298" if name.endswith(("4", "5")) else "iris", rng)
    monkeypatch.setattr(sys.modules[experiment.work.__module__], "stored", lambda name: rows)
    check_small(experiment, jobs, tmp_path)
    assert (tmp_path / f"{name}.png").exists()


def check_small(experiment, jobs, folder):
    """Two splits of some jobs; their results as the store keeps them, and a whole report."""
    from reproduce.experiment import Done

    chosen = [
        job for job in experiment.jobs(2) if all(job[key] in some for key, some in jobs.items())
    ]
    assert len({job["split"] for job in chosen}) == 2
    with warnings.catch_warnings():  # few rows, few iterations: the runner ignores them, too
        warnings.simplefilter("ignore")
        results = [experiment.work(**job) for job in chosen]
    done = [
        Done(json.loads(json.dumps(job)), json.loads(json.dumps(result)), 1.0)
        for job, result in zip(chosen, results, strict=True)
    ]
    text = experiment.report(done, folder)
    assert not re.search(r"\bnan\b|None", text)
    blocks = re.findall(r"(?:^\|.*\|\n)+", text + "\n", re.M)
    assert blocks
    for block in blocks:
        assert len({line.count("|") for line in block.splitlines()}) == 1
    assert "## Protocol and assumptions" in text
    assert experiment.report(done[:1], folder)  # what is there already
    assert experiment.report([], folder) == "Not run yet."
    return text


@pytest.mark.parametrize(
    ("name", "jobs"),
    [
        ("olsen-petersen-table-1", {"scaling": ["raw", "rows / sum", "z-scored"]}),
        ("olsen-petersen-table-2", {"rank": [10, 800]}),
        ("olsen-petersen-starts", {"rank": [10], "seed": [0]}),
        ("olsen-petersen-figure-2", {"rate": [10.0, "own"]}),
        ("olsen-petersen-figure-3", {"mu": [0.1, 1.0], "share": ["auto", 0.05, 0.4]}),
    ],
)
def test_olsen_petersen(toy, name, jobs, rng, monkeypatch, tmp_path):
    from reproduce import catalogue

    experiment = catalogue.experiments()[name]
    y = np.arange(60) % 3
    X = rng.poisson(12.0 * rng.dirichlet(np.ones(12), 3)[y]) + 0.5
    monkeypatch.setattr(sys.modules[experiment.work.__module__], "stored", lambda name: (X, y))
    # 12 bins, so that r = 10 is a reduction and r = 800 none
    text = check_small(experiment, jobs, tmp_path)
    assert (tmp_path / f"{name}.png").exists() == ("figure" in name)
    assert ("reached" in text) == ("table" in name)


def test_gains_are_paired_and_judged(toy):
    from reproduce.experiment import Done
    from reproduce.olsen_scores import Scores, gain_words, judged
    from reproduce.protocol import Summary

    pairs = [(0.8, 0.7), (0.9, 0.8), (0.7, 0.58)]
    done = [
        Done({"rank": 10, "split": i}, {"scores": {"a": a, "b": b}}, 1.0)
        for i, (a, b) in enumerate(pairs)
    ]
    alone = Done({"rank": 10, "split": 3}, {"scores": {"a": 0.0}}, 1.0)  # without a partner
    gain = Scores([*done, alone], "rank").gain(10, "a", 10, "b")
    assert (str(gain), gain.splits) == ("+10.7 ± 0.7", 3)
    assert gain_words(gain, 5.3) == "+10.7 ± 0.7 (report +5.3: reached, clearly)"
    assert judged(gain, 10.0) == "reached, within two errors"
    assert judged(gain, 11.0) == "not reached, within two errors"
    assert judged(gain, 20.0) == "**not reached**"
    assert judged(Summary([0.5]), 50.1) == "not reached"
    assert Scores(done, "rank").gain(20, "a", 10, "b") is None


def test_rows_of_olsen_petersen(toy, rng):
    from reproduce.olsen_common import folds, prepared, typical_distance
    from reproduce.olsen_wine import scaled

    X, y = rng.random((40, 4)) + 0.1, np.arange(40) % 2
    tests = [folds(y, split)[1] for split in range(5)]
    assert sorted(np.concatenate(tests)) == list(range(40))
    assert not np.array_equal(folds(y, 0)[1], folds(y, 5)[1])
    train = folds(y, 0)[0]
    np.testing.assert_allclose(np.linalg.norm(prepared(X, "unit", train), axis=1), 1.0)
    np.testing.assert_allclose(np.linalg.norm(prepared(X, "root", train), axis=1), 1.0)
    np.testing.assert_allclose(prepared(X, "z", train)[train].std(axis=0), 1.0)
    for how in ("rows / sum", "[0, 1], rows / sum", "pairs"):
        H = scaled(X, how, train)
        assert H.min() >= 0
        np.testing.assert_allclose(H.sum(axis=1), 1.0)
    # 0.5 (0.5 - 0.1)² / 0.6 · 2 between the rows of class 0, more between others
    H = np.array([[0.5, 0.5], [0.1, 0.9], [0.9, 0.1], [0.0, 1.0]])
    distances = [0.5 * (0.16 / 0.6 + 0.16 / 1.4), 0.5 * (0.81 / 0.9 + 0.81 / 1.1)]
    assert typical_distance(H, np.array([0, 0, 1, 1])) == pytest.approx(np.mean(distances))


def test_lmnn_on_large_sets(toy, rng, monkeypatch, tmp_path):
    from reproduce import catalogue, lmnn_large, protocol
    from reproduce.experiment import Done

    X, y = toy_rows("iris", rng)
    monkeypatch.setattr(protocol, "data", lambda name: (X, y))
    monkeypatch.setattr(protocol, "official", lambda name: (np.arange(36), np.arange(36, 45)))
    monkeypatch.setattr(lmnn_large, "RANKS", {"usps9298": (2,), "mnist": (2, 3)})
    monkeypatch.setattr(lmnn_large, "CHOSEN", {"usps9298": 1.0, "mnist": 3.0})
    monkeypatch.setattr(lmnn_large, "HELD_OUT", {"usps9298": None, "mnist": (18, 10)})
    monkeypatch.setattr(lmnn_large, "MUS", (1.0, 3.0))
    for data in ("usps9298", "mnist"):  # no test row has a part in a choice
        *_, learn, judge = lmnn_large.rows(data, "held out", 0)
        assert max(*learn, *judge) < 36
        assert not set(learn) & set(judge)
    experiment = catalogue.experiments()["lmnn-large"]
    chosen = list(experiment.jobs(None))
    assert [job["mu"] for job in chosen if job["method"] == "LMNN" and job["kind"] == "test"] == [
        1.0, 1.0, 3.0, 1.0, 3.0,
    ]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = [experiment.work(**job) for job in chosen]
    for job, result in zip(chosen, results, strict=True):
        assert result["3-NN"] > 0.5
        if job["method"] == "LMNN":
            steps = result["steps"]["value and gradient of the loss"]
            assert 0.0 < steps <= result["core seconds"]
            assert result["steps"]["search for targets"] > 0.0
    done = [
        Done(json.loads(json.dumps(job)), json.loads(json.dumps(result)), 1.0)
        for job, result in zip(chosen, results, strict=True)
    ]
    text = experiment.report(done, tmp_path)
    assert not re.search(r"\bnan\b|None", text)
    for block in re.findall(r"(?:^\|.*\|\n)+", text + "\n", re.M):
        assert len({line.count("|") for line in block.splitlines()}) == 1
    assert text.count("| LMNN, μ = 3 |") == 4  # two ranks, in two tables
    assert experiment.report(done[:1], tmp_path)
    assert experiment.report([], tmp_path) == "Not run yet."


def test_votes_of_many_k_at_once(toy):
    from reproduce.tarlow_common import accuracies, leave_one_out

    Z = np.array([[0.0], [1.0], [1.9], [4.0], [8.0]])
    y = np.array(["a", "b", "b", "a", "a"])
    # from 0.2: a, b, b, a, a; the vote is a, a (the nearer of a tie), b, a (again), a
    assert accuracies(Z, y, [[0.2]], ["a"], range(1, 6)) == [1.0, 1.0, 0.0, 1.0, 1.0]
    assert accuracies(Z, y, [[0.2]], ["a"], [9]) == [1.0]  # all of them vote
    # themselves left out, 1-NN votes b b b b a
    assert leave_one_out(Z, y, y, [1]) == [0.6]
    assert leave_one_out(Z, y, ["b"] * 5, [1]) == [0.8]


def test_some_labels_are_drawn_anew(toy):
    from reproduce.tarlow_figure4 import resampled

    y = np.arange(1000) % 10
    assert (resampled(y, 0.0, 0) == y).all()
    labels = resampled(y, 0.5, 0)
    assert 0.35 < np.mean(labels != y) < 0.5  # a tenth of them stays
    assert (labels == resampled(y, 0.5, 0)).all()
    assert (labels != resampled(y, 0.5, 1)).any()
