"""Every experiment on toy data: its smallest job runs, and its numbers fill its page."""

import json
import re
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from benchmarks_common import FOLDER
from common.checks import needs_callbacks
from sklearn.utils import Bunch

pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="not shipped in wheels")


#: jobs instead of the first, which cannot run on toy data: its compact kernel reaches none of so
#: few rows, or it asks PCA for more components than there are columns
OTHER = {
    "lmnn-columns": {"data": "olivetti"},
    "oneata-figure-5.5": {"start": "close"},
    "oneata-table-5.10": {"fit": "Gaussian kernel, otherwise as the thesis"},
}
#: pages with sections that one job leaves empty
PARTIAL = ("goldberger-figure-2", "nca-growth", "tarlow-figure-4")


def experiments():
    if not FOLDER.exists():
        return {}
    from reproduce.framework import catalogue

    return catalogue.experiments()


@pytest.fixture
def toy_data(rng, monkeypatch):
    """Few rows with as many columns as the experiments rely on, under the names of all sets."""
    from reproduce.framework import protocol

    def load(name):
        # rows, columns and classes; more rows than columns, so that no start separates all
        shapes = {"usps": (600, 256, 5), "usps9298": (600, 256, 5), "olivetti": (180, 4096, 18)}
        n, n_columns, n_classes = shapes.get(name, (60, 33 if name == "ionosphere" else 12, 3))
        y = np.arange(n) % n_classes
        X = (
            rng.standard_normal((n, n_columns))
            + 0.3 * rng.standard_normal((n_classes, n_columns))[y]
        )
        return Bunch(data=X - X.min(), target=y, is_train=np.arange(n) % 4 > 0)

    monkeypatch.setattr(protocol.datasets, "load", load)
    protocol.data.cache_clear()
    yield
    protocol.data.cache_clear()


def filled(experiment, jobs, results):
    """The page of some jobs, by way of the CSV file."""
    from reproduce.framework import pages
    from reproduce.framework.experiment import Done
    from reproduce.framework.numbers import read, write_rows

    done = [Done(json.loads(json.dumps(job)), json.loads(json.dumps(result)), 1.0, "abc")
            for job, result in zip(jobs, results, strict=True)]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        write_rows(path, experiment, done)
        rows = read(path).done
        parts = experiment.parts(rows)
        if experiment.claims is not None:
            assert all(claim.says and claim.figure for claim in experiment.claims(rows))
    template = experiment.page.read_text("utf-8")
    missing = set(pages.places(template)) - set(parts) - {"facts"}
    assert not missing or experiment.name in PARTIAL
    return pages.fill(template, parts)


@pytest.mark.long
@pytest.mark.parametrize("name", experiments())
def test_the_smallest_job_runs(name, toy_data, tmp_path):
    from reproduce.framework.experiment import Done

    experiment = experiments()[name]
    wanted = OTHER.get(name, {}).items()
    job = next(job for job in experiment.jobs(1) if wanted <= job.items())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = experiment.work(**job)
        assert result
        filled(experiment, [job], [result])
        if experiment.draw is not None:
            experiment.draw([Done(job, json.loads(json.dumps(result)), 1.0)], tmp_path)


def toy_rows(name, rng):
    """Digits or flowers to the eye of an experiment: three classes that overlap a little."""
    n_columns = 256 if name == "usps9298" else 4
    y = np.arange(45) % 3
    X = rng.standard_normal((45, n_columns)) + 2.0 * rng.standard_normal((3, n_columns))[y]
    return X, y


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "jobs"),
    [
        ("tarlow-uci", {"data": ["iris"], "k": [1, 5]}),
        ("tarlow-figure-3", {"k": [1, 3]}),
        ("tarlow-figure-4", {"k": [1, 5], "noise": [0.5], "setting": ["plane", "authors"]}),
        ("tarlow-figure-5", {"k": [1, 5], "variant": ["8 x 8", "8 x 8, authors' descent"]}),
    ],
)
def test_tarlow(name, jobs, rng, monkeypatch, tmp_path):
    experiment = experiments()[name]
    rows = toy_rows("usps9298" if name.endswith(("4", "5")) else "iris", rng)
    monkeypatch.setattr(sys.modules[experiment.work.__module__], "stored", lambda name: rows)
    check_small(experiment, jobs, tmp_path)
    assert (tmp_path / f"{name}.png").exists()


