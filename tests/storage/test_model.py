"""Models in files: the same bits after loading, and refusals that name what has no place there."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from storage_models import FRAME, MODELS, NEW, WORDS, X, Y, answers, fitted, learner

import vicinal
from vicinal import KSNE, NCA, maps, storage
from vicinal.storage import FileError, container, made_up
from vicinal.storage.fields import stored_fields
from vicinal.storage.names import HOMES, name_of

HERE = Path(__file__).parent


def same(one, other):
    assert one.keys() == other.keys()
    for key, value in one.items():
        np.testing.assert_array_equal(value, other[key], err_msg=key)
        assert value.dtype == other[key].dtype


def through_file(model, tmp_path, **options):
    path = tmp_path / "model.vic"
    vicinal.save(model, path)
    return vicinal.load(path, **options)


@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_model_says_the_same_bits(name, tmp_path):
    model = fitted(name)
    loaded = through_file(model, tmp_path)
    same(answers(model), answers(loaded))
    assert type(loaded) is type(model)
    assert clone(loaded).get_params().keys() == model.get_params().keys()
    again = tmp_path / "again.vic"
    vicinal.save(loaded, again)
    assert again.read_bytes() == (tmp_path / "model.vic").read_bytes()


def test_every_estimator_is_among_the_models():
    kept = {type(fitted(name)) for name in MODELS}
    for name in vicinal.__all__:
        public = getattr(vicinal, name)
        if inspect.isclass(public):
            assert public in kept, name
            assert callable(public.save)


def test_every_attribute_of_a_fit_is_kept(tmp_path):
    for name in ("nca searched", "nca weights", "ksne", "lmnn", "from labels", "nca regressor"):
        model, remade = fitted(name), {"_skl_callbacks"}
        loaded = through_file(model, tmp_path)
        assert vars(loaded).keys() | remade == vars(model).keys() | remade
        assert clone(loaded).get_params().keys() == model.get_params().keys()
    assert loaded.history_.keys() == model.history_.keys()
    np.testing.assert_equal(loaded.history_, model.history_)
    assert loaded.plan_ == model.plan_


def test_what_is_shared_stays_shared(tmp_path):
    loaded = through_file(fitted("nca"), tmp_path)
    assert loaded.components_ is loaded._map.components


@pytest.mark.filterwarnings("ignore:.* did not converge")
def test_streams_and_warm_starts_go_on_to_the_same_bits(tmp_path):
    for name in ("nca stream", "knca stream"):
        model = MODELS[name]()
        loaded = through_file(model, tmp_path)
        for each in (model, loaded):
            each.partial_fit(X, WORDS[Y])
        np.testing.assert_array_equal(model.components_, loaded.components_)
    for name in ("nca warm", "lmnn", "ksne map"):
        model = fitted(name)
        loaded = through_file(model, tmp_path)
        fresh = through_file(model, tmp_path)
        found = [each.fit(X, Y).components_ for each in (loaded, fresh)]
        np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (KSNE(metric=lambda a, b: 0.0), r"'metric' parameter of KSNE is the function '<lambda>'"),
        (NCA(cv=KFold(3)), "'cv' parameter of NCA is an object of class KFold, .* cannot hold"),
        (NCA(init=np.ma.zeros((2, 3))), "'init' parameter of NCA is a masked array"),
        (NCA(init=np.zeros((2, 3), complex)), "'init' parameter of NCA has dtype complex128"),
        (NCA(random_state=2**70), "'random_state' parameter of NCA must fit into 64 bits"),
        (PCA(), "Got a PCA instead"),
        (
            make_pipeline(MinMaxScaler(), NCA()),
            "step 'minmaxscaler' is a MinMaxScaler, which",
        ),
    ],
)
def test_what_has_no_place_in_a_file_is_refused_by_name(model, message, tmp_path):
    with pytest.raises(TypeError, match=message):
        vicinal.save(model, tmp_path / "model.vic")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("lost", ["pandas", "polars"])
@pytest.mark.parametrize("options", [{}, {"max_categories": None}, {"method": "kt-sne"}])
@pytest.mark.filterwarnings("ignore")
def test_pipelines_are_made_again(options, lost, tmp_path, monkeypatch):
    """From public attributes, on either library for data frames."""
    frame = FRAME[["number", "gaps", "kind", "rare", "text"]]
    if lost == "polars":
        frame = frame.astype({"number": "f4", "gaps": "f4"})
    if options.get("method"):
        frame, options = frame[["number", "gaps"]], {**options, "perplexity": 5}
    options = {**options, "max_iter": 3}
    new = frame.iloc[:NEW].copy()
    new.iloc[0] = [np.nan] * new.shape[1]
    if "rare" in new:
        new.iloc[1, new.columns.get_loc("rare")] = "never seen"
    model = learner(frame=frame, **options)
    path = tmp_path / "model.vic"
    vicinal.save(model, path)
    if lost == "pandas":

        def fail(columns, names):
            raise ImportError("pandas")

        monkeypatch.setattr(made_up, "_in_pandas", fail)
    loaded = vicinal.load(path)
    prepared = [m[:-1].transform(new) for m in (model, loaded)]
    np.testing.assert_array_equal(*prepared)
    assert prepared[0].dtype == prepared[1].dtype
    names = [m[:-1].get_feature_names_out().tolist() for m in (model, loaded)]
    assert names[0] == names[1]
    np.testing.assert_array_equal(loaded.transform(new), model.transform(new))


def test_texts_of_many_words_are_reduced_as_before(tmp_path):
    rng = np.random.default_rng(0)
    words = np.array([f"word{i}" for i in range(200)])
    frame = FRAME[["number"]].assign(text=[" ".join(rng.choice(words, 30)) for _ in FRAME.index])
    model = learner(frame=frame, max_iter=2)
    assert model[0].named_transformers_["text"].components_[0] is not None
    loaded = through_file(model, tmp_path)
    np.testing.assert_array_equal(loaded.transform(frame), model.transform(frame))


def test_a_torch_map_needs_its_module(tmp_path):
    """What is stored of one, without torch; tests/with_torch has the rest."""
    fields = {"n_components": 2, "dtype": None, "kind": "Sequential",
              "state": {"dict": {"0.weight": {"array": "w"}}}}  # fmt: skip
    coded = {"class": "NCA", "fields": {"mapping": {"class": "map.TorchMap", "fields": fields}}}
    header = {"format": "vicinal", "schema": 1, "kind": "model", "model": coded}
    path = tmp_path / "model.vic"
    container.write(path, header, {"w": np.zeros((2, 3))})
    with pytest.raises(FileError, match=r"a module 'Sequential', .*: load\(path, module=\.\.\.\)"):
        vicinal.load(path)
    with pytest.raises(FileError, match="it holds no TorchMap: 'module' must be None"):
        through_file(fitted("nca"), tmp_path, module=object())


def test_describe_reads_no_model(tmp_path):
    path = tmp_path / "model.vic"
    fitted("nca words").save(path)
    about = storage.describe(path)
    assert about["kind"] == "model"
    assert about["schema"] == 1
    assert about["versions"]["vicinal"] == vicinal.__version__
    assert about["about"]["estimator"] == "NCA"
    assert about["about"]["classes"] == ["ant", "bee", "cat"]
    assert about["about"]["parameters"]["rule"] == "knn"
    assert about["arrays"]["model.components_"] == ("float64", (2, 3))
    json.dumps(about)


def test_only_files_with_models_are_loaded(tmp_path):
    path = tmp_path / "state.vic"
    storage.write_object(path, "state", {"a": 1})
    with pytest.raises(FileError, match=r"state\.vic must hold a model. Got 'state' instead"):
        vicinal.load(path)
    assert storage.read_object(path, "state") == {"a": 1}
    with pytest.raises(FileError, match=r"must hold a run\. Got 'state' instead"):
        storage.read_object(path, "run")


def test_nothing_is_imported_but_what_a_file_holds(tmp_path):
    """Names lead to modules; those of a file alone are imported."""
    path = tmp_path / "model.vic"
    vicinal.save(vicinal.RCA(2).fit(X, Y), path)
    code = (
        f"import vicinal, sys; vicinal.load({str(path)!r}); "
        "print([m for m in ('vicinal.estimators.ksne', 'vicinal.compat', 'torch') "
        "if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_old_files_load_for_ever():
    """Files that releases have written, and what their models said."""
    files = sorted((HERE / "data").glob("*.vic"))
    assert len(files) >= 10
    for path in files:
        model = vicinal.load(path)
        said = np.load(path.with_suffix(".npz"), allow_pickle=False)
        found = answers(model)
        assert said.files
        for key in said:
            if said[key].dtype.kind == "f":  # other processors round the last digits otherwise
                np.testing.assert_allclose(found[key], said[key], rtol=1e-6, atol=1e-9)
            else:
                np.testing.assert_array_equal(found[key].astype(said[key].dtype), said[key])


def test_every_class_of_a_model_is_in_the_table():
    """Whatever a fit leaves: an object without a name could not be saved."""
    met = set()

    def walk(value):
        kind = type(value)
        if kind.__module__.startswith("vicinal"):
            assert name_of(kind) in HOMES, kind
            met.add(kind)
        if isinstance(value, dict):
            parts = value.values()
        elif isinstance(value, list | tuple):
            parts = value
        else:
            parts = stored_fields(value).values() if kind in met else ()
        for part in parts:
            walk(part)

    for name in MODELS:
        if name != "pipeline":
            walk(fitted(name))
    assert len(met) > 50
    assert maps.MLP in met


def crafted(tmp_path, coded, arrays):
    """A file with a valid checksum, whatever it holds."""
    path = tmp_path / "crafted.vic"
    header = {"format": "vicinal", "schema": 1, "kind": "model", "model": coded}
    container.write(path, header, arrays)
    return path


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"strings": ["a"], "shape": [1], "dtype": "str4294967296"}, "too much memory"),
        ({"list": [{"bytes": "big"}, {"bytes": "big"}], "tuple": False}, "used for two lists"),
        ({"list": [{"numbers": "big", "tuple": True}] * 2, "tuple": False}, "used for two lists"),
        ({"numbers": "huge", "tuple": False}, "at most 10000000 numbers"),
        ({"sparse": "csr_array", "shape": [2, 3], "data": {"array": "data"},
          "indices": {"array": "outside"}, "indptr": {"array": "ends"}}, r"must be in \[0, 3\)"),
        ({"random_state": {"list": ["MT19937", {"array": "key"}, 10**6, 0, 0.0], "tuple": True}},
         "position of MT19937"),
        ({"array": "ends", "view": "O"}, "dates must be int64"),
        ({"class": "os:system", "fields": {}}, "not a class that a model file may hold"),
        ({"class": "solver.Adam", "fields": {"learning_rate": 0.1, "x": 1}}, "has no field"),
        ({"dict": {}, "array": "key"}, "unknown keys"),
        ([1, 2], "A list must be stored as"),
    ],
)  # fmt: skip
def test_crafted_values_are_refused(value, message, tmp_path):
    arrays = {
        "big": np.zeros(1000, np.uint8), "huge": np.zeros(10**7 + 1, bool), "data": np.ones(2),
        "outside": np.array([0, 3]), "ends": np.array([0, 1, 2]), "key": np.zeros(624, np.uint32),
    }  # fmt: skip
    coded = {"class": "NCA", "fields": {"init": value}}
    with pytest.raises(FileError, match=message):
        vicinal.load(crafted(tmp_path, coded, arrays))
