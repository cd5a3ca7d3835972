"""make_learner: tables with categories, gaps and text; the same bits as without it for numbers."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from common.elsewhere import ELSEWHERE
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.model_selection import GridSearchCV

import vicinal
from vicinal import NCA, FromLabels, make_learner
from vicinal.learner import METHODS

WORDS = ("sun", "rain", "fog", "wind", "snow")


def test_a_table_elsewhere_is_refused(rng):
    remedy, moved = ELSEWHERE["dask frame"]
    with pytest.raises(TypeError, match=rf"The X of make_learner must .* Use X\.{remedy}\(\)"):
        make_learner(moved(rng.normal(size=(20, 3))))


@pytest.fixture
def y():
    return np.repeat(["a", "b", "c"], 30)


@pytest.fixture
def mixed(rng, y):
    """Every kind of column, with gaps in most."""
    n = len(y)
    sizes = pd.Categorical(rng.choice(["S", "M", "L"], n), ["S", "M", "L"], ordered=True)
    X = pd.DataFrame({
        "u": (y == "a") + 0.3 * rng.normal(size=n),
        "v": (y == "b") + 0.3 * rng.normal(size=n),
        "count": pd.array(rng.integers(0, 100, n), dtype="Int64"),
        "flag": rng.random(n) < 0.5,
        "maybe": pd.array(rng.random(n) < 0.5, dtype="boolean"),
        "colour": rng.choice(["red", "green", "blue"], n),
        "kind": pd.Categorical(rng.choice(["x", "y"], n)),
        "nullable": pd.array(rng.choice(["p", "q"], n), dtype="string"),
        "code": pd.Categorical(rng.choice([1, 2, 3], n)),
        "size": sizes,
        "note": [" ".join(rng.choice(WORDS, 6)) + f" w{i}" for i in range(n)],
    })  # fmt: skip
    X.loc[:9, "v"] = np.nan
    X.loc[4, "count"] = X.loc[5, "maybe"] = X.loc[6, "nullable"] = pd.NA
    X.loc[7, "colour"] = X.loc[8, "note"] = None
    X.loc[9, "kind"] = X.loc[10, "code"] = X.loc[11, "size"] = np.nan
    return X


@pytest.mark.parametrize("as_frame", [True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_numbers_give_the_same_bits_as_the_estimator(as_frame, dtype):
    X, y = load_wine(return_X_y=True, as_frame=as_frame)
    X = X.astype(dtype)
    bare = NCA(2, alpha=0.01, max_iter=10, random_state=0).fit(X, y)
    model = make_learner(X, y, n_components=2, alpha=0.01, max_iter=10, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model[-1].components_, bare.components_)
    np.testing.assert_array_equal(model.transform(X), bare.transform(X))
    assert model.transform(X).dtype == bare.transform(X).dtype
    assert len(model) == (2 if as_frame else 1)


def test_sparse_matrices_pass_through(y):
    X = sp.csr_array(np.maximum(np.random.RandomState(0).randn(len(y), 20), 0))
    model = make_learner(X, y, "rca").fit(X, y)
    assert model.transform(X).shape == (len(y), 20)
    assert len(model) == 1


def test_mixed_table(mixed, y):
    model = make_learner(mixed, y, n_components=2, alpha=0.01, random_state=0)
    model = clone(model).set_output(transform="pandas").fit(mixed, y)
    assert model.score(mixed, y) > 0.8
    names = model[:-1].get_feature_names_out().tolist()
    assert names[:5] == ["u", "count", "flag", "maybe", "v"]
    wanted = {"missingindicator_v", "size", "colour_missing", "kind_x", "nullable_p", "note_fog"}
    assert wanted <= set(names)
    assert model.get_feature_names_out().tolist() == ["nca0", "nca1"]
    Z = model.transform(mixed)
    assert list(Z.columns) == ["nca0", "nca1"]
    kept = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(kept.transform(mixed), Z)


def test_one_hot_columns_are_left_as_they_are_and_numbers_scaled(mixed, y):
    model = make_learner(mixed, y, max_iter=1, alpha=0.01)
    rows = model[:-1].fit_transform(mixed)
    names = model[:-1].get_feature_names_out().tolist()
    scaled = rows[:, names.index("u")]
    np.testing.assert_allclose([scaled.mean(), scaled.std()], [0, 1], atol=1e-12)
    for name in ("colour_red", "missingindicator_v", "code_1.0"):
        assert set(rows[:, names.index(name)]) == {0.0, 1.0}
    assert model[-1].scaling is None
    assert make_learner(mixed, y, scaling="standard")[-1].scaling == "standard"


def test_scaling_by_the_method_or_before_it(mixed, y):
    numbers = mixed[["u", "flag"]]
    assert "StandardScaler" not in str(make_learner(numbers, y))
    assert "StandardScaler" in str(make_learner(numbers, y, "kt-sne"))
    assert "StandardScaler" not in str(make_learner(numbers, y, "kt-sne", scaling=None))
    assert make_learner(mixed, y, "itml")[-1].learner.scaling is None
    assert make_learner(numbers, y, "itml")[-1].learner.scaling == "standard"
    assert make_learner(numbers, y, scaling="global")[-1].scaling == "global"
    with pytest.raises(ValueError, match=r"'auto', 'standard' or None for KSNE.* Got 'global'"):
        make_learner(numbers, y, "kt-sne", scaling="global")


def test_what_is_new_at_prediction(mixed, y):
    """Unknown categories, gaps where there were none, another order, and further columns."""
    model = make_learner(mixed, y, n_components=2, alpha=0.01, random_state=0).fit(mixed, y)
    new = mixed.head(6).astype({"size": object, "kind": object}).assign(other="?")
    new["colour"] = "violet"
    new.loc[0, "size"] = "XXL"
    new["u"] = np.nan
    Z = model.transform(new[sorted(new.columns)])
    assert np.isfinite(Z).all()
    np.testing.assert_array_equal(Z, model.transform(new))


def test_polars_gives_what_pandas_gives(mixed, y):
    mixed = mixed.drop(columns=["size", "code"])
    frame = pl.from_pandas(mixed)
    parameters = {"n_components": 2, "alpha": 0.01, "max_iter": 20, "random_state": 0}
    of_pandas = make_learner(mixed, y, **parameters).fit(mixed, y)
    of_polars = make_learner(frame, pl.Series(y), **parameters).fit(frame, y)
    np.testing.assert_allclose(of_polars.transform(frame), of_pandas.transform(mixed), atol=1e-10)


#: what stands for a missing value
MARKERS = {
    "None": None,
    "NA": pd.NA,
    "NaT": pd.NaT,
    "NaN of float32": np.float32("nan"),
    "NaT of NumPy": np.datetime64("NaT"),
}


@pytest.fixture
def plain(rng, y):
    """A column for each use, with gaps that NaN marks."""
    n = len(y)
    gaps = rng.random((n, 4)) < 0.2
    return pd.DataFrame({
        "u": np.where(gaps[:, 0], np.nan, (y == "a") + rng.normal(size=n)),
        "v": (y == "b") + rng.normal(size=n),
        "stars": np.where(gaps[:, 1], np.nan, rng.choice([1.0, 2.0, 5.0], n)),
        "size": pd.Series(rng.choice(["S", "M", "L"], n)).mask(gaps[:, 2], np.nan),
        "coat": pd.Series(rng.choice(["short", "long"], n)).mask(gaps[:, 3] | (y == "c"), np.nan),
        "colour": rng.choice(["red", "blue"], n),
        "note": [" ".join(rng.choice(WORDS, 6)) for _ in range(n)],
    })  # fmt: skip


def fitted_to(X, y):
    options = {
        "categorical": ["stars"],
        "ordinal": {"size": ["S", "M", "L"]},
        "text": ["note"],
        "random_state": 0,
    }
    if not hasattr(X, "columns"):
        options |= {"categorical": [2], "ordinal": {3: ["S", "M", "L"]}, "text": [6]}
    return make_learner(X, y, "lfda", **options).fit(X, y)


@pytest.mark.parametrize("marker", MARKERS)
def test_a_missing_value_means_the_same_by_every_marker(marker, plain, y, tmp_path):
    """In whole tables, in a row without values, and in the same row after a complete one."""
    model = fitted_to(plain, y)
    path = tmp_path / "model.vic"
    vicinal.save(model, path)
    other = plain.astype(object)
    other = other.where(other.notna(), None).map(lambda v: MARKERS[marker] if v is None else v)
    models = (model, vicinal.load(path), fitted_to(other, y))
    empty = pd.DataFrame([dict.fromkeys(plain, np.nan)])
    marked = pd.DataFrame([dict.fromkeys(plain, MARKERS[marker])], dtype=object)
    complete = plain.dropna().head(1)
    pairs = [
        (plain, other),
        (empty, marked),
        (pd.concat([complete, empty]), pd.concat([complete.astype(object), marked])),
    ]
    for rows, same in pairs:
        expected = model.transform(rows)
        for each in models:
            np.testing.assert_allclose(each.transform(same), expected, atol=1e-9)


def _polars(X):
    return pl.DataFrame({name: X[name].replace({np.nan: None}).tolist() for name in X})


#: the same table in other types and libraries
TABLES = {
    "nullable": lambda X: X.convert_dtypes(),
    "Arrow types": lambda X: X.convert_dtypes(dtype_backend="pyarrow"),
    "categories": lambda X: X.astype({"coat": "category", "stars": "category"}),
    "polars": _polars,
    "polars categories": lambda X: _polars(X).with_columns(pl.col("coat").cast(pl.Categorical)),
    "rows of JSON": lambda X: pd.DataFrame(_polars(X).to_dicts()),
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_missing_value_means_the_same_in_every_table(kind, plain, y):
    other = TABLES[kind](plain)
    model, again = fitted_to(plain, y), fitted_to(other, y)
    expected = model.transform(plain)
    for each, rows in ((model, other), (again, plain), (again, other)):
        np.testing.assert_allclose(each.transform(rows), expected, atol=1e-9)
    alone = TABLES[kind](plain.tail(1).assign(coat=np.nan, u=np.nan))
    expected = model.transform(plain.tail(1).assign(coat=np.nan, u=np.nan))
    np.testing.assert_allclose(model.transform(alone), expected, atol=1e-9)


def _masked(X):
    return np.ma.array(X.fillna("under the mask").to_numpy(dtype=object), mask=X.isna())


#: the same table without names of columns
ARRAYS = {
    "None": lambda X: X.astype(object).where(X.notna(), None).to_numpy(),
    "list": lambda X: X.astype(object).where(X.notna(), None).to_numpy().tolist(),
    "masked": lambda X: _masked(X.astype(object)),
    "list of masked rows": lambda X: [list(row) for row in _masked(X.astype(object))],
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_a_missing_value_means_the_same_in_every_array(kind, plain, y):
    X, other = plain.to_numpy(dtype=object), ARRAYS[kind](plain)
    model, again = fitted_to(X, y), fitted_to(other, y)
    expected = model.transform(X)
    for each, rows in ((model, other), (again, X), (again, other)):
        np.testing.assert_allclose(each.transform(rows), expected, atol=1e-9)


def test_nulls_of_an_arrow_table_are_missing(plain, y):
    model = fitted_to(plain, y)
    found = model.transform(pa.Table.from_pandas(plain))
    np.testing.assert_allclose(found, model.transform(plain), atol=1e-9)


def test_masked_numbers_are_missing_however_few(rng):
    X = rng.normal(size=(40, 2))
    y = np.repeat([0, 1], 20)
    hidden = np.ma.array(X, mask=np.eye(40, 2, dtype=bool))
    gaps = hidden.filled(np.nan)
    model = make_learner(gaps, y, "lfda").fit(gaps, y)
    np.testing.assert_array_equal(model.transform(hidden), model.transform(gaps))
    again = make_learner(hidden, y, "lfda").fit(hidden, y)
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    bare = make_learner(X, y, "lfda").fit(X, y)
    with pytest.raises(ValueError, match=r"no masked values. Got 2 in 80: leave their rows out"):
        bare.transform(hidden)


def test_numbers_and_pandas_na_as_objects(rng, y):
    u = pd.Series([pd.NA, *rng.normal(size=len(y) - 1)], dtype=object)
    X, same = pd.DataFrame({"u": u}), pd.DataFrame({"u": u.astype("Float64")})
    Z = make_learner(same, y, "lfda").fit(same, y).transform(same)
    np.testing.assert_array_equal(make_learner(X, y, "lfda").fit(X, y).transform(X), Z)


@pytest.mark.parametrize("output", ["pandas", "polars"])
def test_gaps_and_output_as_a_data_frame(output, plain, y):
    model = fitted_to(plain, y)[:-1]
    framed = clone(model).set_output(transform=output).fit(plain).transform(plain)
    assert list(framed.columns) == model.get_feature_names_out().tolist()
    np.testing.assert_array_equal(framed.to_numpy(), model.transform(plain))


@pytest.mark.parametrize(
    "as_", [pd.DataFrame, lambda X: pd.DataFrame(X).convert_dtypes(), pl.DataFrame]
)
def test_large_integers_are_not_rounded_to_one_category(as_):
    X = as_({"id": [2**60, 2**60 + 1, 2**60 + 2] * 5})
    prepare = make_learner(X, categorical=["id"])[:-1].fit(X)
    assert len(prepare.get_feature_names_out()) == 3
    assert (prepare.transform(X).sum(axis=0) == 5).all()


@pytest.mark.parametrize("exponent", [1000, -1000])
def test_columns_of_extreme_size_are_scaled(exponent, plain, y, tmp_path):
    """Their squares are not in the range of float64; a power of two changes no digit."""
    extreme = plain.assign(u=np.ldexp(plain["u"], exponent), v=np.ldexp(plain["v"], exponent))
    model = fitted_to(extreme, y)
    expected = fitted_to(plain, y)[:-1].transform(plain)
    np.testing.assert_allclose(model[:-1].transform(extreme), expected, rtol=1e-12)
    vicinal.save(model, tmp_path / "model.vic")
    loaded = vicinal.load(tmp_path / "model.vic")
    np.testing.assert_array_equal(loaded.transform(extreme), model.transform(extreme))


def test_object_arrays(mixed, y):
    X = mixed[["u", "v", "colour"]].to_numpy(dtype=object)
    for rows in (X, X.tolist(), X[:, 2:].astype(str)):
        model = make_learner(rows, y, "rca").fit(rows, y)
        assert np.isfinite(model.transform(rows)).all()


def test_grid_search(mixed, y):
    model = make_learner(mixed, y, n_components=2, max_iter=5, random_state=0)
    search = GridSearchCV(model, {"learn__alpha": [0.01, 0.1]}, cv=2).fit(mixed, y)
    assert search.best_score_ > 0.5


def test_rare_categories_share_a_column(rng, y):
    X = pd.DataFrame({"u": rng.normal(size=len(y)), "city": [f"c{i % 40}" for i in range(len(y))]})
    model = make_learner(X, y, "rca", max_categories=5).fit(X, y)
    assert model[-1].n_features_in_ == 1 + 5
    assert make_learner(X, y, "rca", max_categories=None).fit(X, y)[-1].n_features_in_ == 41


def test_ordinal_by_order_and_by_name(mixed, y):
    order = ["green", "red", "blue"]
    model = make_learner(mixed, y, "rca", ordinal={"colour": order}).fit(mixed, y)
    column = list(model[:-1].get_feature_names_out()).index("colour")
    codes = model[:-1].transform(mixed)[:, column]
    means = [codes[mixed["colour"] == name].mean() for name in order]
    assert means[0] < means[1] < means[2]
    with pytest.raises(ValueError, match=r"order of its values.*ordinal=\{'colour': \[...\]\}"):
        make_learner(mixed, y, ordinal=["colour"])
    with pytest.raises(ValueError, match="none of the levels"):
        make_learner(mixed, y, ordinal={"colour": order[:2]})


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", METHODS)
def test_every_method_builds_and_learns(name, y):
    info = METHODS[name]
    rng = np.random.RandomState(0)
    X = pd.DataFrame(np.abs(rng.randn(len(y), 4)) + np.eye(4)[np.repeat([0, 1, 2], 30)])
    X.columns = list("abcd")
    X = X.div(X.sum(axis=1), axis=0)
    if info.target != "histograms":
        X["kind"] = rng.choice(["x", "y"], len(y))
    few = {"max_iter": 3} if "max_iter" in info.parameters() else {}
    if "alpha" in info.parameters():
        few["alpha"] = 0.01
    target = {"numbers": rng.randn(len(y)), "none": None}.get(info.target, y)
    model = make_learner(X, target, name, random_state=0, **few)
    assert isinstance(model[-1], FromLabels if info.target == "pairs" else info.load())
    model.fit(X, target)
    Z = model.transform(X)
    assert Z.shape[0] == len(X)
    assert hasattr(model, "predict") == info.predicts


def test_all_estimators_have_a_name():
    homes = {name for name in vicinal._HOMES if isinstance(getattr(vicinal, name), type)}
    assert {info.load().__name__ for info in METHODS.values()} == homes - {"FromLabels"}


def test_parameters_are_checked(mixed, y):
    with pytest.raises(ValueError, match=r"one of nca.*Did you mean 'lmnn'"):
        make_learner(mixed, y, "lmn")
    with pytest.raises(TypeError, match=r"Method 'rca' has no parameter 'alpha'. It has n_comp"):
        make_learner(mixed, y, "rca", alpha=1)
    with pytest.raises(ValueError, match="'itml' learns a metric for all columns"):
        make_learner(mixed, y, "itml", n_components=2)
    with pytest.raises(ValueError, match=r"'drop' parameter .* columns of X.*Got 'colr' instead"):
        make_learner(mixed, y, drop=["colr"])
    with pytest.raises(TypeError, match=r"Got 'note' instead; use \['note'\]"):
        make_learner(mixed, y, drop="note")
    with pytest.raises(ValueError, match=r"must have one use. Got 'text' and 'drop'"):
        make_learner(mixed, y, drop=["note"], text=["note"])
    assert make_learner(mixed, y, "itml", gamma=2.0, n_constraints=7)[-1].n_constraints == 7
    own = make_learner(mixed, y, NCA(alpha=0.5), n_components=1)[-1]
    assert (own.alpha, own.n_components, own.scaling) == (0.5, 1, None)
