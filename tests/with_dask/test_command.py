"""`vicinal predict` and `transform` over folders of tables, on the workers of a cluster."""

import filecmp
import os
from pathlib import Path

import numpy as np
import pytest
from with_dask.conftest import local_cluster
from with_dask.tables import dies_once, rows, through

import vicinal

pd = pytest.importorskip("pandas")
pytest.importorskip("click")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

X, y = rows(1200)
COLUMNS = [f"x{j}" for j in range(12)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A model, and a folder with six files, one of them without rows."""
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame(X, columns=COLUMNS)
    model = vicinal.NCA(2, alpha=1e-3, max_iter=5, random_state=0).fit(frame, y)
    model.save("m.vic")
    frame["truth"] = y
    for part in range(5):
        Path(f"in/month={part}").mkdir(parents=True)
        few, name = frame[part::5], f"in/month={part}/part"
        few.to_parquet(f"{name}.parquet") if part % 2 else few.to_csv(f"{name}.csv", index=False)
    frame[:0].to_csv("in/nothing.csv", index=False)
    return model


def run(*words, code=0):
    from click.testing import CliRunner

    from vicinal.cli import _group

    done = CliRunner().invoke(_group.vicinal, list(words))
    assert done.exit_code == code, done.output
    return done


def assert_same_files(here, there):
    names = sorted(str(path.relative_to(here)) for path in Path(here).rglob("part.*"))
    assert len(names) == 5
    assert names == sorted(str(path.relative_to(there)) for path in Path(there).rglob("part.*"))
    assert not any(path.name.startswith(".") for path in Path(there).rglob("*"))
    _, mismatch, errors = filecmp.cmpfiles(here, there, names, shallow=False)
    assert not mismatch + errors


def test_workers_write_the_same_files(folder, client, cluster):
    one = run("predict", "m.vic", "in", "--proba", "--label", "truth", "-o", "here")
    there = run("predict", "m.vic", "in", "--proba", "--label", "truth", "-o", "there",
                "--scheduler", cluster.scheduler_address)  # fmt: skip
    assert_same_files("here", "there")
    assert "Wrote 1200 rows in 5 files to there." in there.stdout
    assert "nothing.csv has a header and no rows: it is left out." in there.stderr
    assert sorted(one.stderr.splitlines()) == sorted(there.stderr.splitlines())
    guesses = pd.concat([pd.read_csv(path) for path in Path("there").rglob("*.csv")])
    np.testing.assert_array_equal(guesses["prediction"], folder.predict(guesses[COLUMNS]))
    run("transform", "m.vic", "in", "-o", "mapped", "--scheduler", cluster.scheduler_address)
    assert len(list(Path("mapped").rglob("part.*"))) == 5


def test_errors_of_workers_name_the_file(folder, client, cluster):
    Path("in/month=2/part.csv").write_text("x0,x1\n1,2\n")
    done = run("predict", "m.vic", "in", "-o", "there", "--scheduler", cluster.scheduler_address,
               code=1)  # fmt: skip
    assert "in/month=2/part.csv has no column 'x2'" in done.stderr


def test_a_worker_dies(folder, monkeypatch, tmp_path):
    run("predict", "m.vic", "in", "-o", "here")
    marker = str(tmp_path / "died")

    def wrap(function, args):
        dies = function.__name__ == "_write_there"
        return (dies_once, (marker, function, *args)) if dies else (function, args)

    through(monkeypatch, wrap)
    with local_cluster(2) as mortal:
        run("predict", "m.vic", "in", "-o", "there", "--scheduler", mortal.scheduler_address)
    assert os.path.exists(marker)
    assert_same_files("here", "there")


def test_a_lost_scheduler_is_named(folder, monkeypatch):
    from with_dask.test_lost import own_cluster

    with own_cluster() as (address, scheduler):

        def wrap(function, args):
            if function.__name__ == "_write_there" and args[1].source.parent.name == "month=3":
                scheduler.kill()
                scheduler.wait()
            return function, args

        through(monkeypatch, wrap)
        done = run("predict", "m.vic", "in", "-o", "there", "--scheduler", address, code=1)
    assert f"The scheduler at {address} has gone" in done.stderr
    assert "Run the command again with --force" in done.stderr
