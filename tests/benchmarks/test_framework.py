"""The framework of the reproductions on a toy experiment: runs, numbers, pages, command line."""

import json
import re
import sys

import pytest
from benchmarks_common import FOLDER

pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="not shipped in wheels")


@pytest.fixture
def command(monkeypatch, capsys):
    """The command line: exit code and what it printed."""
    from reproduce.__main__ import main

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["reproduce", *arguments])
        try:
            code = main()
        except SystemExit as exit:
            code = exit.code
        return code, "".join(capsys.readouterr())

    return run


def test_second_run_does_no_work(toy):
    assert toy(processes=True) == ["0", "1", "2"]
    first = toy.report.read_text("utf-8")
    assert first.startswith("# A toy\n\n*Computed with the library of commit `")
    assert (
        "The squares [0, 1, 4] are found. They grow.\n\n---\n" in first
    )  # no gap for an empty part
    assert "`python benchmarks/reproduce toy`, 3 jobs" in first
    assert toy.report.with_name("toy.png").read_text() == "3"
    toy.report.unlink()
    assert toy() == []
    assert toy.report.read_text("utf-8") == first


def test_pages_are_rendered_from_the_rows(toy):
    from reproduce.framework import numbers, runner

    toy()
    header, first, *_ = toy.csv.read_text("utf-8").splitlines()
    assert header == "kind,commit,seconds,processor,data,split,log,|,square,words,curve"
    assert first.startswith("row,")
    assert first.endswith(',|,0,"a, b","[0.5,0]"')
    found = numbers.read(toy.csv)
    assert [each.result["square"] for each in found.done] == [0, 1, 4]
    assert found.done[1].job == list(toy.make().jobs(None))[1]
    assert not runner.render(toy.make(), toy.report.parent)
    toy.csv.write_text(toy.csv.read_text("utf-8").replace(",|,4,", ",|,9,"))
    assert runner.render(toy.make(), toy.report.parent)
    assert "The squares [0, 1, 9] are found." in toy.report.read_text("utf-8")


def test_strings_that_look_like_numbers(toy, tmp_path):
    from reproduce.framework.experiment import Done
    from reproduce.framework.numbers import read, write_rows

    job = {"rank": "2", "d": 2, "start": "auto", "alpha": None, "name": ""}
    result = {"score": 1 / 3, "scores": {"a, b": [0.1, 2]}, "flag": True}
    path = tmp_path / "rows.csv"
    done = [Done(job, result, 1.0, "abc"), Done({"rank": "3"}, {"other": float("nan")}, 2.0, "abc")]
    write_rows(path, toy.make(), done)
    first, second = read(path).done
    assert first.job == job
    assert first.result == {**result, "score": 0.33333333}
    assert second.job == {"rank": "3"}
    assert list(second.result) == ["other"]


def test_the_index_has_an_order(toy):
    from reproduce.framework import catalogue, index

    experiments = list(catalogue.experiments().values())
    toy(splits=1)
    for name in ("oneata-table-5.10", "oneata-table-5.9", "goldberger-figure-2", "defaults"):
        toy.report.with_name(f"{name}.md").write_text("A page without numbers")
    index.write_index([*experiments, toy.make()], toy.report.parent)
    text = toy.report.with_name("README.md").read_text("utf-8")
    found = re.findall(r"\[(.*?)\]\(.*?\.md\) \|$", text, re.M)
    assert found == [
        "goldberger-figure-2", "oneata-table-5.9", "oneata-table-5.10", "toy", "defaults",
    ]  # fmt: skip
    assert "[Oneață (2011)](#oneata) · " in text
    assert '<a id="oneata"></a>' in text
    assert "## Others\n\n| claim | seen? | our figure ± error | page |\n" in text
    assert "| squares grow | seen | 1 of 3 | [toy](toy.md) |" in text
    assert "Of all 1 claims of the papers, 1 are seen" in text


