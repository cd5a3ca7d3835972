"""The figures of speed in the documentation are those of the reports."""

import re
import statistics

import pytest
from benchmarks_common import FOLDER
from quote_speed import QUOTES, exact_nca, methods, quoted, rows_of_table, with_quote

ROOT = FOLDER.parent
RESULTS = FOLDER / "results"
PAGES = sorted(path.name for path in RESULTS.glob("*.md"))
#: without times, or with times of the processor: other programs may have run
OF_A_BUSY_MACHINE = {
    "accuracy_before_after.md", "dask_memory.md", "defaults_accuracy.md", "house_speed.md",
    "ksne_small.md", "newcomer.md", "regressors.md", "skrub_tables.md", "tables_accuracy.md",
}  # fmt: skip

pytestmark = pytest.mark.skipif(not RESULTS.exists(), reason="not shipped in wheels")


def read(name):
    return (RESULTS / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", QUOTES)
def test_pages_quote_the_reports(page):
    """If this fails, a report has changed: run benchmarks/quote_speed.py."""
    text = (ROOT / page).read_text(encoding="utf-8")
    assert with_quote(text, QUOTES[page][0], quoted(page)) == text


REPORT = """\
| method | work | library | seconds | ratio | processor | memory | n | result | by |
|---|---|---|---|---|---|---|---|---|---|
| LMNN | digits | vicinal | 1.00 s | 1 | 2.00 s | 3 MiB | 7 | 99 % | 3-NN |
|  |  | A | 9.00 s | 9.0× | 9.00 s | 70 MiB | – | 98 % |  |
|  |  | B | over 90 s | – | – | – | – | – |  |
| MCML | digits | vicinal | 2.00 s | 1 | 2.00 s | < 1 MiB | 7 | 99 % | 3-NN |
| KSNE | mnist | vicinal | 2.00 s | 1 | 2.00 s | < 1 MiB | 7 | 0.9 | trust |
|  |  | vicinal, k = 5 | 1.00 s | 0.5× | 9.00 s | 70 MiB | – | 0.9 |  |
|  |  | C | 40.0 s | 20× | 9.00 s | 70 MiB | – | 0.9 |  |
|  |  | D | 1.80 s | 0.9× | 9.00 s | 70 MiB | – | 0.9 |  |
"""


def test_exact_nca_in_a_phrase():
    """By the pieces of work in two dimensions; the memory is that of the larger table."""
    rows = [
        "| NCA | 9 × 9 → 2, 5 iterations | vicinal | 1 s | 1 | 1 s | 3 MiB | 5 | 1 | a |",
        "|  |  | scikit-learn | 20.4 s | 20.4× | 1 s | 105 MiB | 5 | 1 |  |",
        "| NCA | 99 × 9 → 2, 5 iterations | vicinal | 1 s | 1 | 1 s | 4 MiB | 5 | 1 | a |",
        "|  |  | scikit-learn | 40.1 s | 40.1× | 1 s | 1,205 MiB | 5 | 1 |  |",
        "| NCA | 9 × 9, square | vicinal | 1 s | 1 | 1 s | 3 MiB | 5 | 1 | a |",
        "|  |  | scikit-learn | 2.4 s | 2.4× | 1 s | 105 MiB | 5 | 1 |  |",
    ]
    words = "20 to 40 times as fast as scikit-learn's, in 4 MiB where it takes 1,205 MiB"
    assert exact_nca("\n".join(REPORT.splitlines()[:2] + rows) + "\n") == words


def test_a_quote_names_who_did_not_end():
    assert methods(REPORT).splitlines()[2:4] == [
        "| LMNN | digits | 1.00 s, 3 MiB | A: 9.00 s (9.0×), 70 MiB; B: over 90 s |",
        "| MCML | digits | 2.00 s, < 1 MiB | – |",
    ]


def test_figures_of_a_busy_machine_are_not_quoted(tmp_path):
    folder = tmp_path / "benchmarks/results"
    folder.mkdir(parents=True)
    head = "- library of commit `abc`; other programs kept {} of 2 cores busy at the start\n\n"
    (folder / "methods_speed.md").write_text(head.format("1.50") + REPORT, encoding="utf-8")
    assert quoted("docs/comparison.md", tmp_path) == "*To be measured on an idle machine.*"
    (folder / "methods_speed.md").write_text(head.format("0.02") + REPORT, encoding="utf-8")
    assert "9.00 s (9.0×)" in quoted("docs/comparison.md", tmp_path)


def test_a_page_without_marks_is_refused():
    with pytest.raises(ValueError, match=r"must have .<!-- from"):
        with_quote("text", "a.md", "| a |")


@pytest.mark.parametrize("name", PAGES)
def test_pages_name_commit_and_processor(name):
    assert re.search(r"`[0-9a-f]{7,10}(-dirty)?`", read(name)), "no commit"
    assert re.search(r"AMD EPYC|Intel|NVIDIA", read(name)), "no processor"


@pytest.mark.parametrize("name", sorted(set(PAGES) - OF_A_BUSY_MACHINE))
def test_times_are_of_an_idle_machine(name):
    """If this fails, run benchmarks/all_speed.py on an idle machine."""
    words = r"^- library of commit `(\w+)`; other programs kept (\d\.\d+) of \d+ cores busy"
    facts = re.search(words, read(name), re.M)
    assert facts, "the report names neither commit nor load"
    assert float(facts[2]) < 0.3


def ratios(name, method):
    """How many times vicinal's seconds each other library takes for a method."""
    found, here = [], False
    for row in rows_of_table(read(name))[1:]:
        here = row[0].startswith(method) if row[0] else here
        if here and row[4].endswith("×"):
            found.append(float(row[4][:-1]))
    return found


def test_lmnn_is_faster_than_others():
    """docs/comparison.md says so."""
    found = ratios("methods_speed.md", "LMNN")
    assert found
    assert min(found) > 1


def test_ktsne_is_faster_than_opentsne_on_large_tables():
    """docs/comparison.md says so."""
    words = r"([\d,]+) rows: openTSNE takes ([\d.]+) times as long"
    found = re.findall(words, read("ksne_speed.md"))
    large = [float(ratio) for rows, ratio in found if int(rows.replace(",", "")) >= 20_000]
    assert large
    assert min(large) > 1


def test_cost_of_knca():
    """docs/howto/votes.md: a few times as long as NCA at k = 5, and longer with larger k."""
    header, *rows = rows_of_table(read("knca_speed.md"))
    five, fifteen = (
        statistics.median(float(row[header.index(f"k = {k}")].strip("*")) for row in rows)
        for k in (5, 15)
    )
    assert 2 < five < 5
    assert fifteen > 1.5 * five


def test_the_readme_has_the_leads_over_forests():
    found = re.findall(r"ahead of forest,.*: \+([\d.]+) ± ([\d.]+)", read("tables_accuracy.md"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(found) == 2  # classes and numbers
    for lead, error in found:
        assert f"{float(lead):.1f} ± {float(error):.1f} points" in readme
