"""ONNX models against the estimators that they were made from, run by onnxruntime."""

import json

import numpy as np
import pytest
from onnxruntime import InferenceSession
from sklearn.datasets import load_iris

import vicinal
from vicinal import maps
from vicinal.densities import Compact, Gaussian, Laplace

_X, _Y = (part[::2] for part in load_iris(return_X_y=True))
_RNG = np.random.RandomState(0)
# beside the training rows, some of them, and far from all of them
_QUERIES = np.vstack([
    _RNG.normal(_X.mean(axis=0), 2.0, size=(30, 4)),
    _X[:20],
    _X.mean(axis=0) + 1e5 * np.eye(4),
])  # fmt: skip
_SHORT = {"alpha": 1e-2, "max_iter": 5, "random_state": 0}

CLASSIFIERS = {
    "gaussian": vicinal.NCA(**_SHORT),
    "laplace": vicinal.NCA(kernel="laplace", **_SHORT),
    "laplace-background": vicinal.NCA(kernel=Laplace(background=True), **_SHORT),
    "student": vicinal.NCA(kernel="student", **_SHORT),
    "compact": vicinal.NCA(kernel="compact", **_SHORT),
    "compact-alone": vicinal.NCA(
        kernel=Compact(background=False), objective="accuracy", priors=[0.5, 0.3, 0.2], **_SHORT
    ),
    "background-priors": vicinal.NCA(
        kernel=Gaussian(background=True, beta=0.3), priors="uniform", **_SHORT
    ),
    "votes": vicinal.NCA(rule="knn", n_neighbors=7, **_SHORT),
    "votes-local": vicinal.NCA(rule="knn", n_neighbors="local", **_SHORT),
    "knca": vicinal.KNCA(**_SHORT),
    "knca-all": vicinal.KNCA(k=3, vote="all", **_SHORT),
    "mcml": vicinal.MCML(alpha=1e-2, max_iter=5),
    "lmnn": vicinal.LMNN(max_iter=5, random_state=0),
    "chi2": vicinal.Chi2LMNN(max_iter=5, random_state=0),
    "diagonal": vicinal.NCA(mapping="diagonal", **_SHORT),
    "mlp": vicinal.NCA(mapping=maps.MLP(hidden=(8, 5), activation="tanh"), **_SHORT),
    "mlp-alone": vicinal.NCA(mapping=maps.MLP(hidden=7, residual=False), n_components=2, **_SHORT),
    "bins": vicinal.NCA(mapping=maps.Bins(4), **_SHORT),
    "robust": vicinal.NCA(scaling="robust", **_SHORT),
    "vote": vicinal.MetricVote(["network", "laplace"], n_folds=2, random_state=0),
    "vote-neighbours": vicinal.MetricVote(["low-rank"], n_folds=2, rule="knn", random_state=0),
    "periodic": vicinal.NCA(mapping=maps.Periodic(n_frequencies=3, width=2), **_SHORT),
    "periodic-mlp": vicinal.NCA(
        mapping=maps.Periodic(n_frequencies=3, then=maps.MLP(hidden=6, activation="logistic")),
        **_SHORT,
    ),
}
REGRESSORS = {
    "mlkr": vicinal.MLKR(alpha=1e-3, max_iter=5),
    "mlkr-laplace": vicinal.MLKR(kernel="laplace", alpha=1e-3, max_iter=5),
    "nca": vicinal.NCARegressor(alpha=1e-3, max_iter=5),
    "vote": vicinal.MetricVoteRegressor(["linear", "bins"], n_folds=2, random_state=0),
    "votes": vicinal.NCARegressor(alpha=1e-3, max_iter=5, rule="knn", n_neighbors=4),
}
OTHERS = {
    "covariance": vicinal.Covariance(),
    "from-labels": vicinal.FromLabels(vicinal.ITML(max_iter=20), random_state=0),
    "ksne-map": vicinal.KSNE(mapping="linear", perplexity=5, max_iter=20, random_state=0),
    "lfda": vicinal.LFDA(n_components=2),
    "rca": vicinal.RCA(),
}
TOLERANCE = {np.float64: 1e-10, np.float32: 5e-6}
both_precisions = pytest.mark.parametrize("dtype", [np.float64, np.float32])


def run(graph, X, name="X"):
    session = InferenceSession(graph.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {name: X})


def rows_for(name):
    return (np.abs(_X), np.abs(_QUERIES)) if name == "chi2" else (_X, _QUERIES)


@pytest.fixture(scope="module")
def fitted():
    """Each classifier, fitted once."""
    made = {}

    def get(name):
        if name not in made:
            made[name] = CLASSIFIERS[name].fit(rows_for(name)[0], _Y)
        return made[name]

    return get


