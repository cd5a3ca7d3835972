"""Pairs and quadruplets drawn from class labels."""

import warnings

import numpy as np
import pytest

from vicinal.targets import pairs_from_labels, quadruplets_from_labels


def _unordered(pairs):
    return {tuple(sorted(pair)) for pair in pairs.tolist()}


# few of many pairs are drawn and compared; most of few are listed
@pytest.mark.parametrize("sizes", [(40, 60), (3, 4, 5), (2, 1, 30), (1, 1, 1, 2)])
@pytest.mark.parametrize("n", [1, 7, 25])
def test_pairs_are_distinct_and_of_their_kind(rng, sizes, n):
    y = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pairs, labels = pairs_from_labels(y, n, random_state=3)
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    np.testing.assert_array_equal(np.where(same, 1, -1), labels)
    assert len(_unordered(pairs)) == len(pairs)
    assert (pairs[:, 0] != pairs[:, 1]).all()
    sizes = np.array(sizes)
    most = np.sum(sizes * (sizes - 1)) // 2, (sizes.sum() ** 2 - np.sum(sizes**2)) // 2
    assert [np.sum(labels == s) for s in (1, -1)] == [min(n, m) for m in most]


def test_the_default_number_is_that_of_davis():
    y = np.repeat([0, 1, 2], 40)
    _, labels = pairs_from_labels(y, random_state=0)
    assert [np.sum(labels == s) for s in (1, -1)] == [180, 180]
    assert quadruplets_from_labels(y, random_state=0).shape == (180, 4)


def test_both_ways_of_drawing_take_rows_uniformly():
    # The chance of a class to give a similar pair is its share of the rows, not of the pairs.
    y = np.repeat([0, 1], [12, 4])
    listed, drawn = [], []
    for seed in range(400):
        listed.append(y[pairs_from_labels(y, 20, random_state=seed)[0][0, 0]])  # of 72 pairs
        drawn.append(y[pairs_from_labels(y, 2, random_state=seed)[0][0, 0]])
    assert np.mean(listed) == pytest.approx(0.25, abs=0.08)
    assert np.mean(drawn) == pytest.approx(0.25, abs=0.08)


def test_the_same_seed_gives_the_same_pairs():
    y = np.repeat(["a", "b"], 50)
    a, b, c = (pairs_from_labels(y, 30, random_state=seed)[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(a, b)
    assert _unordered(a) != _unordered(c)


def test_negative_labels_are_classes_unless_they_are_said_to_be_unlabelled():
    y = np.array([-1, -1, -1, 1, 1, 2, 2])
    assert (y[pairs_from_labels(y, random_state=0)[0]] == -1).any()
    for none, labels in [(-1, y), (np.nan, np.where(y < 0, np.nan, y))]:
        pairs, _ = pairs_from_labels(labels, unlabeled=none, random_state=0)
        assert pairs.min() == 3
        assert quadruplets_from_labels(labels, unlabeled=none, random_state=0).min() == 3


def test_all_pairs_are_used_if_there_are_fewer():
    y = [0, 0, 1, 1]
    with pytest.warns(UserWarning, match="n_constraints=9, but the labels give only 2 similar"):
        pairs, labels = pairs_from_labels(y, 9, random_state=0)
    assert labels.tolist() == [1] * 2 + [-1] * 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(pairs_from_labels(y, random_state=0)[0]) == 6


def test_quadruplets_repeat_the_rarer_kind():
    y = [0, 0, 1, 1]
    with pytest.warns(UserWarning, match="only 4 quadruplets"):
        quadruplets = quadruplets_from_labels(y, 9, random_state=0)
    y = np.array(y)[quadruplets]
    assert (y[:, 0] == y[:, 1]).all()
    assert (y[:, 2] != y[:, 3]).all()
    assert len(_unordered(quadruplets[:, 2:])) == len(quadruplets) == 4


@pytest.mark.parametrize("draw", [pairs_from_labels, quadruplets_from_labels])
def test_what_labels_cannot_give_is_an_error(draw):
    with pytest.raises(ValueError, match=r"at least 2 classes.*Got 1 instead"):
        draw([3, 3, 3])
    with pytest.raises(ValueError, match=r"class of at least 2 rows.*Got 3 rows of 3 classes"):
        draw([1, 2, 3])
    with pytest.raises(ValueError, match=r"hold NaN.*unlabeled=numpy.nan"):
        draw([1.0, 1.0, 2.0, np.nan])
    with pytest.raises(ValueError, match="must all be of one type"):
        draw([1, "a", 1])
    for bad in (0, -3, 2.5, True):
        with pytest.raises(ValueError, match=r"'n_constraints' parameter.*\[1, inf\).*instead"):
            draw([0, 0, 1], bad)
