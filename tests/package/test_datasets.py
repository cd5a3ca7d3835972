"""Data sets by name: where a name leads, and what is refused on the way."""

import os
import re
from urllib.error import URLError

import numpy as np
import pytest
from sklearn.utils import Bunch

from vicinal import datasets
from vicinal.datasets import _sources

REAL_FOLDER = os.environ.get("VICINAL_DATA")
SIZES = {
    "balance": (625, 4, 3),
    "ecoli": (336, 7, 8),
    "glass": (214, 9, 6),
    "housing": (506, 13, 0),
    "ionosphere": (351, 33, 2),
    "iris": (150, 4, 3),
    "landsat": (6435, 36, 6),
    "pima": (768, 8, 2),
    "segment": (2310, 18, 7),
    "transfusion": (748, 4, 2),
    "usps": (11000, 256, 10),
    "wine": (178, 13, 3),
    "yeast": (1484, 8, 10),
}


@pytest.fixture(autouse=True)
def _no_network_and_no_folder(monkeypatch):
    def unreachable(*args, **kwargs):
        raise URLError("no network in the tests")

    monkeypatch.setattr(_sources, "fetch_openml", unreachable)
    monkeypatch.delenv("VICINAL_DATA", raising=False)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("VICINAL_DATA", str(tmp_path))
    return tmp_path


def arrays(**changes):
    """What a sound file holds, but for some changes; None leaves one out."""
    sound = {
        "X": np.arange(12, dtype=np.float32).reshape(4, 3),
        "y": np.array([0, 1, 1, 0]),
        "feature_names": np.array(["a", "b", "c"]),
        "class_names": np.array(["no", "yes"]),
    }
    return {key: value for key, value in {**sound, **changes}.items() if value is not None}


@pytest.fixture
def openml(monkeypatch):
    """Sets that fetch_openml has; what it was asked for is kept in `asked`."""
    shelf = Bunch(sets={}, asked=[])

    def fetch(name, *, version, data_home, as_frame, parser):
        shelf.asked.append((name, version, data_home))
        assert (as_frame, parser) == (False, "liac-arff")  # needs no pandas
        if name not in shelf.sets:
            raise ValueError(f"No known dataset {name}")
        return shelf.sets[name]

    monkeypatch.setattr(_sources, "fetch_openml", fetch)
    return shelf


def fetched(data, target, **more):
    data = np.asarray(data, dtype=np.float64)
    names = [f"V{column}" for column in range(data.shape[1])]
    return Bunch(
        data=data, target=target, **{"feature_names": names, "categories": {}, **more}
    )  # fmt: skip


# -- the folder


def test_folder(folder):
    np.savez(folder / "mine.npz", **arrays(is_train=np.array([True, False, True, True])))
    found = datasets.load("mine")
    np.testing.assert_array_equal(found.data, arrays()["X"])
    assert found.data.dtype == np.float32
    assert found.target.tolist() == [0, 1, 1, 0]
    assert found.target.dtype == np.int64
    assert found.feature_names == ["a", "b", "c"]
    assert found.target_names.tolist() == ["no", "yes"]
    assert found.is_train.tolist() == [True, False, True, True]
    assert (found.name, found.source) == ("mine", "folder")
    assert "4 rows, 3 features, 2 classes" in found.DESCR
    assert "3 training and 1 test rows" in found.DESCR
    X, y = datasets.load("mine", return_X_y=True)
    np.testing.assert_array_equal(X, found.data)
    np.testing.assert_array_equal(y, found.target)


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [("uint8", "float32"), ("int16", "float32"), ("int32", "float64"), ("float64", "float64")],
)
def test_folder_dtypes(folder, stored, wanted):
    np.savez(folder / "mine.npz", **arrays(X=np.arange(12).reshape(4, 3).astype(stored)))
    found = datasets.load("mine")
    assert found.data.dtype == wanted
    np.testing.assert_array_equal(found.data, np.arange(12).reshape(4, 3))


