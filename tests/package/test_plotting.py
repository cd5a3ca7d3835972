"""Pictures: what is drawn, what is refused, and that matplotlib is asked for only then."""

import subprocess
import sys

import numpy as np
import pytest

from vicinal import plotting

pytest.importorskip("matplotlib")
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.colors import to_hex


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def colours(ax):
    """The colour of each class, by its name in the legend."""
    return {
        c.get_label(): to_hex(c.get_facecolor()[0]) for c in ax.collections if len(c.get_offsets())
    }


def test_scatter_draws_every_row_once(rng):
    Z, y = rng.normal(size=(30, 2)), np.repeat(["b", "a", "c"], 10)
    ax = plotting.scatter(Z, y, title="rows")
    drawn = {c.get_label(): np.asarray(c.get_offsets()) for c in ax.collections}
    assert list(drawn) == ["a", "b", "c"]
    for label, points in drawn.items():
        np.testing.assert_array_equal(points, Z[y == label])
    assert ax.get_title() == "rows"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b", "c"]


def test_both_axes_have_one_scale(rng):
    """A map stretched one way must look stretched."""
    ax = plotting.scatter(rng.normal(size=(30, 2)) * [100, 1], np.zeros(30, dtype=int))
    ax.figure.canvas.draw()
    box = ax.get_window_extent()
    assert np.diff(ax.get_xlim())[0] / box.width == pytest.approx(
        np.diff(ax.get_ylim())[0] / box.height
    )


def test_scatter_draws_into_given_axes(rng):
    _, ax = plt.subplots()
    assert plotting.scatter(rng.normal(size=(4, 2)), [0, 1, 0, 1], ax, legend=False) is ax
    assert ax.get_legend() is None


def test_a_class_keeps_its_colour(rng):
    """Given all classes, a picture that lacks some gives the others the same colours."""
    Z, y = rng.normal(size=(12, 2)), np.tile([0, 1, 2], 4)
    whole = colours(plotting.scatter(Z, y))
    part = colours(plotting.scatter(Z[y > 0], y[y > 0], classes=[0, 1, 2]))
    assert part == {name: whole[name] for name in ("1", "2")}


def test_many_classes_are_told_apart(rng):
    y = np.arange(80)
    ax = plotting.scatter(rng.normal(size=(80, 2)), y, legend=False)
    looks = {
        (to_hex(c.get_facecolor()[0]), c.get_paths()[0].vertices.tobytes()) for c in ax.collections
    }
    assert len(looks) == 80


def test_before_after_shares_classes_and_has_one_legend(rng):
    y = np.tile([3, 5], 6)
    panels = {"PCA": rng.normal(size=(12, 2)), "NCA": rng.normal(size=(12, 2))}
    figure = plotting.before_after(panels, y)
    assert [ax.get_title() for ax in figure.axes] == ["PCA", "NCA"]
    assert [ax.get_legend() is None for ax in figure.axes] == [True, False]
    assert colours(figure.axes[0]) == colours(figure.axes[1])


def test_before_after_of_one_panel_and_in_given_axes(rng):
    Z, y = rng.normal(size=(4, 2)), [0, 1, 0, 1]
    assert len(plotting.before_after({"only": Z}, y).axes) == 1
    figure, axes = plt.subplots(2, 2)
    assert plotting.before_after({"a": Z, "b": Z}, y, axes[0]) is figure
    assert not axes[1, 0].collections


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda Z, y: plotting.scatter(Z[:, :1], y), r"Z must have shape \(n, 2\). Got \(6, 1\)"),
        (lambda Z, y: plotting.scatter(Z, y[:5]), r"Z has 6 rows but y has shape \(5,\)"),
        (lambda Z, y: plotting.scatter(Z, y, classes=[0]), r"every label of y. It lacks \[1\]"),
        (lambda Z, y: plotting.before_after({}, y), "must hold at least one embedding"),
        (lambda Z, y: plotting.before_after({"a": Z}, y, plt.subplots(1, 2)[1]), "Got 2 axes"),
    ],
)
def test_bad_input(call, message, rng):
    with pytest.raises(ValueError, match=message):
        call(rng.normal(size=(6, 2)), np.tile([0, 1], 3))
    assert not any(ax.collections for ax in plt.gcf().axes)


def test_without_matplotlib_the_error_names_the_extra():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from vicinal import plotting\n"
        "try: plotting.scatter([[0, 1]], [0])\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install vicinal[plot]" in done.stdout
