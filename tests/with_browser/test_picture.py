"""The picture: zoom, hover, legend, filters, and the way through the iterations."""

import numpy as np
import pytest
from common.reports import make_contents


@pytest.fixture
def reader(read):
    return read(make_contents(n=120, n_frames=6))


def test_hover_names_the_row(reader):
    row = reader.lonely()
    reader.hover(row)
    reader.page.wait_for_selector("#tip:not([hidden])")
    picture = reader.contents.embedding
    text = reader.text("#tip")
    assert picture.names[row] in text
    assert picture.classes[picture.codes[row]] in text
    assert f"column 0: {reader.contents.table.cells[0][row]}" in text


def test_buttons_zoom(reader):
    start = reader.span()
    reader.page.click("#zoom-in")
    near = reader.span()
    assert near[1] - near[0] == pytest.approx((start[1] - start[0]) / 1.4, rel=0.01)
    reader.page.click("#zoom-out")
    reader.page.click("#zoom-out")
    assert reader.span()[1] - reader.span()[0] > 1.3 * (start[1] - start[0])
    reader.page.click("#zoom-all")
    assert reader.span() == pytest.approx(start, rel=0.01)


def test_drag_moves_the_picture(reader):
    start = reader.span()
    x, y = reader.place(0)
    reader.page.mouse.move(x + 25, y + 25)
    reader.page.mouse.down()
    reader.page.mouse.move(x + 125, y + 25, steps=5)
    reader.page.mouse.up()
    moved = reader.span()
    assert moved[0] < start[0]
    assert moved[1] - moved[0] == pytest.approx(start[1] - start[0], rel=0.01)


def test_box_zoom(reader):
    start = reader.span()
    reader.page.click("#zoom-box")
    box = reader.page.locator("#after-frame").bounding_box()
    reader.page.mouse.move(box["x"] + 150, box["y"] + 150)
    reader.page.mouse.down()
    reader.page.mouse.move(box["x"] + 300, box["y"] + 300, steps=5)
    reader.page.mouse.up()
    reader.page.wait_for_timeout(300)
    assert reader.span()[1] - reader.span()[0] < 0.6 * (start[1] - start[0])


def test_wheel_zooms_only_after_a_click(reader):
    start = reader.span()
    x, y = reader.place(reader.lonely())
    reader.page.mouse.move(x + 40, y + 40)
    reader.page.mouse.wheel(0, -200)
    reader.page.wait_for_timeout(200)
    assert reader.span() == start
    x, y = reader.place(reader.lonely())
    reader.page.mouse.click(x + 40, y + 40)
    reader.page.mouse.wheel(0, -200)
    reader.page.wait_for_timeout(400)
    assert reader.span()[1] - reader.span()[0] < start[1] - start[0]


def test_legend_hides_and_shows_classes(reader):
    sizes = np.bincount(reader.contents.embedding.codes).tolist()
    assert reader.shown() == sizes
    boxes = reader.page.locator("#legend input[type=checkbox]")
    boxes.nth(1).uncheck()
    assert reader.shown() == [sizes[0], 0, sizes[2]]
    assert reader.shown("before") == [sizes[0], 0, sizes[2]]
    reader.page.click("#legend li:nth-child(3) button.only")
    assert reader.shown() == [0, 0, sizes[2]]
    reader.page.click("#legend >> text=All")
    assert reader.shown() == sizes


def test_many_classes_can_be_searched(read, keep):
    reader = read(make_contents(n=600, n_classes=50, n_frames=2))
    keep(reader, "fifty-classes")
    reader.page.fill("#legend-search", "class 4")
    visible = reader.page.locator("#legend li:visible")
    assert visible.count() == 11  # 4, 40, ..., 49
    reader.page.click("#legend >> text=None")
    sizes = np.bincount(reader.contents.embedding.codes, minlength=50)
    hidden = [4, *range(40, 50)]
    sizes[hidden] = 0
    assert reader.shown() == sizes.tolist()


