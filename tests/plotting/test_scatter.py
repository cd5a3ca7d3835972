"""Pictures: what is drawn, what is refused, and that matplotlib is asked for only then."""

import subprocess
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex
from sklearn.exceptions import NotFittedError

from vicinal import NCA, plotting


def drawn(ax):
    """The rows in the order in which they are drawn: places, colours and markers."""
    places, looks = [], []
    for part in ax.collections:
        if hasattr(part, "_offsets3d"):
            points = np.column_stack([np.ma.getdata(x) for x in part._offsets3d])
        else:
            points = np.asarray(part.get_offsets())
        places.append(points)
        outline = part.get_paths()[0].vertices.tobytes()
        looks += [(to_hex(colour), outline) for colour in part.get_facecolor()]
    return np.concatenate(places), looks


def look_of_class(ax, Z, y):
    """How the rows of each class look, which must be the same for all of them."""
    places, looks = drawn(ax)
    assert len(places) == len(Z)
    found = {}
    for z, look in zip(places, looks, strict=True):
        row = int(np.argmin(np.abs(Z - z).sum(axis=1)))
        np.testing.assert_array_equal(Z[row], z)
        assert found.setdefault(str(y[row]), look) == look
    return found


def names(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.mark.parametrize("d", [2, 3])
def test_scatter_draws_every_row_once(rng, d):
    Z, y = rng.normal(size=(30, d)), np.repeat(["b", "a", "c"], 10)
    ax = plotting.scatter(Z, y, title="rows")
    places = drawn(ax)[0]
    np.testing.assert_array_equal(np.sort(places, axis=0), np.sort(Z, axis=0))
    assert ax.get_title() == "rows"
    assert names(ax) == ["a", "b", "c"]
    if d == 3:  # whose colours matplotlib makes while it draws
        return
    keys = [to_hex(key.get_color()) for key in ax.get_legend().get_lines()]
    assert keys == [look_of_class(ax, Z, y)[name][0] for name in "abc"]


@pytest.mark.parametrize("n_classes", [3, 26])
def test_issue_14_no_class_is_drawn_over_the_others(rng, n_classes):
    """Among the first and the last rows drawn each class has its share; always in one order."""
    Z, y = rng.normal(size=(5200, 2)), np.repeat(np.arange(n_classes), 5200 // n_classes + 1)[:5200]
    ax = plotting.scatter(Z, y, legend=False)
    place = {z.tobytes(): label for z, label in zip(Z, y, strict=True)}
    order = np.array([place[z.tobytes()] for z in drawn(ax)[0]])
    for part in np.array_split(order, 4):
        counts = np.bincount(part, minlength=n_classes)
        assert counts.min() > 0.5 * len(part) / n_classes
    np.testing.assert_array_equal(drawn(plotting.scatter(Z, y))[0], drawn(ax)[0])


@pytest.mark.parametrize("n_classes", [3, 26, 60])
def test_issue_14_the_legend_is_inside_the_picture(rng, n_classes):
    y = np.arange(120) % n_classes
    figures = [
        plotting.scatter(rng.normal(size=(120, 2)), y).figure,
        plotting.before_after({"a": rng.normal(size=(120, 2)), "b": rng.normal(size=(120, 3))}, y),
    ]
    for figure in figures:
        figure.canvas.draw()
        ax = figure.axes[-1]
        box, whole = ax.get_legend().get_window_extent(), figure.bbox
        assert len(names(ax)) == n_classes
        assert box.x0 > 0
        assert box.y0 >= 0
        assert box.x1 <= whole.x1 + 1
        assert box.y1 <= whole.y1
        assert ax.get_window_extent().width > 100


def test_names_of_very_many_classes_are_in_the_picture(rng):
    Z, y = rng.normal(size=(300, 2)), np.arange(300) % 75
    ax = plotting.scatter(Z, y)
    assert ax.get_legend() is None
    written = {text.get_text(): text.get_position() for text in ax.texts}
    assert len(written) == 75
    assert len(plotting.scatter(rng.normal(size=(300, 3)), y).texts) == 75


def test_a_name_is_where_its_class_is_dense(rng):
    """Not at the mean, which for two rings is the same empty place."""
    angle, y = rng.uniform(0, 2 * np.pi, 800), np.arange(800) % 11
    Z = (y + 5)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    ax = plotting.scatter(Z, y)
    ax.figure.canvas.draw()
    for text in ax.texts:
        assert np.hypot(*text.get_position()) == pytest.approx(int(text.get_text()) + 5, abs=1.5)
    boxes = [text.get_window_extent() for text in ax.texts]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_three_components_need_axes_of_three_dimensions(rng):
    Z, y = rng.normal(size=(6, 3)), np.tile([0, 1], 3)
    assert plotting.scatter(Z, y).name == "3d"
    flat = plt.subplots()[1]
    with pytest.raises(ValueError, match=r"projection='3d' for a Z of 3 columns\. Got 'rectilin"):
        plotting.scatter(Z, y, flat)
    solid = plt.figure().add_subplot(projection="3d")
    assert plotting.scatter(Z, y, solid) is solid
    with pytest.raises(ValueError, match="must have projection='rectilinear'"):
        plotting.scatter(Z[:, :2], y, solid)


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
    whole = look_of_class(plotting.scatter(Z, y), Z, y)
    few = plotting.scatter(Z[y > 0], y[y > 0], classes=[0, 1, 2])
    part = look_of_class(few, Z[y > 0], y[y > 0])
    assert part == {name: whole[name] for name in ("1", "2")}


def test_many_classes_are_told_apart(rng):
    y = np.arange(80)
    ax = plotting.scatter(rng.normal(size=(80, 2)), y, legend=False)
    assert len(set(drawn(ax)[1])) == 80


def test_before_after_shares_classes_and_has_one_legend(rng):
    y = np.tile([3, 5], 6)
    panels = {"PCA": rng.normal(size=(12, 2)), "NCA": rng.normal(size=(12, 2))}
    figure = plotting.before_after(panels, y)
    assert [ax.get_title() for ax in figure.axes] == ["PCA", "NCA"]
    assert [ax.get_legend() is None for ax in figure.axes] == [True, False]
    first, second = (
        look_of_class(ax, Z, y) for ax, Z in zip(figure.axes, panels.values(), strict=True)
    )
    assert first == second


def test_before_after_of_one_panel_and_in_given_axes(rng):
    Z, y = rng.normal(size=(4, 2)), [0, 1, 0, 1]
    assert len(plotting.before_after({"only": Z}, y).axes) == 1
    figure, axes = plt.subplots(2, 2)
    assert plotting.before_after({"a": Z, "b": Z}, y, axes=axes[0]) is figure
    assert not axes[1, 0].collections


def test_before_after_of_a_model(rng):
    X, y = rng.normal(size=(30, 4)), np.tile(["a", "b", "c"], 10)
    model = NCA(2, alpha=0.01, max_iter=3, random_state=0)
    with pytest.raises(NotFittedError, match="NCA instance is not fitted"):
        plotting.before_after(model, X, y)
    figure = plotting.before_after(model.fit(X, y), X, y)
    assert [ax.get_title().partition(":")[0] for ax in figure.axes] == ["before", "after"]
    assert len(plotting.before_after(model, X=X, y=y).axes) == 2
    assert len(plotting.before_after({"a": X[:, :2]}, y=y).axes) == 1
    with pytest.raises(TypeError, match=r"needs the rows X that NCA has learnt from"):
        plotting.before_after(model, y=y)
    with pytest.raises(TypeError, match="takes no X: the panels hold the rows"):
        plotting.before_after({"a": X[:, :2]}, X, y)
    with pytest.raises(ValueError, match="'classes' parameter of before_after must be None"):
        plotting.before_after(model, X, y, classes=["a", "b", "c"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda Z, y: plotting.scatter(Z[:, :1], y), r"shape \(n, 2\) or \(n, 3\). Got \(6, 1\)"),
        (lambda Z, y: plotting.scatter(Z, y[:5]), r"Z has 6 rows but y has shape \(5,\)"),
        (lambda Z, y: plotting.scatter(Z, y, classes=[0]), r"every label of y. It lacks \[1\]"),
        (lambda Z, y: plotting.before_after({}, y), "must hold at least one embedding"),
        (lambda Z, y: plotting.before_after({"a": Z}, y, axes=plt.subplots(1, 2)[1]), "Got 2 axes"),
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
    assert "pip install matplotlib" in done.stdout