def test_signs_and_decimals_of_printed_figures():
    from reproduce.framework.statistics import Published, with_minus

    words = "d = 2: -0.6 ± 0.2 (5-NN), 1e-3, figures 5.3-5.4, −1, -0.0 ± 0.1, -0.05"
    told = "d = 2: −0.6 ± 0.2 (5-NN), 1e-3, figures 5.3-5.4, −1, 0.0 ± 0.1, −0.05"
    assert with_minus(words) == told
    assert str(Published(94.0, 1.0)) == "94.0 ± 1.0"
    assert str(Published(92.55, 0.7)) == "92.55 ± 0.7"
    assert str(Published(90)) == "90.0"


def test_a_line_of_the_index_stays_short(toy):
    from dataclasses import replace

    from reproduce.framework import index
    from reproduce.framework.experiment import Claim

    toy()
    for claim in (
        Claim("a" * 111, "seen", "1"),
        Claim("a", "seen", "1" * 83),
        Claim("a", "so", ""),
    ):
        wrong = replace(toy.make(), claims=lambda done, claim=claim: [claim])
        with pytest.raises(ValueError, match="toy: "):
            index.write_index([wrong], toy.report.parent)


def test_fewer_splits_and_other_sets(toy):
    assert toy(splits=1) == ["0"]
    assert toy(splits=2) == ["1"]
    before = toy.report.read_text("utf-8")
    assert toy(sets=["other"]) == []
    assert toy.report.read_text("utf-8") == before  # nothing done, nothing written


def test_a_look_at_some_jobs_leaves_the_results_alone(toy, tmp_path, monkeypatch):
    from reproduce.framework import runner

    monkeypatch.setattr(runner, "RESULTS", tmp_path / "results")
    toy(splits=1, output=None)
    assert toy.folder == tmp_path / "store" / "looks"
    assert (toy.folder / "toy.md").exists()
    toy(output=None)
    assert toy.folder == tmp_path / "results"


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
        toy(fails=2, processes=True)
    assert toy.log.read_text().split() == ["0", "1", "2"]
    assert [json.loads(line)["job"]["split"] for line in toy.store.open()] == [0, 1]
    assert not toy.report.exists()
    with pytest.raises(ValueError, match="split 2 fails"):
        toy(fails=2)
    assert toy.log.read_text().split() == ["2"]


def test_summary_and_table():
    from reproduce.framework.pages import table
    from reproduce.framework.statistics import Published, Summary, verdict

    assert str(Summary([0.5, 0.7])) == "60.00 ± 10.00"
    assert str(Summary([0.5])) == "50.00"
    assert verdict(Summary([0.5, 0.7]), Published(95.0, 1.0)).startswith("**-3.5")
    assert verdict(Summary([0.5]), Published(49.0)) == "+1.0 points"
    assert table(["a", "b"], [[1, None]]) == "| a | b |\n|---|---|\n| 1 |  |"


def test_unknown_name(command):
    code, printed = command("table-of-contents")
    assert code == 2
    assert "unknown experiment: table-of-contents" in printed
    code, printed = command()
    assert code == 2
    assert "name an experiment" in printed


def test_list_and_help_name_all_experiments(command):
    from reproduce.framework import catalogue

    for option in ("--list", "--help"):
        code, printed = command(option)
        assert code == 0
        for name, experiment in catalogue.experiments().items():
            assert name == experiment.name
            assert f"  {name} " in printed


def test_a_busy_machine_is_called_one():
    from reproduce.framework.experiment import Done
    from reproduce.framework.machine import cores_and_others, machine_words

    found = cores_and_others()
    assert found["cores"] >= 1
    assert found["busy cores"] >= 0

    def words(*busy):
        return machine_words([Done({}, {"cores": 2, "busy cores": each}, 1.0) for each in busy])

    assert words(0.0, 0.04) == (
        "The machine has 2 cores; other programs used at most 0.04 of them when a job began."
    )
    assert "the times are too long" in words(0.0, 1.1)
    assert "not known" in machine_words([Done({}, {}, 1.0)])
