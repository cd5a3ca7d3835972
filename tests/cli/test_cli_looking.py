"""`vicinal evaluate`, `plot`, `report`, `embed`, `datasets` and `demo`."""

import json

import numpy as np
import pytest

pytest.importorskip("pandas")
import pandas as pd

from vicinal.cli import look, more

QUICK = ("--label", "species", "--set", "alpha=0.01")


def test_evaluate_has_the_baselines_and_their_errors(iris, run, run_json):
    words = ("evaluate", "iris.csv", "--label", "species", "--method", "rca", "--folds", "3")
    shown = run(*words).stdout
    for name in ("euclidean", "pca", "lda", "rca"):
        assert f"\n{name} " in shown
    assert "±" in shown
    told = run_json(*words)
    means = {each["name"]: each["mean"] for each in told["results"]}
    assert list(means)[-1] == "rca"
    assert all(
        0.8 < mean <= 1
        for name, mean in means.items()
        if name in ("euclidean", "pca", "lda", "rca")
    )
    assert told["best_rival"] in means


def test_evaluate_knows_numbers(iris, run_json):
    told = run_json("evaluate", "iris.csv", "--label", "petal_width", "--drop", "species",
                    "--set", "max_iter=3", "--folds", "2")  # fmt: skip
    names = [each["name"] for each in told["results"]]
    assert names == ["mean", "euclidean", "pca", "ridge", "forest", "boosting", "nca-regressor"]


@pytest.mark.parametrize("kind", sorted(look.KINDS))
def test_every_picture_is_drawn(iris, run, kind):
    pytest.importorskip("matplotlib")
    more = ("--row", "3") if kind == "neighbors" else ()
    run("plot", "iris.csv", *QUICK, "--kind", kind, *more, "--dpi", "50", "-o", "p.png")
    assert (iris / "p.png").read_bytes().startswith(b"\x89PNG")


def test_report_of_a_table_and_of_a_model(iris, run_json):
    pytest.importorskip("plotly")
    told = run_json("report", "iris.csv", *QUICK, "--dim", "2", "--model-out", "m.vic")
    assert [score["learnt"] for score in told["scores"]].count(True) == 1
    assert "<html" in (iris / "report.html").read_text(encoding="utf-8")[:500]
    words = ("--model", "m.vic", "--title", "Flowers", "-o", "b.html")  # it knows its label
    run_json("report", "iris.csv", *words, "--test", "test.csv")
    assert "Flowers" in (iris / "b.html").read_text(encoding="utf-8")


def test_embed_places_rows_and_draws_them(iris, run, run_json):
    pytest.importorskip("matplotlib")
    told = run_json("embed", "iris.csv", "--label", "species", "--set", "max_iter=20",
                    "--plot", "p.png", "--model-out", "m.vic", "-o", "out.csv")  # fmt: skip
    assert told["iterations"] == 20
    places = pd.read_csv("out.csv")
    assert places.shape == (50, 3)
    assert (iris / "p.png").exists()
    placed = run_json("embed", "test.csv", "--model", "m.vic")
    assert placed["rows"] == run_json("transform", "m.vic", "test.csv")["rows"]
    run("fit", "iris.csv", *QUICK, "-o", "nca.vic")
    told = run_json("embed", "iris.csv", "--model", "nca.vic", "--set", "max_iter=20")
    assert told["rows"] != pd.read_csv("out.csv").iloc[:, 1:].to_numpy().tolist()


def test_parameters_with_options_of_their_own_may_be_set(iris, run_json):
    words = ("--drop", "species", "--set", "max_iter=5", "--seed", "3")
    told = [run_json("embed", "iris.csv", *words, *more)["rows"] for more in (
        ("--k", "2", "--dim", "1", "--set", "method=exact"),
        ("--set", "k=2", "--set", "n_components=1", "--set", "method=exact"),
        ("--k", "2", "--dim", "1", "--set", "method=fft"),
    )]  # fmt: skip
    assert told[0] == told[1]
    assert told[0] != told[2]


def test_a_rank_may_be_set_for_the_methods_that_have_one(iris, run_json):
    told = run_json("evaluate", "iris.csv", *QUICK, "--set", "n_components=1", "--folds", "2")
    assert {each["name"]: each["n_components"] for each in told["results"]}["nca"] == 1


def test_what_estimators_print_is_no_result(iris, run, run_json):
    done = run("fit", "iris.csv", *QUICK, "--set", "verbose=1", "--json")
    assert json.loads(done.stdout)["iterations"] > 1
    assert "[NCA]" in done.stderr
    told = run_json("evaluate", "iris.csv", *QUICK, "--set", "verbose=1", "--folds", "2")
    assert told["results"]


def test_datasets_have_parts_that_do_not_overlap(run_json, run):
    train, test = (run_json("datasets", "wine", "--part", part) for part in ("train", "test"))
    assert train["n_rows"] + test["n_rows"] == 178
    assert not {json.dumps(row) for row in train["rows"]} & {json.dumps(r) for r in test["rows"]}
    rings = run_json("datasets", "rings")
    X = np.array([row[:-1] for row in rings["rows"]], dtype=float)
    assert X.shape == (500, 6)
    assert rings["columns"][-1] == "label"
    assert "rings" in run("datasets").stdout


def test_demo_shows_each_command_and_its_result(tmp_path, monkeypatch, run, run_json):
    lines = ("datasets iris -o {folder}/iris.csv", "fit {folder}/iris.csv --label label "
             "--set alpha=0.01 -o {folder}/iris.vic")  # fmt: skip
    monkeypatch.setattr(more, "CHAPTERS", (("Flowers.", lines),))
    shown = run("demo", "-o", tmp_path / "x").stdout
    assert f"$ vicinal datasets iris -o {tmp_path / 'x'}/iris.csv\nWrote 150 rows" in shown
    assert "Learnt nca" in shown
    told = run_json("demo", "-o", tmp_path / "x")
    assert told["commands"][1]["n_rows"] == 150


def test_demo_commands_parse():
    import click

    from vicinal.cli._console import Console
    from vicinal.cli._group import vicinal

    for _, lines in more.CHAPTERS:
        for line in lines:
            name, *words = line.format(folder="demo").split()
            command = vicinal.get_command(click.Context(vicinal), name)
            command.make_context(name, words, obj=Console())
