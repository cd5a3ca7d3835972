"""A row and its neighbours: by click, by search, and by keyboard alone."""

import numpy as np
import pytest
from common.reports import make_contents


@pytest.fixture
def reader(read):
    return read(make_contents(n=120, n_frames=3, pictures=60))


def assert_shows(reader, row):
    """The panel, the live region and the lines in the picture are about the row."""
    contents = reader.contents
    picture, near = contents.embedding, contents.neighbors
    assert picture.names[row] in reader.text("#chosen h3")
    assert reader.listed("before") == near.before[row].tolist()
    assert reader.listed("after") == near.after[row].tolist()
    marks = reader.page.locator("#lists [data-which=after] .mark").all_inner_texts()
    same = picture.codes[near.after[row]] == picture.codes[row]
    assert marks == ["✓" if each else "✗" for each in same]
    spoken = reader.page.locator("#live").text_content()
    assert f"{picture.names[row]}, species {picture.classes[picture.codes[row]]}" in spoken
    assert f"Under the learnt metric {same.sum()} of 10" in spoken
    lines = reader.page.evaluate(
        "document.getElementById('after-plot').layout.shapes.filter((s) => s.type === 'line')"
    )
    assert len(lines) == 10
    ends = np.array([[line["x1"], line["y1"]] for line in lines])
    np.testing.assert_allclose(ends, picture.frames[-1].points[near.after[row]], atol=1e-3)
    assert [line["line"]["dash"] for line in lines] == ["solid" if each else "dot" for each in same]


@pytest.mark.parametrize("which", ["before", "after"])
def test_click_shows_the_neighbours(reader, which, keep):
    row = reader.lonely(which)
    reader.click(row, which)
    reader.page.wait_for_selector("#neighbours:not([hidden])")
    assert_shows(reader, row)
    keep(reader, f"neighbours-{which}")


def test_bars_and_thumbnails(reader):
    reader.search("row 7")
    reader.page.press("#search", "Enter")
    near = reader.contents.neighbors
    widths = reader.page.evaluate(
        "Array.from(document.querySelectorAll('#lists [data-which=after] .bar span'),"
        "(bar) => bar.offsetWidth / bar.parentElement.offsetWidth)"
    )
    largest = max(near.after_p[7].max(), near.before_p[7].max())
    np.testing.assert_allclose(widths, near.after_p[7] / largest, atol=0.03)
    pictured = (near.after[7] < 60).sum() + (near.before[7] < 60).sum()
    assert reader.page.locator("#lists .thumb").count() == pictured
    assert reader.page.locator("#chosen .thumb").count() == 1


def test_a_neighbour_can_be_followed(reader):
    reader.search("row 7")
    reader.page.press("#search", "Enter")
    following = reader.listed("after")[2]
    reader.page.locator("#lists [data-which=after] button").nth(2).click()
    assert_shows(reader, following)
    reader.page.click("#chosen button")
    assert not reader.page.is_visible("#neighbours")


def test_search_finds_names_classes_and_cells(reader):
    reader.search("row 11")
    assert reader.text("#found").startswith("11 rows found.")  # 11, 110, ..., 119
    first = reader.page.locator("#matches li").first
    assert first.inner_text().startswith("row 11\n")  # the exact name comes first
    reader.search("class 2")
    n = (reader.contents.embedding.codes == 2).sum()
    reader.page.wait_for_function(
        f"document.getElementById('found').textContent.startsWith('{n} rows')"
    )
    rings = reader.page.evaluate("document.getElementById('after-plot').data[3].x.length")
    assert rings == n
    before = reader.span()
    reader.page.click("#zoom-found")
    assert reader.span() != before
    cell = reader.contents.table.cells[1][33]
    reader.search(cell)
    reader.page.wait_for_function(
        "Array.from(document.querySelectorAll('#matches li'))"
        ".some((li) => li.innerText.startsWith('row 33'))"
    )
    reader.search("nowhere at all")
    reader.page.wait_for_function(
        "document.getElementById('found').textContent === 'No row found.'"
    )


def test_keyboard_alone(reader):
    """From the top of the page to a row, its neighbours, and back, without a mouse."""
    page = reader.page
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        where = page.evaluate("document.activeElement.id || document.activeElement.tagName")
        reached.append(where)
        if where == "after-frame":
            break
    for name in (
        "theme",
        "search",
        "only-held-out",
        "zoom-in",
        "zoom-all",
        "before-frame",
        "after-frame",
    ):
        assert name in reached
    page.keyboard.press("ArrowRight")
    first = reader.text("#chosen h3")
    page.keyboard.press("ArrowRight")
    second = reader.text("#chosen h3")
    assert first != second
    names = reader.contents.embedding.names
    a, b = (reader.point(names.index(text)) for text in (first, second))
    assert b[0] > a[0]
    start = reader.span()
    page.keyboard.press("+")
    assert reader.span()[1] - reader.span()[0] < start[1] - start[0]
    page.keyboard.press("0")
    assert reader.span() == pytest.approx(start, rel=0.01)
    page.focus("#search")
    page.keyboard.type("row 20")
    page.wait_for_function("document.getElementById('found').textContent !== ''")
    page.keyboard.press("ArrowDown")
    assert page.get_attribute("#search", "aria-activedescendant")
    page.keyboard.press("Enter")
    assert_shows(reader, 20)
    page.focus("#after-frame")
    page.keyboard.press("Escape")
    assert not page.is_visible("#neighbours")


def test_focus_can_be_seen(reader):
    page = reader.page
    for _ in range(14):
        page.keyboard.press("Tab")
        seen = page.evaluate(
            """() => {
              const now = document.activeElement;
              const drawn = now.type === "radio" ? now.nextElementSibling : now;
              return parseFloat(getComputedStyle(drawn).outlineWidth);
            }"""
        )
        assert seen >= 2