def check_small(experiment, jobs, folder):
    """Two splits of some jobs: whole tables, no gaps; and a page of what is there already."""
    chosen = [
        job for job in experiment.jobs(2) if all(job[key] in some for key, some in jobs.items())
    ]
    assert len({job["split"] for job in chosen}) == 2
    with warnings.catch_warnings():  # few rows, few iterations: the runner ignores them, too
        warnings.simplefilter("ignore")
        results = [experiment.work(**job) for job in chosen]
    text = filled(experiment, chosen, results)
    check_tables(text)
    assert "## Protocol and assumptions" in text
    assert filled(experiment, chosen[:1], results[:1])
    if experiment.draw is not None:
        from reproduce.framework.experiment import Done

        done = [Done(*each, 1.0) for each in zip(chosen, results, strict=True)]
        experiment.draw(done, folder)
    return text


def check_tables(text):
    assert not re.search(r"\bnan\b|None", text)
    blocks = re.findall(r"(?:^\|.*\|\n)+", text + "\n", re.M)
    assert blocks
    for block in blocks:
        assert len({line.count("|") for line in block.splitlines()}) == 1


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "jobs"),
    [
        ("olsen-petersen-table-1", {"scaling": ["raw", "rows / sum", "z-scored"]}),
        ("olsen-petersen-table-2", {"rank": [10, 800]}),
        ("olsen-petersen-starts", {"rank": [10], "seed": [0]}),
        ("olsen-petersen-figure-2", {"rate": [10.0, "own"]}),
        ("olsen-petersen-figures-4-6", {"figure": [4, 5]}),
        ("olsen-petersen-other-sets", {"data": ["dslr"], "rank": [20, 800]}),
        ("olsen-petersen-figure-3", {"mu": [0.1, 1.0], "share": ["auto", 0.05, 0.4]}),
    ],
)
def test_olsen_petersen(name, jobs, rng, monkeypatch, tmp_path):
    experiment = experiments()[name]
    y = np.arange(60) % 3
    X = rng.poisson(12.0 * rng.dirichlet(np.ones(12), 3)[y]) + 0.5
    monkeypatch.setattr(sys.modules[experiment.work.__module__], "stored", lambda name: (X, y))
    # 12 bins, so that r = 10 is a reduction and r = 800 none
    text = check_small(experiment, jobs, tmp_path)
    assert (tmp_path / f"{name}.png").exists() == ("figure" in name)
    assert "reached" in text or "table" not in name


def test_gains_are_paired_and_judged():
    from reproduce.framework.experiment import Done
    from reproduce.framework.statistics import Summary
    from reproduce.olsen.common import Gain, Scores, doubt, gain_words, judged, with_doubts

    pairs = [(0.8, 0.7), (0.9, 0.8), (0.7, 0.58)]
    done = [
        Done({"rank": 10, "split": i}, {"scores": {"a": a, "b": b}}, 1.0)
        for i, (a, b) in enumerate(pairs)
    ]
    alone = Done({"rank": 10, "split": 3}, {"scores": {"a": 0.0}}, 1.0)  # without a partner
    gain = Scores([*done, alone], "rank").gain(10, "a", 10, "b")
    assert (str(gain), gain.splits) == ("+10.7 ± 0.9", 3)
    assert gain_words(gain, 5.3) == "+10.7 ± 0.9 (report +5.3: reached, clearly)"
    assert judged(gain, 10.0) == "reached, within two errors"
    assert judged(gain, 11.0) == "not reached, within two errors"
    assert judged(gain, 20.0) == "**not reached**"
    assert judged(Summary([0.5]), 50.1) == "not reached"
    assert Scores(done, "rank").gain(20, "a", 10, "b") is None
    doubtful = Gain([0.10, -0.05, 0.02])
    assert doubt(gain) == ""
    assert with_doubts([doubtful, gain]) == "+2.3 ± 5.7 (not clear) and +10.7 ± 0.9"
    assert with_doubts([doubtful, doubtful]) == "+2.3 ± 5.7 and +2.3 ± 5.7 (not clear)"