def test_folder_with_a_continuous_target(folder):
    y = np.array([0.5, 1.5, 2.0, 3.0])
    np.savez(folder / "mine.npz", **arrays(y=y, class_names=np.array([], dtype=str)))
    found = datasets.load("mine")
    np.testing.assert_array_equal(found.target, y)
    assert found.target_names.shape == (0,)
    assert found.is_train is None
    assert "a continuous target" in found.DESCR


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": None, "class_names": None}, "it lacks 'y', 'class_names'"),
        ({"X": np.zeros(4)}, r"'X' must be a matrix of numbers. Got an array of shape \(4,\)"),
        ({"X": np.zeros((0, 3))}, r"'X' must be a matrix of numbers. Got .* shape \(0, 3\)"),
        ({"X": np.full((4, 3), "a")}, "'X' must be a matrix of numbers. Got .* dtype <U1"),
        ({"X": np.array([[0, np.nan, 0]] * 2 + [[0, 1, 2]] * 2)}, "2 of 4 rows have missing or"),
        ({"y": np.zeros(3, dtype=int)}, r"'y' must hold 4 integers or floats. Got .* \(3,\)"),
        ({"y": np.array(list("abcd"))}, "'y' must hold 4 integers or floats. Got .* dtype <U1"),
        ({"y": np.array([0, 1, 2, 0])}, r"codes in \[0, 1\].* Got codes from 0 to 2 instead"),
        ({"y": np.array([0, -1, 1, 0])}, r"codes in \[0, 1\].* Got codes from -1 to 1 instead"),
        ({"y": np.array([0.0, 1.0, 1.0, 0.0])}, "'y' holds floats, but there are 2 'class_names'"),
        ({"feature_names": np.array(["a"])}, r"'feature_names' must hold 3 strings. Got .* \(1,\)"),
        ({"class_names": np.array([1, 2])}, "'class_names' must be a list of strings. Got .* int"),
        ({"is_train": np.ones(4)}, "'is_train' must hold 4 booleans. Got .* dtype float64"),
        ({"X": np.array([[None] * 3] * 4)}, "cannot be read as a NumPy archive of plain arrays"),
    ],
)
def test_malformed_file(folder, changes, message):
    """The error names the file, and a worse source is not asked instead."""
    np.savez(folder / "iris.npz", **arrays(**changes))
    with pytest.raises(ValueError, match=message) as caught:
        datasets.load("iris")
    assert str(folder / "iris.npz") in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 cut short"])
def test_file_that_is_no_archive(folder, content):
    (folder / "mine.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"mine.npz' cannot be read as a NumPy archive"):
        datasets.load("mine")


# -- scikit-learn's own


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("breast_cancer", (569, 30, 2)),
        ("digits", (1797, 64, 10)),
        ("iris", (150, 4, 3)),
        ("wine", (178, 13, 3)),
    ],
)
def test_builtin(name, size):
    found = datasets.load(name)
    assert found.source == "builtin"
    assert_is_data_set(found, size)


def test_the_folder_comes_first(folder):
    np.savez(folder / "iris.npz", **arrays())
    assert datasets.load("iris").source == "folder"
    assert datasets.load("iris", source="builtin").source == "builtin"
    assert datasets.load("wine").source == "builtin"


def test_available(folder, monkeypatch):
    for name in ("b", "a", ".hidden"):
        np.savez(folder / f"{name}.npz", **arrays())
    builtin = ["breast_cancer", "digits", "iris", "wine"]
    assert datasets.available() == {"folder": ["a", "b"], "builtin": builtin}
    monkeypatch.setenv("VICINAL_DATA", str(folder / "nowhere"))
    assert datasets.available() == {"folder": [], "builtin": builtin}
    monkeypatch.delenv("VICINAL_DATA")
    assert datasets.available() == {"folder": [], "builtin": builtin}


# -- OpenML


def test_openml_names_of_the_papers(openml, tmp_path):
    rng = np.random.default_rng(0)
    openml.sets["balance-scale"] = fetched(
        rng.normal(size=(625, 4)), np.array(["L", "B", "R"] * 208 + ["L"], dtype=object)
    )
    found = datasets.load("balance", data_home=tmp_path)
    assert openml.asked == [("balance-scale", 1, tmp_path)]
    assert_is_data_set(found, (625, 4, 3))
    assert found.target_names.tolist() == ["B", "L", "R"]
    assert found.target[:3].tolist() == [1, 0, 2]
    assert (found.name, found.source) == ("balance", "openml")
    assert "OpenML's 'balance-scale', version 1" in found.DESCR


def test_openml_official_split(openml, monkeypatch):
    entry = _sources._PAPERS["mnist"]._replace(n=5, d=2, n_train=3)
    monkeypatch.setitem(_sources._PAPERS, "mnist", entry)
    openml.sets["mnist_784"] = fetched(np.ones((5, 2)), np.array(list("01010"), dtype=object))
    assert datasets.load("mnist").is_train.tolist() == [True] * 3 + [False] * 2


def test_openml_other_names_and_versions(openml):
    openml.sets["any"] = fetched(np.eye(3), np.array([0.5, 1.5, 2.5]))
    found = datasets.load("any")
    assert found.target_names.shape == (0,)
    assert found.target.dtype == np.float64
    assert datasets.load("any:3").name == "any:3"
    assert [asked[:2] for asked in openml.asked] == [("any", "active"), ("any", 3)]
    with pytest.raises(ValueError, match=r"Only OpenML has versions. Got name='any:3'"):
        datasets.load("any:3", source="folder")


def test_openml_columns_that_do_not_vary(openml):
    data = np.random.default_rng(0).normal(size=(351, 34))
    data[:, 1] = 0
    openml.sets["ionosphere"] = fetched(data, np.array(["g", "b"] * 175 + ["g"], dtype=object))
    found = datasets.load("ionosphere")
    assert_is_data_set(found, (351, 33, 2))
    assert "V1" not in found.feature_names
    assert "without constant columns (V1)" in found.DESCR
    assert datasets.load("ionosphere:1").data.shape == (351, 34)  # as it is