@both_precisions
@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:.*no reference in range:UserWarning")
def test_a_classifier_predicts_as_its_estimator(fitted, name, dtype):
    model, queries = fitted(name), rows_for(name)[1].astype(dtype)
    labels, probabilities = run(vicinal.to_onnx(model, queries), queries)
    expected = model.predict_proba(queries)
    assert probabilities.dtype == dtype
    # Kernel and background are compared by absolute logarithms, 1e5 for rows that are far away.
    looser = 100 if name == "laplace-background" and dtype is np.float32 else 1
    assert np.abs(probabilities - expected).max() < looser * TOLERANCE[dtype]
    np.testing.assert_array_equal(labels, model.predict(queries))
    (Z,) = run(vicinal.to_onnx(model, queries, output="transform"), queries)
    expected = model.transform(queries)
    assert np.abs(Z - expected).max() < TOLERANCE[dtype] * np.abs(expected).max()


@both_precisions
@pytest.mark.parametrize("name", REGRESSORS)
@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_regressor_predicts_as_its_estimator(name, n_outputs, dtype):
    y = np.column_stack([10 * _X[:, 0] - _X[:, 2], 1000 + _X[:, 1]])[:, :n_outputs]
    model = REGRESSORS[name].fit(_X, y[:, 0] if n_outputs == 1 else y)
    queries = _QUERIES.astype(dtype)
    (found,) = run(vicinal.to_onnx(model, queries), queries)
    expected = model.predict(queries).reshape(len(queries), n_outputs)
    assert np.abs((found - expected) / y.max(axis=0)).max() < TOLERANCE[dtype]


@both_precisions
@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_transformer_maps_as_its_estimator(name, dtype):
    model = OTHERS[name].fit(_X, _Y)
    queries = _QUERIES.astype(dtype)
    (Z,) = run(vicinal.to_onnx(model, queries), queries)
    expected = model.transform(queries)
    assert np.abs(Z - expected).max() < TOLERANCE[dtype] * np.abs(expected).max()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_estimator_of_pairs_transforms_and_keeps_its_threshold():
    pairs, same, _ = _pairs()
    model = vicinal.ITML(max_iter=20).fit(pairs, same)
    graph = vicinal.to_onnx(model)
    np.testing.assert_allclose(run(graph, _X)[0], model.transform(_X), rtol=1e-10)
    facts = {fact.key: fact.value for fact in graph.metadata_props}
    assert json.loads(facts["threshold"]) == model.threshold_
    with pytest.raises(ValueError, match=r"must be 'auto' or 'transform' for ITML.*'predict'"):
        vicinal.to_onnx(model, output="predict")


def _pairs():
    rng = np.random.RandomState(1)
    left = rng.randint(len(_X), size=60)
    right = (left + rng.randint(1, len(_X), size=60)) % len(_X)
    pairs = np.stack([_X[left], _X[right]], axis=1)
    return pairs, np.where(_Y[left] == _Y[right], 1, -1), left


