"""Every page in docs/results is what its numbers say; check-results finds a wrong number."""

import re
import sys

import pytest
from benchmarks_common import FOLDER

RESULTS = FOLDER.parent / "docs" / "results"

pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="not shipped in wheels")


def experiments():
    if not FOLDER.exists():
        return {}
    from reproduce.framework import catalogue

    return catalogue.experiments()


@pytest.mark.parametrize("name", sorted(experiments()))
def test_pages_are_up_to_date(name):
    from reproduce.framework import numbers, pages

    experiment = experiments()[name]
    text = pages.render(experiment, RESULTS)
    assert (RESULTS / f"{name}.md").read_text("utf-8") == text, "make reproduce ARGS=--render"
    found = numbers.read(RESULTS / "data" / f"{name}.csv")
    (commit,) = found.commits  # of one code, not a mixture
    assert f"`{commit}`" in text.split("\n\n")[1]
    assert not pages.places(text)


def test_every_page_has_an_experiment_and_numbers(tmp_path):
    from reproduce.framework import index

    names = {path.stem for path in RESULTS.glob("*.md")} - {"README"}
    assert names == set(experiments())
    assert names == {path.stem for path in (RESULTS / "data").glob("*.csv")}
    before = (RESULTS / "README.md").read_text("utf-8")
    for path in RESULTS.glob("*.md"):
        (tmp_path / path.name).write_text(path.read_text("utf-8"), "utf-8")
    (tmp_path / "data").symlink_to(RESULTS / "data")
    index.write_index(experiments().values(), tmp_path)
    assert (tmp_path / "README.md").read_text("utf-8") == before


def test_the_readme_has_the_headline_of_the_index():
    index = (RESULTS / "README.md").read_text("utf-8")
    (headline,) = re.findall(r"^\*\*(Of .*? are reached):", index, re.M)
    readme = (FOLDER.parent / "README.md").read_text("utf-8")
    assert f"[{headline}](docs/results/README.md)" in readme


def documents():
    if not FOLDER.exists():
        return []
    from reproduce.framework import quotes

    return [
        path for path in quotes.documents(FOLDER.parent) if "<!---->" in path.read_text("utf-8")
    ]


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.name)
def test_quoted_numbers_are_those_of_the_pages(path):
    from reproduce.framework import quotes

    text = path.read_text("utf-8")
    filled = quotes.fill_quotes(text, experiments().values(), RESULTS)
    assert filled == text, "make reproduce ARGS=--render"


def test_quotes_are_filled_in_and_wrong_names_are_told(toy):
    from reproduce.framework.quotes import fill_quotes

    toy()

    def fill(text):
        return fill_quotes(text, [toy.make()], toy.report.parent)

    assert fill("as <!--toy:squares-->[9]<!----> shows") == (
        "as <!--toy:squares-->[0, 1, 4]<!----> shows"
    )
    assert fill("<!--toy:claim_1-->?<!---->") == "<!--toy:claim_1-->3 of 3<!---->"
    with pytest.raises(ValueError, match="page 'top', which does not exist"):
        fill("<!--top:squares-->1<!---->")
    with pytest.raises(ValueError, match="'cubes', which is not a part of the page toy"):
        fill("<!--toy:cubes-->1<!---->")


def test_every_template_is_used():
    used = {experiment.page for experiment in experiments().values()}
    assert used == set((FOLDER / "reproduce").glob("*/pages/*.md"))


def test_check_results_finds_a_planted_number(toy, monkeypatch, capsys):
    from reproduce import __main__
    from reproduce.framework import catalogue

    toy()
    monkeypatch.setattr(catalogue, "experiments", lambda: {"toy": toy.make()})
    check = ["reproduce", "--check", "--output", str(toy.report.parent)]
    monkeypatch.setattr(sys, "argv", check)
    assert __main__.main() == 0
    assert "| jobs: 3 | holds |" in capsys.readouterr().out
    toy.csv.write_text(toy.csv.read_text("utf-8").replace(",|,4,", ",|,5,"))
    assert __main__.main() == 1
    printed = capsys.readouterr().out
    assert "| jobs: 3 | no longer holds |" in printed
    assert "square is 4, was 5" in printed


def test_check_results_compares_numbers_of_one_processor(toy):
    from _common import processor_name
    from reproduce.framework import check, numbers

    toy()
    folder = toy.report.parent
    assert f" on {processor_name()} ([data/toy.csv]" in toy.report.read_text("utf-8")
    assert check.check(toy.make(), folder, seed=0, seconds=60.0).outcome == "holds"
    done = [each._replace(processor="Another one") for each in numbers.read(toy.csv).done]
    numbers.write_rows(toy.csv, toy.make(), done)
    found = check.check(toy.make(), folder, seed=0, seconds=60.0)
    assert found.outcome == "not checkable: computed on Another one"


def test_files_that_name_no_processor_are_read_and_checked(toy):
    from reproduce.framework import check, numbers

    toy()
    lines = [line.split(",") for line in toy.csv.read_text("utf-8").splitlines()]
    toy.csv.write_text("\n".join(",".join(line[:3] + line[4:]) for line in lines) + "\n")
    assert [each.result["square"] for each in numbers.read(toy.csv).done] == [0, 1, 4]
    assert numbers.read(toy.csv).processors == [""]
    assert check.check(toy.make(), toy.report.parent, 0, 60.0).outcome == "holds"


def test_check_results_takes_no_longer_than_asked(toy):
    from reproduce.framework import check

    toy()
    slow = toy.make(change="    import time; time.sleep(60)\n")
    found = check.check(slow, toy.report.parent, seed=0, seconds=3.0)
    assert found.outcome == "not checkable: no job ended within 3 s"


def test_check_results_names_a_job_that_fails(toy):
    from reproduce.framework import check

    toy()
    broken = toy.make(change="    raise ValueError('gone')\n")
    found = check.check(broken, toy.report.parent, seed=0, seconds=60.0)
    assert found.outcome == "no longer holds"
    assert found.details[0].startswith("toy fails on {")


def test_rows_are_compared_number_by_number():
    from reproduce.framework.check import compare_rows
    from reproduce.framework.experiment import Done

    old = {"score": 0.9, "curve": [1.0, 2.0], "core seconds": 5.0, "nothing": float("nan")}
    new = {"score": 0.901, "curve": [1.0, 2.01], "core seconds": 50.0, "nothing": float("nan")}
    small = {"scores": {"long steps": 0.8}, "in range": 0.002}
    old, new = old | small, new | small
    committed = [Done({"split": 0}, old, 1.0), Done({"split": 1}, old, 1.0)]
    assert compare_rows(committed, [Done({"split": 1}, new, 1.0)]) == []
    wrong = {**new, "score": 0.91, "curve": [1.0], "scores": {"long steps": 0.7}, "in range": 0.003}
    assert compare_rows(committed, [Done({"split": 1}, wrong, 1.0)]) == [
        "{'split': 1}: score is 0.91, was 0.9",
        "{'split': 1}: curve, 1 is None, was 2.0",
        "{'split': 1}: scores, long steps is 0.7, was 0.8",
        "{'split': 1}: in range is 0.003, was 0.002",
    ]
