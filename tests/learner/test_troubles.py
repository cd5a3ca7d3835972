"""Tables as they come: one trouble each, what is said of it, and what becomes of the column."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from common.troubles import POLARS, TROUBLES, N, frames

import vicinal
from vicinal import make_learner
from vicinal.learner.errors import ColumnError, TableNote
from vicinal.learner.preparation import columns_used

U = np.random.RandomState(0).normal(size=N)
Y = np.where(U + 0.1 * np.arange(N) > 2, "high", "low")


def learnt(X, **options):
    """The model, and the notes that were told."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = make_learner(X, Y, "lfda", **options).fit(X, Y)
    return model, [str(w.message) for w in caught if w.category is TableNote]


def check(X, note, use):
    model, told = learnt(X)
    assert model.notes_ == told
    assert (
        not told if note is None else pd.Series(told).str.contains(f"^Column 'c': {note}").any()
    ), told
    used = {name for names in columns_used(model).values() for name in names}
    if "c" in model.left_out_:
        assert model.left_out_["c"] == use
        assert used == {"u"}
    else:
        assert "c" in columns_used(model)[use]
    Z = model.transform(X)
    assert np.isfinite(Z).all()
    return model, Z


@pytest.mark.parametrize("case", TROUBLES)
def test_trouble(case, tmp_path):
    values, note, use = TROUBLES[case]
    found = []
    for table in frames(values).values():
        X = table.assign(u=U) if isinstance(table, pd.DataFrame) else table.with_columns(u=U)
        model, Z = check(X, note, use)
        found.append(Z)
    np.testing.assert_allclose(found[-1], found[0], atol=1e-9)
    vicinal.save(model, tmp_path / "m.vic")
    loaded = vicinal.load(tmp_path / "m.vic")
    assert loaded.left_out_ == model.left_out_
    np.testing.assert_array_equal(loaded.transform(X), Z)
    if note is not None and "counts up" not in note and case != "? among categories":
        with pytest.raises(ColumnError, match=r"^Column 'c' .*Use .*drop=\['c'\]"):
            make_learner(X, Y, "lfda", strict=True)


@pytest.mark.parametrize("case", POLARS)
def test_trouble_of_polars(case):
    column, note, use = POLARS[case]
    check(pl.DataFrame({"u": U, "c": column}), note, use)


def test_identifier_by_its_name():
    numbers = np.random.RandomState(1).choice(10**8, N, replace=False)
    X = pd.DataFrame({"u": U, "PassengerId": numbers, "paid": numbers, "user_id": numbers % 7})
    with pytest.warns(TableNote, match="'PassengerId': left out, an identifier by its name"):
        model = make_learner(X, Y, "lfda")
    assert list(model.left_out) == ["PassengerId"]
    with pytest.raises(ColumnError, match="'PassengerId' looks like an identifier"):
        make_learner(X, Y, "lfda", strict=True)


def test_words_among_numbers_as_labels():
    y = [f"${1000 + 10 * i:,}" for i in range(N)]
    y[:3] = ["on request", "n/a", "on request"]
    X = pd.DataFrame({"u": U})
    with pytest.warns(TableNote, match="37 different numbers: they are predicted as numbers"):
        model = make_learner(X, y)
    with pytest.warns(TableNote, match="3 of 40 rows have no number as their label, such as 'on r"):
        model.fit(X, y)
    assert model.predict(X).dtype.kind == "f"
    as_classes = make_learner(X, y, "rca", task="classes")
    with pytest.warns(TableNote, match="1 of 40 rows have no label"):
        as_classes.fit(X, y)
