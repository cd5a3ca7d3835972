"""Bad input gives a clear error, or a documented behaviour with a warning; never a NaN."""

from __future__ import annotations

import warnings
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from vicinal import (
    ITML,
    KNCA,
    KSNE,
    LMNN,
    LSML,
    MCML,
    MLKR,
    MMC,
    NCA,
    RCA,
    SDML,
    Covariance,
    FromLabels,
    NCARegressor,
    PairNCA,
    make_learner,
    maps,
    solvers,
    starts,
)

quiet = pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::sklearn.exceptions.ConvergenceWarning"
)


@pytest.fixture
def data(rng):
    y = np.repeat([0, 1, 2], 12)
    return rng.normal(size=(36, 4)) + y[:, None], y


# Rows and labels


@quiet
def test_what_converts_to_an_array_is_learnt_from(data):
    """Such as a tensor of torch in the memory of the host."""
    X, y = data
    converts = {"__module__": "torch", "__array__": lambda self, *args, **kwargs: X}
    tensor = type("Tensor", (), converts)()
    tensor.shape, tensor.ndim, tensor.device = X.shape, 2, SimpleNamespace(type="cpu")
    here, there = (NCA(2, max_iter=3, random_state=0).fit(table, y) for table in (X, tensor))
    np.testing.assert_array_equal(there.components_, here.components_)
    np.testing.assert_array_equal(there.transform(tensor), here.transform(X))


# Errors that name what does learn from such data


@pytest.mark.parametrize(
    ("model", "call"),
    [
        (NCA(2, alpha=0.01), "make_learner(X, y, NCA(alpha=0.01, n_components=2)).fit(X, y)"),
        (MLKR(max_iter=2), "make_learner(X, y, MLKR(max_iter=2)).fit(X, y)"),
        (RCA(), "make_learner(X, y, RCA()).fit(X, y)"),
        (Covariance(), "make_learner(X, method=Covariance()).fit(X)"),
        (KSNE(2, 3, max_iter=9), "make_learner(X, method=KSNE(k=3, max_iter=9)).fit(X)"),
    ],
)
@quiet
def test_gaps_and_text_name_make_learner_with_a_call_that_works(data, model, call):
    X, y = data
    gaps, words = X.copy(), X.astype(object)
    gaps[::5, 1], words[:, 2] = np.nan, np.where(y == 1, "red", "blue")
    for bad, problem in ((gaps, "Input X contains NaN"), (words, "could not convert .*'blue'")):
        with pytest.raises(ValueError, match=problem) as caught:
            clone(model).fit(bad, y)
        assert str(caught.value).endswith(f": {call}.")
        assert "HistGradientBoosting" not in str(caught.value)
        names = {type(model).__name__: type(model), "make_learner": make_learner}
        fitted = eval(call, {**names, "X": bad, "y": y})  # what the message says can be pasted
        assert np.isfinite(fitted.transform(bad)).all()
    with pytest.raises(ValueError, match="make_learner"):
        clone(model).fit(X, y).transform(gaps)