def test_filters(reader):
    picture = reader.contents.embedding
    wrong = (picture.predicted >= 0) & (picture.predicted != picture.codes)
    reader.page.check("#only-held-out")
    assert sum(reader.shown()) == picture.held_out.sum()
    reader.page.check("#only-wrong")
    assert sum(reader.shown()) == wrong.sum()
    reader.page.uncheck("#only-held-out")
    reader.page.uncheck("#only-wrong")
    assert sum(reader.shown()) == 120


def test_views(reader):
    assert reader.page.is_visible("#before-frame")
    assert reader.page.is_visible("#after-frame")
    reader.page.check("input[value=before]")
    assert not reader.page.is_visible("#after-frame")
    reader.page.check("input[value=after]")
    assert not reader.page.is_visible("#before-frame")
    assert reader.page.is_visible("#after-frame")
    frame = reader.page.locator("#after-frame").bounding_box()
    drawn = reader.page.locator("#after-plot .main-svg").first.bounding_box()
    assert drawn["width"] == pytest.approx(frame["width"], abs=4)


def drawn_points(reader):
    """The points of class 0 as plotly holds them."""
    x, y = reader.page.evaluate(
        "(() => { const { x, y } = document.getElementById('after-plot').data[0];"
        "return [Array.from(x), Array.from(y)]; })()"
    )
    return np.column_stack([x, y])


def test_slider_shows_the_iterations(reader):
    picture = reader.contents.embedding
    slider = reader.page.locator("#iteration")
    slider.focus()
    reader.page.keyboard.press("Home")
    for at in (0, 1):
        reader.page.wait_for_timeout(200)
        assert reader.text("#iteration-text") == f"iteration {7 * at} of 35"
        expected = picture.frames[at].points[picture.codes == 0]
        np.testing.assert_allclose(drawn_points(reader), expected, atol=1e-3)
        reader.page.keyboard.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") == "iteration 14 of 35"


@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_play_goes_to_the_end(read, motion):
    reader = read(make_contents(n=60, n_frames=3), reduced_motion=motion)
    reader.page.click("#play")
    assert reader.text("#play") == "Pause"
    reader.page.wait_for_function("document.getElementById('play').textContent === 'Play'")
    assert reader.text("#iteration-text") == "iteration 14 of 14"
    picture = reader.contents.embedding
    expected = picture.frames[-1].points[picture.codes == 0]
    np.testing.assert_allclose(drawn_points(reader), expected, atol=1e-3)


def test_three_dimensions(read, keep):
    reader = read(make_contents(n=200, n_classes=4, d=3))
    assert reader.shown() == np.bincount(reader.contents.embedding.codes).tolist()
    reader.search("row 17")
    reader.page.press("#search", "Enter")
    assert "row 17" in reader.text("#chosen")
    reader.page.click("#zoom-in")
    reader.page.locator("#iteration").focus()
    reader.page.keyboard.press("ArrowLeft")
    keep(reader, "three-dimensions")


def test_numbers_have_a_colour_scale(read, keep):
    reader = read(make_contents(n=200, n_classes=1, values=True))
    assert reader.page.is_visible("#legend .ramp")
    assert not reader.page.is_visible("#only-wrong")
    reader.search("row 5")
    reader.page.press("#search", "Enter")
    assert "differ by" in reader.text("#lists")
    keep(reader, "numbers")


def test_no_labels(read, keep):
    bare = dict.fromkeys(("neighbors", "table", "metric", "history", "model"))
    reader = read(make_contents(n=200, n_classes=0, scores=[], **bare))
    assert not reader.page.is_visible("#legend")
    reader.click(reader.lonely())
    assert reader.contents.embedding.names[reader.lonely()] in reader.text("#chosen")
    keep(reader, "no-labels")


def test_one_frame_has_no_player(read):
    reader = read(make_contents(n=40, n_frames=1))
    assert not reader.page.is_visible("#player")
