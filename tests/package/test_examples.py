"""The examples, the code in the texts, and what the texts point at."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = "README.md"  # the code of the pages runs in `make docs`
LINKED = (TEXT, "docs/cli.md", "docs/comparison.md", "docs/model_files.md", "docs/migration.md")


def run(*arguments, folder):
    """What a script prints, run as a user would, but in another folder."""
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ConvergenceWarning" not in done.stderr
    return done.stdout


def assert_is_picture(path):
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > 5_000


def python_blocks(name):
    return re.findall(
        r"^```python\n(.*?)^```", (ROOT / name).read_text(encoding="utf-8"), re.S | re.M
    )


@pytest.fixture
def wine_csv(tmp_path):
    pytest.importorskip("pandas")
    from sklearn.datasets import load_wine

    frame = load_wine(as_frame=True).frame.rename(columns={"target": "label"})
    frame.to_csv(tmp_path / "table.csv", index=False)
    return tmp_path


def test_plot_wine_learns_from_a_csv_file(wine_csv):
    pytest.importorskip("matplotlib")
    script = ROOT / "examples/plot_wine.py"
    printed = run(script, "table.csv", "label", "out/rows.png", folder=wine_csv)
    before, after = map(float, re.findall(r"([\d.]+)%", printed))
    assert after > before > 90  # both on scaled columns
    assert_is_picture(wine_csv / "out/rows.png")


def test_the_picture_of_the_readme_shows_rings(tmp_path):
    script = ROOT / "examples/plot_front_page.py"
    small = "--splits", 1, "--rows", 400, "--only", "rings"
    printed = run(script, "out/front.png", *small, folder=tmp_path)
    pca, lda, nca = map(int, re.findall(r"(\d+) % of 200 held-out rows", printed))
    assert max(pca, lda) < 60 < 90 < nca
    assert_is_picture(tmp_path / "out/front.png")


def test_plot_large_says_its_plan_and_learns(tmp_path):
    pytest.importorskip("matplotlib")
    printed = run(ROOT / "examples/plot_large.py", "out/large.png", folder=tmp_path)
    assert "batches of 3000 random rows" in printed
    before, batches, stream = map(float, re.findall(r"([\d.]+)%", printed))
    assert batches > before
    assert stream > before
    assert_is_picture(tmp_path / "out/large.png")


@pytest.mark.long
def test_plot_votes_learns_from_noise(tmp_path):
    pytest.importorskip("matplotlib")
    printed = run(ROOT / "examples/plot_votes.py", "out/votes.png", folder=tmp_path)
    right = {
        name: [float(share) for share in re.findall(r"([\d.]+)%", shares)]
        for name, shares in re.findall(r"^(\S.*?) {2,}(\d.*%)$", printed, re.M)
    }
    assert all(shares[-1] > shares[0] + 10 for shares in right.values())  # more voters help
    assert right["KNCA, all of 10"][-1] > right["NCA"][-1] + 3
    assert_is_picture(tmp_path / "out/votes.png")


def test_plot_pairs_joins_them_to_their_clusters(tmp_path):
    pytest.importorskip("matplotlib")
    printed = run(ROOT / "examples/plot_pairs.py", "out/pairs.png", folder=tmp_path)
    alone, joined = (float(share) for share in re.findall(r"([\d.]+)%", printed))
    assert alone < 60  # chance is 25
    assert joined > alone + 20
    assert_is_picture(tmp_path / "out/pairs.png")


def test_plot_matches_finds_the_order_of_a_film(tmp_path):
    pytest.importorskip("matplotlib")
    printed = run(ROOT / "examples/plot_matches.py", "out/matches.png", folder=tmp_path)
    before, after = (float(error) for error in re.findall(r"([\d.]+)°", printed))
    assert before > 60  # chance is 90
    assert after < 10
    assert_is_picture(tmp_path / "out/matches.png")


def test_plot_partners_finds_the_other_photograph(tmp_path):
    pytest.importorskip("matplotlib")
    printed = run(ROOT / "examples/plot_partners.py", "out/partners.png", folder=tmp_path)
    pixels, learnt = (float(share) for share in re.findall(r"([\d.]+)%", printed))
    assert pixels < 20
    assert learnt > 80
    assert_is_picture(tmp_path / "out/partners.png")


def test_plot_histograms_keeps_most_in_ten_bins(tmp_path):
    pytest.importorskip("matplotlib")
    printed = run(ROOT / "examples/plot_histograms.py", "out/bins.png", folder=tmp_path)
    whole, linear, learnt = (float(share) for share in re.findall(r"([\d.]+)%", printed))
    assert whole > learnt > linear > 95
    assert_is_picture(tmp_path / "out/bins.png")


def test_plot_mlkr_finds_the_plane(tmp_path):
    pytest.importorskip("matplotlib")
    printed = run(ROOT / "examples/plot_mlkr.py", "out/mlkr.png", folder=tmp_path)
    plain, learnt = map(float, re.findall(r"(\d\.\d+) by", printed))
    assert plain < 0.5
    assert learnt > 0.8
    assert_is_picture(tmp_path / "out/mlkr.png")


def test_code_in_the_readme_runs(wine_csv):
    """Block after block in one session, where table.csv has a column `label`."""
    blocks = python_blocks(TEXT)
    assert blocks
    (wine_csv / "session.py").write_text("\n".join(blocks), encoding="utf-8")
    run("session.py", folder=wine_csv)


@pytest.mark.parametrize("name", LINKED)
def test_links_lead_to_files(name):
    """Every link is to a file here or to a page; the page is not asked for."""
    text = re.sub(r"```.*?```", "", (ROOT / name).read_text(encoding="utf-8"), flags=re.S)
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert links
    for link in links:
        if not link.startswith("https://"):
            assert ((ROOT / name).parent / link.partition("#")[0]).exists(), link


@pytest.mark.parametrize("name", ["before_after.png", "report.png"])
def test_pictures_in_the_readme_are_small(name):
    picture = ROOT / "docs/images" / name
    assert_is_picture(picture)
    assert picture.stat().st_size < 200_000