@pytest.mark.parametrize("column", ["date", "gap"])
def test_columns_of_a_frame_that_numpy_cannot_convert_name_make_learner(data, column):
    pandas = pytest.importorskip("pandas")
    X, y = data
    columns = {"date": pandas.date_range("2020-01-01", periods=len(X)),
               "gap": pandas.Series([1.5, pandas.NA] * (len(X) // 2), dtype=object)}  # fmt: skip
    frame = pandas.DataFrame(X, columns=list("abcd")[: X.shape[1]]).assign(e=columns[column])
    with pytest.raises(TypeError, match=r"X must hold numbers: .*make_learner\(X, y, NCA\(\)\)"):
        NCA().fit(frame, y)


@pytest.mark.parametrize("learner", [ITML, MMC, SDML, LSML, PairNCA])
@quiet
def test_learners_of_pairs_that_get_labels_name_from_labels(data, learner):
    X, y = data
    call = rf"FromLabels\({learner.__name__}\(\)\)\.fit\(X, y\)"
    with pytest.raises(ValueError, match=call):
        learner().fit(X, y)
    if "preprocessor" in learner().get_params():
        with pytest.raises(ValueError, match=call):
            learner(preprocessor=X).fit(X[:, :3], y)
    assert FromLabels(learner(), 20, random_state=0).fit(X, y).transform(X).shape == X.shape


@pytest.mark.parametrize("learner", [NCA(), KNCA(), LMNN(), MCML(), RCA(), FromLabels(ITML())])
@quiet
def test_a_continuous_target_names_what_learns_numbers(data, learner):
    X, y = data
    with pytest.raises(ValueError, match=r"Use vicinal.MLKR\(\) or vicinal.NCARegressor\(\)"):
        clone(learner).fit(X, y + X[:, 0])
    for regressor in (MLKR(max_iter=2), NCARegressor(max_iter=2)):
        regressor.fit(X, y + X[:, 0])


@pytest.mark.parametrize("wrap", [list, tuple, lambda y: np.array(y, dtype=object)])
def test_labels_of_mixed_type_are_refused(data, wrap):
    X, y = data
    mixed = wrap(["none" if label == 0 else int(label) for label in y])
    with pytest.raises(
        ValueError, match=r"labels y must all be of one type\. Got int, str instead"
    ):
        NCA(2).fit(X, mixed)


def test_a_class_of_one_row_warns_and_classifies(data):
    X, y = data
    names = np.array(["first", "second", "third"])[y]
    names[0], X[0] = "lonely", 50.0
    for objective in ("log", "accuracy"):
        with pytest.warns(UserWarning, match="no other row of their class.*'lonely'") as caught:
            model = NCA(2, objective=objective).fit(X, names)
        assert len(caught) == 1
        assert caught[0].filename == __file__
        assert model.predict(X[:1]) == ["lonely"]
        assert np.isfinite(model.components_).all()


@quiet
@pytest.mark.parametrize("init", ["auto", "identity", "random", "pca", "lda", "rca", "whiten"])
def test_fewer_rows_than_columns_do_no_harm(rng, init):
    X, y = rng.normal(size=(10, 25)), np.arange(10) % 2
    model = NCA(init=init, max_iter=20, random_state=0).fit(X, y)
    assert model.components_.shape == (25, 25)
    assert np.isfinite(model.components_).all()
    assert model.score(X, y) > 0.5


def test_n_neighbors_past_the_rows_is_clamped_with_a_warning(data):
    X, y = data
    with pytest.warns(UserWarning, match="n_neighbors=37 is more than the 36 training rows"):
        model = NCA(2, rule="knn", n_neighbors=37).fit(X, y)
    assert model.n_neighbors_ == 36
    np.testing.assert_allclose(model.predict_proba(X), 1 / 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NCA(2, n_neighbors=37).fit(X, y)  # nobody votes


# Parameters

LISTED = r"'{}' parameter of NCA must be {}\. Got {} instead"


@pytest.mark.parametrize(
    ("name", "bound", "value"),
    [
        ("n_components", r"an int in \[1, 4\] or None or 'auto'", 0),
        ("n_components", r"an int in \[1, 4\] or None or 'auto'", 5),
        ("n_components", r"an int in \[1, 4\] or None or 'auto'", 2.0),
        ("n_components", r"an int in \[1, 4\] or None or 'auto'", True),
        ("n_components", r"an int in \[1, 4\] or None or 'auto'", "all"),
        ("mapping", "'linear', 'diagonal', 'periodic', 'bins' or a map", "conic"),
        ("mapping", "'linear', 'diagonal', 'periodic', 'bins' or a map", maps.Diagonal),
        ("mapping", "'linear', 'diagonal', 'periodic', 'bins' or a map", np.eye(2)),
        ("objective", "one of 'log', 'accuracy'", "loss"),
        ("objective", "one of 'log', 'accuracy'", None),
        ("init", "one of 'auto', 'identity'.*array of shape .*", "zeros"),
        ("init", "one of 'auto', 'identity'.*array of shape .*", starts.PCA),
        ("init", r"an array of shape \(2, 4\)", np.ones((4, 2))),
        ("init", "an array of finite numbers", [[np.nan] * 4] * 2),
        ("init", "an array of numbers", [["a"] * 4] * 2),
        ("solver", "a str among .*'lbfgs'.* or a solver such as .*", "newton"),
        ("solver", "a str among .*'lbfgs'.* or a solver such as .*", solvers.LBFGS),
        ("alpha", r"a float in \[0.0, inf\) or 'auto' or 'scaled'", -1e-9),
        ("alpha", r"a float in \[0.0, inf\) or 'auto' or 'scaled'", np.inf),
        ("alpha", r"a float in \[0.0, inf\) or 'auto' or 'scaled'", "best"),
        ("cv", r"an int in \[2, inf\), a splitter, an iterable of splits or None", 1),
        ("cv", r"an int in \[2, inf\), a splitter, an iterable of splits or None", "five"),
        ("scaling", "one of 'standard', 'robust', 'global', None", "minmax"),
        ("scaling", "one of 'standard', 'robust', 'global', None", True),
        ("rule", "one of 'posterior', 'knn', 'draw'", "nearest"),
        ("n_neighbors", r"an int in \[1, inf\) or 'auto' or 'local'", 0),
        ("n_neighbors", r"an int in \[1, inf\) or 'auto' or 'local'", None),
        ("n_neighbors", r"an int in \[1, inf\) or 'auto' or 'local'", "entropy"),
        ("early_stopping", "True or False", "yes"),
        ("early_stopping", "True or False", 1),
        ("validation_fraction", r"a float in \(0.0, 1.0\)", 0.0),
        ("validation_fraction", r"a float in \(0.0, 1.0\)", 1.0),
        ("n_iter_no_change", r"an int in \[1, inf\)", 0),
        ("max_iter", r"an int in \[1, inf\) or 'auto'", 0),
        ("max_iter", r"an int in \[1, inf\) or 'auto'", 10.5),
        ("time_budget", r"a float in \(0.0, inf\) or None", 0.0),
        ("reservoir_size", r"an int in \[2, inf\)", 1),
        ("kernel", "a str among .*'compact', 'gaussian', 'laplace', 'student'.*", "cosine"),
        ("sampling", "a str among .*'full', 'mini_batches'.*", "some"),
        ("neighborhood", "a str among .*'nearest'.*", "few"),
        ("tol", r"a float in \[0.0, inf\) or None", -1e-3),
        ("tol", r"a float in \[0.0, inf\) or None", np.nan),
        ("warm_start", "True or False", None),
        ("random_state", r"an int in \[0, 4294967295\], .*", "seed"),
        ("random_state", r"an int in \[0, 4294967295\], .*", np.random.default_rng(0)),
        ("verbose", r"an int in \[0, inf\) or True or False", -1),
    ],
)
def test_unknown_options_are_named(data, name, bound, value):
    model = NCA(2).set_params(**{name: value})
    with pytest.raises((ValueError, TypeError), match=LISTED.format(name, bound, "[^$]*")) as error:
        model.fit(*data)
    got = str(np.shape(value)) if "shape (2" in str(error.value) else repr(value)
    if "array of" not in str(error.value) or "shape (2" in str(error.value):
        assert f"Got {got} instead" in str(error.value)
    assert not hasattr(model, "components_")


@pytest.mark.parametrize(
    "priors",
    [
        "equal",
        [0.5, 0.5],
        [0.5, 0.6, -0.1],
        [0, 0, 0],
        [np.nan, 0.5, 0.5],
        [[1, 1, 1]],
        ["a", "b", "c"],
        [0.5, None, object],
        [[1, 1], [1], [1]],
        {0: 0.5, 1: 0.3, 2: 0.2},
    ],
)
def test_wrong_priors_are_refused(data, priors):
    with pytest.raises(
        ValueError, match=r"'priors' parameter of NCA .*3.* probabilities.* Got"
    ) as error:
        NCA(2, priors=priors).fit(*data)
    assert f"Got {priors!r} instead" in str(error.value)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.ones(35), r"sample_weight must have shape \(36,\). Got \(35,\) instead"),
        (np.ones((36, 1)), r"sample_weight must have shape \(36,\). Got \(36, 1\) instead"),
        (np.zeros(36), "sample_weight must not be zero for all rows"),
        (-np.ones(36), "sample_weight must be finite and not negative"),
        (np.full(36, np.nan), "sample_weight must be finite and not negative"),
        (np.full(36, "heavy"), "sample_weight must be numbers"),
        (np.repeat([1.0, 0.0], [12, 24]), "at least 2 classes. Got 1 class"),
    ],
)
def test_wrong_weights_are_refused(data, weight, message):
    with pytest.raises(ValueError, match=message):
        NCA(2).fit(*data, sample_weight=weight)


def test_a_start_must_fit_the_map(data):
    X, y = data
    with pytest.raises(ValueError, match=r"'init' .* must be diagonal for a diagonal map"):
        NCA(mapping="diagonal", init=np.ones((4, 4))).fit(X, y)
    with pytest.raises(ValueError, match=r"'init' .* must give weight to a column that varies"):
        NCA(2, init=np.zeros((2, 4))).fit(X, y)
    with pytest.raises(ValueError, match=r"'mapping' .* must have n_components=2. Got Linear"):
        NCA(2, mapping=maps.Linear(3)).fit(X, y)
    with pytest.raises(ValueError, match=r"'mapping' .* n_components=1..4. Got Linear"):
        NCA(mapping=maps.Linear(5)).fit(X, y)
    with pytest.raises(ValueError, match="'n_init' parameter of Random must be an int"):
        starts.Random(0)


def test_early_stopping_needs_rows_to_spare(rng):
    X, y = rng.normal(size=(8, 2)), np.repeat(np.arange(4), 2)
    with pytest.raises(ValueError, match="early_stopping=True needs a class of at least 3"):
        NCA(early_stopping=True).fit(X, y)


# Whatever the table

column = st.sampled_from(["normal", "constant", "copy", "tiny", "huge", "binary", "offset", "far"])


def make_column(kind, rng, n, first, size):
    if kind == "far":
        return np.where(np.arange(n) == 0, 1e12, rng.normal(size=n))
    return {
        "normal": rng.normal(size=n),
        "constant": np.full(n, rng.normal()),
        "copy": first,
        "tiny": rng.normal(size=n) / size,
        "huge": size * rng.normal(size=n),
        "binary": (np.arange(n) % 2).astype(float),
        "offset": min(1e9, size**0.25) + rng.normal(size=n),
    }[kind]


@quiet
@given(
    kinds=st.lists(column, min_size=1, max_size=4),
    sizes=st.lists(st.integers(1, 5), min_size=2, max_size=4),
    seed=st.integers(0, 2**16),
    mapping=st.sampled_from(["linear", "diagonal"]),
    objective=st.sampled_from(["log", "accuracy"]),
    scaling=st.sampled_from(["standard", "global", None]),
    rule=st.sampled_from(["posterior", "knn"]),
    alpha=st.sampled_from([0.0, 3e-3]),
    dtype=st.sampled_from([np.float32, np.float64]),
    method=st.sampled_from([NCA, KNCA, partial(KNCA, vote="all", k=2), LMNN, partial(LMNN, k=1)]),
)
def test_no_result_is_ever_nan(
    kinds, sizes, seed, mapping, objective, scaling, rule, alpha, dtype, method
):
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(sizes)), sizes)
    first = rng.normal(size=len(y))
    size = 1e15 if dtype == np.float32 else 1e150
    X = np.stack([make_column(kind, rng, len(y), first, size) for kind in kinds], axis=1)
    X = X.astype(dtype)
    model = method(mapping=mapping, scaling=scaling, alpha=alpha, max_iter=10, random_state=0)
    for name, value in {"objective": objective, "rule": rule}.items():
        if name in model.get_params():
            model.set_params(**{name: value})
    if set(kinds) == {"constant"} or max(sizes) == 1:
        with pytest.raises(ValueError, match=r"constant|at least 2"):
            model.fit(X, y)
        return
    model.fit(X, y)
    P = model.predict_proba(X)
    assert np.isfinite(model.components_).all()
    assert np.isfinite(P).all()
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert np.isfinite(model.loss_)
    if hasattr(model, "effective_n_neighbors"):
        assert np.isfinite(model.effective_n_neighbors()).all()