def test_errors_of_differences_allow_for_rows_that_splits_share():
    """Nadeau and Bengio (2003): the variance over n splits is s² (1 / n + tested / learnt from)."""
    from reproduce.framework.statistics import Summary, lead
    from reproduce.oneata.judging import gap_of

    gaps = np.array([0.03, 0.01, 0.02, 0.05])
    error = 100 * gaps.std(ddof=1) * np.sqrt(1 / 4 + 0.3 / 0.7)
    assert Summary(gaps, 0.3).error == pytest.approx(error)
    assert Summary(gaps).error == pytest.approx(100 * gaps.std(ddof=1) / 2)
    assert gap_of(gaps) == pytest.approx((2.75, error, 4))
    assert lead(gaps + 0.5, np.full(4, 0.5)) == pytest.approx((0.0275, 2.75 / error))
    assert lead([0.5], [0.4])[1] == 0.0  # one split decides nothing
    assert lead([0.5, 0.6], [0.4, 0.5])[1] > 1e6


def test_what_differences_say_of_a_claim():
    from reproduce.oneata.judging import Gap, Level, NoLoss, outcome, slight_loss

    clear, unclear, against = Gap(2.0, 0.5, 10), Gap(0.5, 0.5, 10), Gap(-2.0, 0.5, 10)
    assert outcome([clear, clear]) == "seen"
    assert outcome([clear, unclear]) == outcome([clear, against]) == "partly"
    assert outcome([unclear]) == outcome([unclear, against]) == outcome([against]) == "not seen"
    assert outcome([Gap(5.0, 0.0, 1)]) == "partly"  # one split decides nothing
    assert outcome([]) is None
    # a large error neither shows nor refutes that two are alike
    assert outcome([unclear], Level(1.0)) == outcome([Gap(-0.7, 0.4, 9)], NoLoss(1.0)) == "partly"
    assert outcome([Gap(0.1, 0.1, 10)], Level(1.0)) == "seen"
    far = [Gap(-3.0, 0.5, 10)]
    assert outcome(far, Level(1.0)) == outcome(far, NoLoss(1.0)) == "not seen"
    assert outcome([against], slight_loss(4.0)) == "seen"
    assert outcome([Gap(-9.0, 0.5, 10)], slight_loss(3.0)) == "not seen"


def test_a_mean_that_rests_on_one_set_says_so():
    from reproduce.framework.experiment import Done
    from reproduce.own.paired import figure, told_over_sets

    def done(**gains):
        return [
            Done({"data": name, "split": split}, {"a": gain + 1e-3 * split, "b": 0.0}, 1.0)
            for name, gain in gains.items()
            for split in range(4)
        ]

    names = ("x", "y", "z")
    some = done(x=0.3, y=-0.05, z=-0.05)
    assert told_over_sets(some, "a", "b", names).startswith(
        "ahead by 6.82 ± 0.11 points; without the set x"
    )
    assert "without the set x behind by 4.85" in told_over_sets(some, "a", "b", names)
    assert figure(some, "a", "b", names) == "+6.8 ± 0.1 points; without the set x -4.8 ± 0.1"
    all_alike = done(x=0.1, y=0.1, z=0.1)
    assert told_over_sets(all_alike, "a", "b", names) == "ahead by 10.15 ± 0.11 points"
    assert figure([], "a", "b", names) == ""
    # of two sets both are told; of more, those that cancel each other out
    two = done(x=0.3, y=-0.05)
    assert told_over_sets(two, "a", "b", names).endswith(": x +30.15 ± 0.11, y -4.85 ± 0.11")
    assert figure(two, "a", "b", names) == "+12.6 ± 0.1 points; x +30.1 ± 0.1, y -4.8 ± 0.1"
    level = done(x=0.1, y=-0.1, z=-0.0015 * 3)
    assert "; signs cancel: x +10.15 ± 0.11, y -9.85" in told_over_sets(level, "a", "b", names)


def test_rows_of_olsen_petersen(rng):
    from reproduce.olsen.common import folds, prepared, typical_distance
    from reproduce.olsen.wine import scaled

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


