"""The splits of the tables with classes, and the page about maps from numbers made up."""

import numpy as np
import pytest
from benchmarks_common import FOLDER

pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="not shipped in wheels")


@pytest.mark.parametrize("counts", [(100, 60, 40), (143, 77, 2, 2, 35), (50, 50, 3), (50, 50, 1)])
def test_splits_are_disjoint_and_stratified(counts):
    from reproduce.own.classification_tables import split_rows

    y = np.random.RandomState(0).permutation(np.repeat(np.arange(len(counts)), counts))
    split = split_rows(y, 3)
    np.testing.assert_array_equal(np.sort(np.concatenate(split)), np.arange(len(y)))
    np.testing.assert_array_equal(split.train, np.sort(np.concatenate(split[:2])))
    for rows, share in zip(split, (0.64, 0.16, 0.2), strict=True):
        large = np.array(counts) >= 5
        found = np.bincount(y[rows], minlength=len(counts))[large]
        np.testing.assert_allclose(found, share * np.array(counts)[large], atol=2.0)
    assert not np.array_equal(split.test, split_rows(y, 4).test)


def made_up(ours, peers):
    """Jobs of two tables and two splits, with these accuracies; the inner ones favour periodic."""
    from reproduce.framework.experiment import Done
    from reproduce.own.maps_report import AVERAGE, OURS
    from reproduce.own.table_peers import NAMES

    def done(titles, values):
        for data in ("iris", "wine"):
            for split in (0, 1):
                found = {name: values.get(name, 0.8) + 0.01 * split for name in titles}
                found |= {f"inner of {name}": 0.7 for name in titles} | {"inner of periodic": 0.9}
                found |= {f"cpu of {name}": 1.5 for name in titles}
                found |= {f"chosen of {name}": 2 for name in titles}
                yield Done({"data": data, "split": split}, found, 1.0, "abc")

    return list(done((*OURS, AVERAGE), ours)), list(done(NAMES, peers))


@pytest.mark.parametrize("periodic", [0.9, 0.84])
def test_page_of_maps_says_whether_the_goal_is_reached(periodic, monkeypatch):
    from reproduce.framework import pages
    from reproduce.framework.numbers import Numbers
    from reproduce.own import maps, maps_report

    done, peers = made_up({"periodic": periodic}, {"forest": 0.85, "k-NN": 0.99})
    monkeypatch.setattr(maps_report, "read", lambda path: Numbers(["cde"], peers))
    (experiment,) = maps.EXPERIMENTS
    parts = experiment.parts(done)
    template = experiment.page.read_text("utf-8")
    assert set(pages.places(template)) - {"facts"} <= set(parts)
    # k-NN is no goal; the map that is best on the inner rows is the chosen one
    ahead = "Ahead of it" if periodic > 0.85 else "None of ours is ahead of it on average"
    assert "The highest of the four peers is RandomForest with 85.5 ± 0.5. " in parts["finding"]
    assert ahead in parts["finding"]
    assert ("chosen inside" in parts["finding"].split(ahead)[1]) is (periodic > 0.85)
    assert f"chosen inside: {100 * (periodic - 0.85):+.1f} points" in parts["missed"]
    assert "| iris | 0 | 0 | 2 | 0 | 0 |" in parts["choices"]
    ahead = "2 / 0 / 0 (+4.0)" if periodic == 0.84 else "2 / 0 / 0 (+10.0)"
    assert f"| periodic | 0 / 0 / 2 ({100 * (periodic - 0.99):+.1f}) |" in parts["against"]
    assert ahead in parts["against"]
    assert "alpha 0.0001 (4)" in parts["taken"]
    assert "alpha 0.001, rate 0.01 (4)" in parts["taken"]


def test_the_page_has_a_column_for_each_peer_and_each_map():
    """A peer and a map of ours may have the same name."""
    from reproduce.own import maps_report, table_peers

    page = (FOLDER.parent / "docs" / "results" / "maps.md").read_text("utf-8")
    header = next(line for line in page.splitlines() if line.startswith("| table |"))
    titles = [*table_peers.NAMES.values(), *maps_report.OURS.values()]
    assert header.strip("| ").split(" | ")[1 : len(titles) + 1] == titles
