"""The page of tables_accuracy.py: who is ahead, on which splits, and which goals are reached."""

import pytest
from benchmarks_common import FOLDER

pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="not shipped in wheels")


def line(table, split, method, score, n=500, columns=4, gaps=0):
    return {
        "table": table, "task": "classes", "split": str(split), "method": method,
        "score": str(score), "n_train": str(n), "columns": str(columns), "gaps": str(gaps),
        "fit": "1.0", "predict": "0.1", "note": "",
    }  # fmt: skip


def lines():
    found = []
    for table, vote, forest in (("a", 0.80, 0.75), ("b", 0.90, 0.905), ("c", 0.70, 0.69)):
        for split in (0, 1):
            found.append(line(table, split, "vote", vote + split / 100))
            found.append(line(table, split, "forest", forest + split / 100))
    # a split that the vote does not have, and a method with one table only
    return [*found, line("a", 2, "forest", 0.0), line("a", 0, "nca", 0.7)]


def test_scores_of_the_splits_that_all_have():
    import _tables_page as pages

    scores = pages.collect(lines(), "classes")
    assert scores.tables == ["a", "b", "c"]
    assert scores.mean("forest", "a") == pytest.approx(75.5)
    assert scores.covers("nca") == []
    assert pages._decided(scores, "forest", scores.tables) == (2, 1)
    mean, error, median = pages._ahead(scores, "forest", scores.tables)
    assert (mean, median) == (pytest.approx(5.5 / 3), pytest.approx(1.0))
    assert error == pytest.approx(1.641, abs=1e-3)


def test_goals_and_groups_are_told():
    import _tables_page as pages

    told = pages.page(lines(), "# Head")
    assert "ahead of forest, with twice as many wins as losses: +1.83 ± 1.64 points, 2 wins, " \
           "1 losses: **reached**" in told  # fmt: skip
    assert "| the rest | 3 | 80.5 | 78.7 |" in told
    few = pages.page([line("a", 0, m, s, n=20) for m, s in (("vote", 0.5), ("SVM", 0.6))], "")
    assert "fewer than 200 rows to learn from (1): SVM 60.0, vote 50.0: **missed**" in few
    assert "| a column for every ten rows, or more | 1 |" in few


def test_times_of_made_tables_do_not_count_as_scores():
    import _tables_page as pages

    told = pages.page([*lines(), line("made-1000x20", 0, "vote", 0.1, n=1000, columns=20)], "")
    assert "## 3 tables of classes" in told
    assert "| 1,000 × 20 | classes | vote | 1 | 0.1 |" in told