def test_openml_copy_of_another_size(openml):
    openml.sets["satimage"] = fetched(np.ones((6430, 36)), np.array(["1.", "2."] * 3215, dtype="O"))
    with pytest.warns(UserWarning, match="not the 'landsat' of the papers: 6430 rows") as caught:
        datasets.load("landsat")
    assert caught[0].filename == __file__


def test_openml_classes_in_the_order_of_numbers(openml):
    target = np.array(["10", "9", "2", "10"], dtype=object)
    openml.sets["any"] = fetched(np.eye(4), target)
    found = datasets.load("any")
    assert found.target_names.tolist() == ["2", "9", "10"]
    np.testing.assert_array_equal(found.target_names[found.target], target)


def test_openml_categories(openml):
    """Codes become the numbers they stand for; words are refused, by the names of the columns."""
    target = np.array(["a", "b", "a"], dtype=object)
    codes = [[0, 1.5], [2, 2.5], [1, 3.5]]
    openml.sets["any"] = fetched(codes, target, categories={"V0": ["24", "1", "5"]})
    np.testing.assert_array_equal(datasets.load("any").data, [[24, 1.5], [5, 2.5], [1, 3.5]])
    openml.sets["any"] = fetched(codes, target, categories={"V0": ["red", "green", "blue"]})
    with pytest.raises(ValueError, match="'any' has columns that are not numbers: V0"):
        datasets.load("any")


def test_openml_gaps_and_targets_that_do_not_fit(openml):
    y = np.array(["a", "b", "a"], dtype=object)
    openml.sets["any"] = fetched([[np.nan, 0], [1, 2], [np.nan, np.nan]], y)
    with pytest.raises(ValueError, match="has missing values in 2 of 3 rows"):
        datasets.load("any")
    openml.sets["any"] = fetched(np.eye(3), np.array([0.5, np.nan, 1]))
    with pytest.raises(ValueError, match="has missing values in 1 of 3 targets"):
        datasets.load("any")
    for target in (None, np.zeros((3, 2))):
        openml.sets["any"] = fetched(np.eye(3), target)
        with pytest.raises(ValueError, match="must have one target column"):
            datasets.load("any")


# -- names that lead nowhere


def test_the_error_says_what_was_tried(openml, tmp_path, monkeypatch):
    with pytest.raises(OSError, match="The data set 'nothing' was not found") as caught:
        datasets.load("nothing")
    lines = str(caught.value).splitlines()
    assert lines[1:] == [
        "- folder: the environment variable VICINAL_DATA is not set.",
        "- builtin: scikit-learn has breast_cancer, digits, iris, wine.",
        "- openml: asked for 'nothing', got ValueError: No known dataset nothing",
    ]
    monkeypatch.setenv("VICINAL_DATA", str(tmp_path))
    with pytest.raises(OSError, match=f"is {re.escape(repr(str(tmp_path)))}.* no nothing.npz"):
        datasets.load("nothing")
    monkeypatch.setenv("VICINAL_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(OSError, match="there is no such folder"):
        datasets.load("nothing")


def test_no_network():
    with pytest.raises(OSError, match=r"'balance-scale', version 1, got URLError: .*no network"):
        datasets.load("balance")


def test_one_source_only(openml):
    with pytest.raises(OSError, match="not found") as caught:
        datasets.load("balance", source="builtin")
    assert len(str(caught.value).splitlines()) == 2
    assert openml.asked == []


@pytest.mark.parametrize(
    "name",
    ["../iris", "a/b", "a\\b", "/iris", "C:iris", "..", ".", "", " ", "a\0b", "a:0", "a:", 3],
)
def test_names_that_are_not_plain(name, folder, openml):
    np.savez(folder / "iris.npz", **arrays())
    with pytest.raises(ValueError, match="The 'name' parameter of load must be the plain name"):
        datasets.load(name)
    assert openml.asked == []


def test_bad_options():
    with pytest.raises(
        ValueError, match="'source' parameter of load must be one of None, 'folder'"
    ):
        datasets.load("iris", source="web")
    with pytest.raises(ValueError, match="'return_X_y' parameter of load must be True or False"):
        datasets.load("iris", return_X_y="yes")


@pytest.mark.skipif(REAL_FOLDER is None, reason="VICINAL_DATA names no folder")
@pytest.mark.parametrize("name", SIZES)
def test_sets_of_the_papers(name, monkeypatch):
    monkeypatch.setenv("VICINAL_DATA", REAL_FOLDER)
    if name not in datasets.available()["folder"]:
        pytest.skip(f"no {name}.npz in the folder")
    assert_is_data_set(datasets.load(name, source="folder"), SIZES[name])


def assert_is_data_set(found, size):
    n, d, classes = size
    assert found.data.shape == (n, d)
    assert found.data.dtype in (np.float32, np.float64)
    assert found.target.shape == (n,)
    assert len(found.feature_names) == d
    assert all(type(feature) is str for feature in found.feature_names)
    assert found.target_names.shape == (classes,)
    assert found.target_names.dtype.kind == "U"
    if classes:
        assert found.target.dtype == np.int64
        assert np.unique(found.target).tolist() == list(range(classes))
    else:
        assert found.target.dtype == np.float64
    assert f"{n} rows, {d} features" in found.DESCR