def test_lmnn_on_large_sets(rng, monkeypatch, tmp_path):
    from reproduce.framework import protocol
    from reproduce.own import lmnn_large, lmnn_large_page

    X, y = toy_rows("iris", rng)
    monkeypatch.setattr(protocol, "data", lambda name: (X, y))
    monkeypatch.setattr(protocol, "official", lambda name: (np.arange(36), np.arange(36, 45)))
    monkeypatch.setattr(lmnn_large, "RANKS", {"usps9298": (2,), "mnist": (2, 3)})
    monkeypatch.setattr(lmnn_large_page, "RANKS", {"usps9298": (2,), "mnist": (2, 3)})
    experiment = experiments()["lmnn-large"]
    chosen = list(experiment.jobs(None))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = [experiment.work(**job) for job in chosen]
    for job, result in zip(chosen, results, strict=True):
        assert result["3-NN"] > 0.5
        assert len(result["wrong rows"]["3"]) == pytest.approx(9 * (1 - result["3-NN"]))
        if job["method"] == "LMNN":
            steps = result["steps"]["value and gradient of the loss"]
            assert 0.0 < steps <= result["profiled core seconds"]
            assert result["steps"]["search for targets"] > 0.0
    text = filled(experiment, chosen, results)
    check_tables(text)
    assert filled(experiment, chosen[:1], results[:1])


def test_votes_and_paired_errors_of_large_sets():
    from reproduce.framework.experiment import Done
    from reproduce.own import lmnn_large, lmnn_large_page

    Z, y = np.array([[0.0], [1.0], [1.9], [4.0], [8.0]]), np.array([0, 1, 1, 0, 0])
    # from 0.2: 0, 1, 1, 0, 0; from 7: 0, 0, 1, 1, 0
    wrong = lmnn_large.wrong_rows(Z, y, [[0.2], [7.0]], [0, 0])
    assert wrong == {"3": [0], "5": []}
    rows = [{"test rows": 100, "wrong rows": {"3": each}} for each in ([1, 2], [2, 3, 4, 5])]
    gap, error = lmnn_large_page.less(*(Done({}, each, 1.0) for each in rows))
    gaps = np.r_[-1.0, 1.0, 1.0, 1.0, np.zeros(96)]
    assert gap == pytest.approx(100 * gaps.mean())
    assert error == pytest.approx(100 * gaps.std() / 10)


def test_votes_of_many_k_at_once():
    from reproduce.tarlow.common import accuracies, leave_one_out

    Z = np.array([[0.0], [1.0], [1.9], [4.0], [8.0]])
    y = np.array(["a", "b", "b", "a", "a"])
    # from 0.2: a, b, b, a, a; the vote is a, a (the nearer of a tie), b, a (again), a
    assert accuracies(Z, y, [[0.2]], ["a"], range(1, 6)) == [1.0, 1.0, 0.0, 1.0, 1.0]
    assert accuracies(Z, y, [[0.2]], ["a"], [9]) == [1.0]  # all of them vote
    # themselves left out, 1-NN votes b b b b a
    assert leave_one_out(Z, y, y, [1]) == [0.6]
    assert leave_one_out(Z, y, ["b"] * 5, [1]) == [0.8]


def test_some_labels_are_drawn_anew():
    from reproduce.tarlow.figure4 import resampled

    y = np.arange(1000) % 10
    assert (resampled(y, 0.0, 0) == y).all()
    labels = resampled(y, 0.5, 0)
    assert 0.35 < np.mean(labels != y) < 0.5  # a tenth of them stays
    assert (labels == resampled(y, 0.5, 0)).all()
    assert (labels != resampled(y, 0.5, 1)).any()


@needs_callbacks
def test_maps_of_a_search_are_not_kept(rng):
    from reproduce.oneata.fast import Keeper

    from vicinal import NCA

    y = np.arange(60) % 3
    X = rng.standard_normal((60, 4)) + 2.0 * rng.standard_normal((3, 4))[y]
    keeper = Keeper(range(1, 200))
    model = NCA(2, random_state=0).set_callbacks(keeper).fit(X, y)  # searches its penalty first
    assert sorted(keeper.maps) == list(range(1, model.n_iter_ + 1))
    np.testing.assert_allclose(keeper.maps[model.n_iter_], model.components_)
