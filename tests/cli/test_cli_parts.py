"""Folders of tables: predicted and mapped part by part, in bounded memory."""

import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import vicinal
from vicinal.cli import _parts

COLUMNS = ["a", "b", "c", "d"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model of three columns and the column of a folder, and its file."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 4)), columns=COLUMNS)
    X["d"] = (np.arange(300) % 3).astype(float)
    y = np.where(X["a"] + X["d"] > 1, "high", "low")
    fitted = vicinal.NCA(2, alpha=0.01, max_iter=10, random_state=0).fit(X, y)
    path = tmp_path_factory.mktemp("parts") / "m.vic"
    vicinal.save(fitted, path)
    return fitted, path


def frame(n, seed=1):
    rng = np.random.default_rng(seed)
    made = pd.DataFrame(rng.normal(size=(n, 4)), columns=COLUMNS)
    made.insert(0, "id", pd.array(np.arange(n), dtype="Int64"))
    made["truth"] = np.where(made["a"] > 0, "high", "low")
    return made


@pytest.fixture
def parts(tmp_path, monkeypatch):
    """A folder by year with Parquet files, a CSV file, one without rows, and what is no table."""
    monkeypatch.chdir(tmp_path)
    whole = []
    for d in (0, 2):
        folder = Path("in", f"d={d}")
        folder.mkdir(parents=True)
        rows = frame(250, d).drop(columns="d")
        rows.loc[3:9, "id"] = pd.NA
        pq.write_table(pa.Table.from_pandas(rows, preserve_index=False), folder / "part.0.parquet",
                       row_group_size=70)  # fmt: skip
        whole.append(rows.assign(d=float(d)))
    more = frame(40, 7)
    Path("in/more.csv.gz").write_bytes(gzip.compress(more.to_csv(index=False).encode()))
    whole.append(more)
    frame(0).to_parquet("in/nothing.parquet")
    Path("in/_SUCCESS").write_text("")
    Path("in/notes.txt").write_text("no table")
    return whole


def test_each_part_is_predicted(model, parts, run, monkeypatch):
    """As one table; kept columns keep their types, and blocks are smaller than row groups."""
    monkeypatch.setattr(_parts, "_CELLS", 6 * 64)
    fitted, path = model
    done = run("predict", path, "in", "--proba", "--label", "truth", "-o", "out")
    assert "Wrote 540 rows in 3 files to out." in done.stdout
    assert "Note: in: left out, since they are no tables: notes.txt." in done.stderr
    assert "nothing.parquet has no rows: it is left out." in done.stderr
    names = ("d=0/part.0.parquet", "d=2/part.0.parquet", "more.csv")
    assert sorted(map(str, (p.relative_to("out") for p in Path("out").rglob("*.*")))) == [*names]
    truth, guesses = [], []
    for name, rows in zip(names, parts, strict=True):
        path = Path("out", name)
        found = pd.read_csv(path) if path.suffix == ".csv" else pq.ParquetFile(path).read()
        if path.suffix == ".parquet":
            expected = pq.ParquetFile(Path("in", name)).schema_arrow
            assert [found.schema.field(at).type for at in range(5)] == expected.types
            found = found.to_pandas()
            assert "d" not in found
            assert found["id"].isna().sum() == 7
        wanted = fitted.predict(rows[COLUMNS])
        np.testing.assert_array_equal(found["prediction"].astype(object), wanted)
        shares = fitted.predict_proba(rows[COLUMNS])
        np.testing.assert_allclose(found[["p(high)", "p(low)"]], shares, rtol=1e-12)
        truth += list(rows["truth"])
        guesses += list(wanted)
    accuracy = np.mean(np.array(truth) == np.array(guesses))
    assert f"accuracy: {accuracy:.4g}" in done.stderr


def test_each_part_is_mapped(model, parts, run_json):
    fitted, path = model
    told = run_json("transform", path, "in", "--keep", "id", "-o", "out")
    assert (told["n_rows"], told["n_files"], told["output"]) == (540, 3, "out")
    found = pd.read_parquet("out/d=2/part.0.parquet")
    assert list(found)[:3] == ["id", "nca0", "nca1"]
    np.testing.assert_array_equal(found[["nca0", "nca1"]], fitted.transform(parts[1][COLUMNS]))


def test_scores_of_numbers_add_up(tmp_path, run_json, monkeypatch):
    """R² and the error of parts are those of one table."""
    monkeypatch.chdir(tmp_path)
    rows = frame(200).assign(d=1.0).drop(columns="truth")
    rows["y"] = 1000 + rows["a"] * rows["b"]
    fitted = vicinal.MLKR(2, alpha=0.01, max_iter=5, random_state=0).fit(rows[COLUMNS], rows["y"])
    vicinal.save(fitted, "m.vic")
    Path("in").mkdir()
    for at, few in enumerate((rows[:20], rows[20:90], rows[90:])):
        few.to_csv(f"in/{at}.csv", index=False)
    rows.to_csv("one.csv", index=False)
    one = run_json("predict", "m.vic", "one.csv", "--label", "y", "-o", "one.parquet")
    told = run_json("predict", "m.vic", "in", "--label", "y", "-o", "out")
    for name in ("r2", "mean_absolute_error", "n_rows"):
        assert told[name] == pytest.approx(one[name], rel=1e-9)


REFUSED = [
    ("in", "DATA in is a folder. Name one for the results: -o in-result."),
    ("in -o in/out", "-o in/out: it must be apart from the folder in."),
    ("in -o .", "-o .: it must be apart from the folder in."),
    ("in -o no/out", "/no does not exist."),
    ("in -o one.csv", "-o one.csv: this is a file. DATA in is a folder: name a folder."),
    ("in -o full", "-o full: this folder is not empty. Name another one, or use --force"),
    ("one.csv -o full", "-o full: this is a folder. Name a file"),
    ("empty -o out", "empty has no tables: no files named .csv, .tsv, .tab, .parquet, .pq, .npz."),
    ("in -o out --scheduler tcp://127.0.0.1:9", "--scheduler"),
]


@pytest.mark.parametrize(("words", "text"), REFUSED)
def test_what_cannot_be_written(model, parts, run, words, text):
    for name in ("full", "empty"):
        Path(name).mkdir()
    Path("full/x").write_text("")
    frame(9).to_csv("one.csv", index=False)
    done = run("predict", model[1], *words.split(), code=1)
    assert text in done.stderr
    assert not Path("out").exists()


def test_files_are_replaced_by_force(model, parts, run):
    run("predict", model[1], "in", "-o", "out")
    before = Path("out/more.csv").read_bytes()
    run("predict", model[1], "in", "-o", "out", code=1)
    run("predict", model[1], "in", "-o", "out", "--only-prediction", "--force")
    assert Path("out/more.csv").read_bytes() != before


def test_a_broken_part_is_named(model, parts, run):
    Path("in/d=2/part.0.parquet").write_bytes(b"PAR1 no more")
    done = run("predict", model[1], "in", "-o", "out", code=1)
    assert "in/d=2/part.0.parquet cannot be read as Parquet" in done.stderr
    assert Path("out/d=0/part.0.parquet").exists()
    assert not Path("out/d=2/part.0.parquet").exists()
    Path("in/d=2/part.0.parquet").unlink()
    rows = frame(30).drop(columns="b")
    rows.to_csv("in/short.csv", index=False)
    done = run("transform", model[1], "in", "-o", "other", code=1)
    assert "short.csv has no column 'b', which the model was fitted to." in done.stderr


def test_draws_are_refused(model, parts, run, tmp_path):
    fitted = vicinal.load(model[1]).set_params(rule="draw")
    vicinal.save(fitted, tmp_path / "draws.vic")
    done = run("predict", "draws.vic", "in", "-o", "out", code=1)
    assert "'rule' parameter of NCA must be 'posterior' or 'knn' to predict blocks" in done.stderr


def test_one_table_has_no_scheduler(model, parts, run):
    frame(9).to_csv("one.csv", index=False)
    done = run("predict", model[1], "one.csv", "--scheduler", "tcp://127.0.0.1:9", code=2)
    assert "--scheduler is for a folder of tables. DATA is one table." in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux counts the peak")
def test_memory_does_not_grow_with_the_rows(model, tmp_path):
    """A file of 24 blocks, 200 MB in one row group, takes no more than one of two blocks."""
    rng = np.random.default_rng(0)
    schema = pa.schema([(name, pa.float64()) for name in [*COLUMNS, *"efghijklmnop"]])
    block = _parts._CELLS // len(schema)
    for name, n in (("small", 2 * block), ("large", 24 * block)):
        (tmp_path / name).mkdir()
        columns = [rng.normal(size=n) for _ in schema]
        with pq.ParquetWriter(tmp_path / name / "one.parquet", schema, compression="none",
                              use_dictionary=False) as writer:  # fmt: skip
            writer.write_table(pa.Table.from_arrays(columns, schema=schema), row_group_size=n)
    code = (
        "import sys\n"
        "from vicinal.cli import main\n"
        "model = sys.argv[1]\n"
        "for name in ('small', 'large'):\n"
        "    sys.argv[1:] = ['transform', model, name, '-o', name + '-out']\n"
        "    try: main()\n"
        "    except SystemExit as done: assert not done.code\n"
        "    print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(model[1])], cwd=tmp_path,
                          capture_output=True, text=True, check=True)  # fmt: skip
    out = pq.ParquetFile(tmp_path / "large-out/one.parquet")
    assert out.metadata.num_rows == 24 * block
    small, large = (int(line) / 1024 for line in done.stdout.splitlines() if line.isdigit())
    assert large - small < 60, f"{small:.0f} and {large:.0f} MiB"
