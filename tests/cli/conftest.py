"""Tables of a few rows, and the command line in this process."""

import json

import pytest

pytest.importorskip("click")


@pytest.fixture
def run():
    """Run a command line in this process; returns what click's runner saw."""
    from click.testing import CliRunner

    from vicinal.cli import _group

    def invoke(*words, stdin=None, code=0):
        done = CliRunner().invoke(_group.vicinal, [str(word) for word in words], input=stdin)
        assert done.exit_code == code, done.output
        assert "Traceback" not in done.stderr
        return done

    return invoke


@pytest.fixture
def run_json(run):
    """The JSON object that a command line prints."""
    return lambda *words, **more: json.loads(run(*words, "--json", **more).stdout)


@pytest.fixture(scope="session")
def iris_folder(tmp_path_factory):
    """Every third row of iris as CSV, and the others as a test table."""
    pytest.importorskip("pandas")
    from sklearn.datasets import load_iris

    folder = tmp_path_factory.mktemp("iris")
    bunch = load_iris(as_frame=True)
    frame = bunch.data.rename(columns=lambda name: name.replace(" (cm)", "").replace(" ", "_"))
    frame["species"] = bunch.target_names[bunch.target]
    frame[::3].to_csv(folder / "iris.csv", index=False)
    frame[1::3].to_csv(folder / "test.csv", index=False)
    return folder


@pytest.fixture
def iris(iris_folder, tmp_path, monkeypatch):
    """A folder of its own with iris.csv and test.csv, and the present one."""
    for name in ("iris.csv", "test.csv"):
        (tmp_path / name).write_bytes((iris_folder / name).read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path