@both_precisions
@pytest.mark.parametrize("mapping", ["linear", maps.MLP(hidden=4)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_data_far_from_the_origin_keep_their_digits(mapping, dtype):
    X = (_X + np.array([1e5, -3e6, 0.0, 7e4])).astype(np.float32)  # both precisions hold these rows
    model = vicinal.NCA(mapping=mapping, **_SHORT).fit(X.astype(np.float64), _Y)
    queries = X.astype(dtype)
    probabilities = run(vicinal.to_onnx(model, queries), queries)[1]
    tolerance = 1e-9 if dtype is np.float64 else 5e-6
    assert np.abs(probabilities - model.predict_proba(X.astype(np.float64))).max() < tolerance


@both_precisions
@pytest.mark.parametrize("mapping", ["linear", maps.MLP(hidden=4)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_gross_outliers_are_limited_in_predictions_alone(mapping, dtype):
    X = _X.copy()
    X[[3, 40], 1] = 1e6, -2e6
    model = vicinal.NCA(mapping=mapping, **_SHORT).fit(X, _Y)
    X = X.astype(dtype)
    probabilities = run(vicinal.to_onnx(model, X), X)[1]
    assert np.abs(probabilities - model.predict_proba(X)).max() < TOLERANCE[dtype]
    (Z,) = run(vicinal.to_onnx(model, X, output="transform"), X)
    np.testing.assert_allclose(Z, model.transform(X), rtol=1e-5, atol=1e-5)
    assert np.abs(Z).max() > 1e4


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_weights_of_rows_count():
    weight = _RNG.uniform(0.1, 3.0, size=len(_X))
    weight[5] = 0.0
    for model in (vicinal.NCA(**_SHORT), vicinal.NCA(rule="knn", n_neighbors=5, **_SHORT)):
        model.fit(_X, _Y, sample_weight=weight)
        probabilities = run(vicinal.to_onnx(model), _QUERIES)[1]
        assert np.abs(probabilities - model.predict_proba(_QUERIES)).max() < 1e-10
    model = vicinal.MLKR(alpha=1e-3, max_iter=5).fit(_X, _X[:, 0], sample_weight=weight)
    found = run(vicinal.to_onnx(model), _QUERIES)[0][:, 0]
    assert np.abs(found - model.predict(_QUERIES)).max() < 1e-10


def _with_equal_rows(seed):
    """Rows of which many are equal but for their class and weight, and queries among them."""
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(15, 3))[rng.randint(15, size=60)]
    queries = np.vstack([X[:20], X[:20] + rng.normal(scale=0.1, size=(20, 3))])
    return X, rng.randint(3, size=60), rng.uniform(0.1, 3.0, size=60), queries


@both_precisions
@pytest.mark.parametrize("k", [1, 4, 7, "local"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_of_equal_training_rows_the_same_ones_vote(k, dtype):
    for seed in range(3):
        X, y, weight, queries = _with_equal_rows(seed)
        queries = queries.astype(dtype)
        model = vicinal.NCA(rule="knn", n_neighbors=k, **_SHORT).fit(X, y, sample_weight=weight)
        probabilities = run(vicinal.to_onnx(model, queries), queries)[1]
        assert np.abs(probabilities - model.predict_proba(queries)).max() < TOLERANCE[dtype]
        if k == "local":
            continue
        model = vicinal.NCARegressor(rule="knn", n_neighbors=k, alpha=1e-3, max_iter=5)
        model.fit(X, y + weight)
        found = run(vicinal.to_onnx(model, queries), queries)[0][:, 0]
        assert np.abs(found - model.predict(queries)).max() < TOLERANCE[dtype] * 10


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_label_distributions_give_means_of_distributions():
    T = np.eye(3)[_Y] * 0.8 + 0.2 / 3
    for rule in ("posterior", "knn"):
        model = vicinal.NCA(rule=rule, n_neighbors=5, **_SHORT).fit(_X, T)
        probabilities = run(vicinal.to_onnx(model), _QUERIES)[1]
        assert np.abs(probabilities - model.predict_proba(_QUERIES)).max() < 1e-10


@pytest.mark.parametrize(
    ("classes", "dtype"),
    [
        (np.array([-3, 7, 12]), np.int64),
        (np.array([1.0, 2.0, 3.0]), np.int64),
        (np.array([0, 7, 2**63 - 1], dtype=np.uint64), np.int64),
        (np.array(["één", "twee", "drie"]), object),
    ],
)
def test_labels_of_every_kind_come_back(fitted, classes, dtype):
    model = vicinal.NCA(**{**_SHORT, "max_iter": 1})
    with pytest.warns(UserWarning, match="did not converge"):
        model.fit(_X, classes[_Y])
    graph = vicinal.to_onnx(model)
    labels = run(graph, _X)[0]
    assert labels.dtype == dtype
    np.testing.assert_array_equal(labels, model.predict(_X))
    facts = {fact.key: fact.value for fact in graph.metadata_props}
    assert json.loads(facts["classes"]) == model.classes_.tolist()
    assert facts["vicinal_version"] == vicinal.__version__
    assert facts["estimator"] == "NCA"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_votes_among_many_classes_and_votes_that_nobody_wins():
    six = 2 * _Y + (_X[:, 0] > np.median(_X[:, 0]))  # two votes of five may win
    model = vicinal.KNCA(**_SHORT).fit(_X, six)
    probabilities = run(vicinal.to_onnx(model), _QUERIES)[1]
    assert np.abs(probabilities - model.predict_proba(_QUERIES)).max() < 1e-10
    model = vicinal.KNCA(k=1, **_SHORT).fit(_X[[0, 1, 40, 41]], [0, 0, 1, 1])
    for model._model.k, model._model.vote in ((4, "majority"), (3, "all")):
        np.testing.assert_array_equal(run(vicinal.to_onnx(model), _QUERIES)[1], 0.5)
        np.testing.assert_array_equal(model.predict_proba(_QUERIES), 0.5)


def test_missing_values_give_no_probabilities(fitted):
    queries = _X[:3].copy()
    queries[1, 2] = np.nan
    for name in ("gaussian", "knca", "lmnn", "mlp"):
        probabilities = run(vicinal.to_onnx(fitted(name)), queries)[1]
        assert np.isnan(probabilities[1]).all()
        assert np.isfinite(probabilities[[0, 2]]).all()


def test_points_beyond_the_range_of_float32_have_finite_probabilities(fitted):
    queries = np.full((2, 4), 1e30, dtype=np.float32)
    for name in ("gaussian", "student", "compact", "knca"):
        probabilities = run(vicinal.to_onnx(fitted(name), queries), queries)[1]
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-6)


def test_without_rows_the_input_has_the_precision_of_the_fit(fitted):
    assert run(vicinal.to_onnx(fitted("gaussian")), _X)[1].dtype == np.float64
    with pytest.warns(UserWarning, match="did not converge"):
        model = vicinal.NCA(**{**_SHORT, "max_iter": 1}).fit(_X.astype(np.float32), _Y)
    assert run(vicinal.to_onnx(model), _X.astype(np.float32))[1].dtype == np.float32


def test_integers_are_inputs_in_float64(fitted):
    graph = vicinal.to_onnx(fitted("gaussian"), np.arange(8).reshape(2, 4))
    assert run(graph, _X)[1].dtype == np.float64


def test_what_cannot_be_converted_is_refused_by_name(fitted):
    with pytest.raises(ValueError, match=r"'output' parameter of to_onnx must be one of 'auto'"):
        vicinal.to_onnx(fitted("gaussian"), output="both")
    with pytest.raises(ValueError, match=r"'target_opset' parameter.*in \[19, inf\).*Got 15"):
        vicinal.to_onnx(fitted("gaussian"), target_opset=15)
    with pytest.raises(ValueError, match=r"'zipmap' parameter.*must be False for inputs in float"):
        vicinal.to_onnx(fitted("gaussian"), zipmap=True)
    with pytest.raises(TypeError, match=r"'model' parameter of to_onnx must be.*Got 3 instead"):
        vicinal.to_onnx(3)
    with pytest.raises(ValueError, match=r"'X' parameter.*table of numbers.*shape \(4,\)"):
        vicinal.to_onnx(fitted("gaussian"), np.zeros(4))
    drawing = vicinal.NCA(rule="draw", **{**_SHORT, "max_iter": 1})
    picture = vicinal.KSNE(perplexity=5, max_iter=2, random_state=0)
    with pytest.warns(UserWarning, match="converge"):
        drawing.fit(_X, _Y)
    picture.fit(_X)
    with pytest.raises(ValueError, match="the rule 'draw' of NCA"):
        vicinal.to_onnx(drawing)
    with pytest.raises(ValueError, match=r"cannot convert this KSNE.*mapping='linear'"):
        vicinal.to_onnx(picture)
    drawing.set_params(rule="posterior").classes_ = np.array([0.5, 1.5, 2.5])
    with pytest.raises(ValueError, match=r"whole numbers or strings. Got \[0.5"):
        vicinal.to_onnx(drawing)
    drawing.classes_ = np.array([0, 1, 2**63], dtype=np.uint64)
    for zipmap, X in ((False, _X), (True, _X.astype(np.float32))):
        with pytest.raises(
            ValueError, match=r"labels up to 9223372036854775807.*Got 92233720.*808"
        ):
            vicinal.to_onnx(drawing, X, zipmap=zipmap)


def test_a_map_in_torch_is_refused_with_advice(fitted):
    from vicinal.maps.fitted import FittedMap
    from vicinal.onnx._maps import check_map

    class TorchMap:
        pass

    learnt = object.__new__(FittedMap)
    learnt.mapping = TorchMap()
    with pytest.raises(ValueError, match=r"TorchMap.*of NCA. Export the module with torch.onnx"):
        check_map(learnt, "NCA")


def test_memory_does_not_grow_with_the_number_of_rows(fitted):
    """Rows go one by one: every array in the loop is as large as the stored rows, whatever M."""
    graph = vicinal.to_onnx(fitted("gaussian")).graph
    kinds = [node.op_type for node in graph.node]
    assert kinds.count("Scan") == 1
    assert not {"Exp", "TopK", "ReduceSumSquare"} & set(kinds)  # all of it is in the loop


def test_numbers_beyond_float32_need_rows_of_float64():
    X = (1e-40 * _X).astype(np.float32)
    with pytest.warns(UserWarning, match="'components_' is float64"):
        model = vicinal.LFDA(2).fit(X, _Y)
    (Z,) = run(vicinal.to_onnx(model), X.astype(np.float64))
    np.testing.assert_allclose(Z, model.transform(X))
    with pytest.raises(
        ValueError, match=r"'X' parameter of to_onnx must be float64: .* float32 ends"
    ):
        vicinal.to_onnx(model, X)
