"""The usual pipelines of scikit-learn with an estimator of vicinal, in files without pickle."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, OrdinalEncoder, StandardScaler

import vicinal
from vicinal import LFDA, MLKR, RCA

RNG = np.random.RandomState(0)
N = 60
Y = np.repeat(["a", "b", "c"], N // 3)
ROWS = RNG.normal(size=(N, 4)) + 2 * (Y == "a")[:, None]
FRAME = pd.DataFrame(ROWS, columns=list("pqrs")).assign(
    kind=RNG.choice(["x", "y", "z"], N), size=RNG.choice(["S", "M"], N)
)
FRAME.loc[:5, "q"] = np.nan
FRAME.loc[3:6, "kind"] = np.nan
NUMBERS, WORDS = list("pqrs"), ["kind", "size"]


def table(**options):
    words = make_pipeline(
        SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")
    )
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    return ColumnTransformer([("n", numbers, NUMBERS), ("w", words, WORDS)], **options)


PIPELINES = {
    "scaler": (make_pipeline(StandardScaler(), LFDA(2)), ROWS),
    "scaler and a vote": (
        make_pipeline(StandardScaler(), LFDA(2), KNeighborsClassifier(3)),
        ROWS,
    ),
    "a vote by distance": (
        make_pipeline(RCA(), KNeighborsClassifier(weights="distance", p=1)),
        ROWS,
    ),
    "float32": (make_pipeline(StandardScaler(), LFDA(2)), ROWS.astype(np.float32)),
    "whitened PCA": (make_pipeline(PCA(3, whiten=True), LFDA(2)), ROWS),
    "share of the variance": (make_pipeline(StandardScaler(), PCA(0.9), LFDA(2)), ROWS),
    "arpack": (make_pipeline(PCA(2, svd_solver="arpack", random_state=0), LFDA(2)), ROWS),
    "gaps": (
        make_pipeline(SimpleImputer(add_indicator=True), StandardScaler(), LFDA(2)),
        FRAME[NUMBERS],
    ),
    "constant": (make_pipeline(SimpleImputer(strategy="constant", fill_value=0), LFDA(2)), ROWS),
    "words": (
        make_pipeline(OneHotEncoder(sparse_output=False, drop="first"), RCA()),
        FRAME[["size"]],
    ),
    "orders": (
        make_pipeline(
            OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), RCA()
        ),
        FRAME[WORDS].fillna("none"),
    ),
    "table": (make_pipeline(table(), LFDA(2), KNeighborsClassifier()), FRAME),
    "table of positions": (
        make_pipeline(
            ColumnTransformer([("n", StandardScaler(), [0, 2])], remainder="passthrough"), LFDA(2)
        ),
        ROWS,
    ),
    "selectors": (
        make_pipeline(
            ColumnTransformer(
                [
                    ("w", "drop", make_column_selector(dtype_include=[object, "string"])),
                    ("n", StandardScaler(), ["p"]),
                    ("m", "passthrough", slice("r", "s")),
                ]
            ),
            LFDA(2),
        ),
        FRAME,
    ),
    "table and PCA": (make_pipeline(table(sparse_threshold=0), PCA(2), LFDA(1)), FRAME),
    "nested": (
        Pipeline([("first", make_pipeline(PCA(3))), ("no", "passthrough"), ("learn", LFDA(2))]),
        ROWS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PIPELINES)
def test_a_usual_pipeline_comes_back(case, tmp_path):
    model, X = PIPELINES[case]
    model.fit(X, Y)
    vicinal.save(model, tmp_path / "m.vic")
    loaded = vicinal.load(tmp_path / "m.vic")
    new = X[::-1].copy()
    if "kind" in new:
        new.iloc[0, new.columns.get_loc("kind")] = "never seen"
    for method in ("transform", "predict", "predict_proba"):
        if hasattr(model, method):
            expected, found = getattr(model, method)(new), getattr(loaded, method)(new)
            if case == "arpack":  # its components lie in another order in memory
                np.testing.assert_allclose(found, expected, rtol=1e-12)
            else:
                np.testing.assert_array_equal(found, expected)
            assert found.dtype == expected.dtype
    if case != "nested":
        assert [type(step) for _, step in loaded.steps] == [type(step) for _, step in model.steps]
    if hasattr(model[0], "get_feature_names_out"):
        names = model[0].get_feature_names_out()
        np.testing.assert_array_equal(loaded[0].get_feature_names_out(), names)
    vicinal.save(loaded, tmp_path / "again.vic")
    assert (tmp_path / "again.vic").read_bytes() == (tmp_path / "m.vic").read_bytes()


def test_a_vote_for_numbers(tmp_path):
    y = ROWS[:, 0] * 2
    model = make_pipeline(MLKR(max_iter=2), KNeighborsRegressor(n_neighbors=3)).fit(ROWS, y)
    vicinal.save(model, tmp_path / "m.vic")
    np.testing.assert_array_equal(
        vicinal.load(tmp_path / "m.vic").predict(ROWS), model.predict(ROWS)
    )


def test_what_is_not_kept_is_named(tmp_path):
    def refused(model, message):
        with pytest.raises(TypeError, match=message):
            vicinal.save(model.fit(ROWS, Y), tmp_path / "m.vic")

    refused(make_pipeline(MinMaxScaler(), RCA()), "step 'minmaxscaler' is a MinMaxScaler, which")
    refused(make_pipeline(StandardScaler(), KNeighborsClassifier()), "is a KNeighborsClassifier")
    odd = KNeighborsClassifier(weights=lambda d: 1 / (1 + d))
    refused(make_pipeline(RCA(), odd), "'weights' parameter of KNeighborsClassifier must be a name")
    assert not list(tmp_path.iterdir())
