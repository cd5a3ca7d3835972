"""Light, dark, phone and paper; what can be read; browsers with less."""

import re

import pytest
from common.reports import make_contents
from with_browser.conftest import SCREENSHOTS

# Texts whose contrast with what is behind them is below what WCAG AA asks.
FAINT = """() => {
  const linear = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) =>
    0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const parts = (text) => text.match(/[\\d.]+/g).map(Number);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parts(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const isText = (node) => node.nodeType === 3 && node.textContent.trim();
  const faint = [];
  for (const element of document.querySelectorAll("body *")) {
    if (![...element.childNodes].some(isText) || !element.checkVisibility()) continue;
    if (element.closest("script, style, noscript, title, .plot, .sign")) continue;
    const style = getComputedStyle(element);
    const ink = light(parts(element.tagName === "text" ? style.fill : style.color));
    const [a, b] = [ink, light(behind(element))].sort((x, y) => y - x);
    const least = parseFloat(style.fontSize) >= 24 ? 3 : 4.5;
    if ((a + 0.05) / (b + 0.05) < least) faint.push(element.textContent.trim().slice(0, 40));
  }
  return faint;
}"""
NAMELESS = """() => {
  const controls = document.querySelectorAll("button, input, a, [tabindex='0'], [role=img]");
  return [...controls]
    .filter((each) => !each.getAttribute("aria-label") && !each.textContent.trim())
    .filter((each) => !(each.labels && each.labels.length))
    .map((each) => each.outerHTML.slice(0, 120));
}"""
# The colour of the first pixel, and the share of pixels that are not white.
INK = """() => [...document.querySelectorAll("#print-picture canvas")].map((canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let inked = 0;
  for (let i = 0; i < data.length; i += 4) inked += data[i] < 250 || data[i + 2] < 250;
  return [data[0], inked / (data.length / 4)];
})"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_contrast_and_controls_have_names(read, keep, scheme):
    reader = read(make_contents(n=300, n_classes=10, pictures=120), color_scheme=scheme)
    reader.search("row 17")
    reader.page.press("#search", "Enter")
    assert reader.page.evaluate("document.documentElement.dataset.theme") == scheme
    assert reader.page.evaluate(FAINT) == []
    assert reader.page.evaluate(NAMELESS) == []
    keep(reader, scheme)


def test_theme_button_changes_page_and_picture(read):
    reader = read(make_contents(n=60), color_scheme="light")
    colour = "getComputedStyle(document.body).backgroundColor"
    paper = "document.getElementById('after-plot').layout.plot_bgcolor"
    assert reader.page.evaluate(paper) == "#ffffff"
    light = reader.page.evaluate(colour)
    reader.page.emulate_media(color_scheme="dark")  # the system changes
    reader.page.wait_for_function(f"{paper} === '#14171c'")
    assert reader.page.evaluate(colour) != light
    reader.page.click("#theme")
    reader.page.wait_for_function(f"{paper} === '#ffffff'")
    assert reader.page.evaluate(colour) == light


@pytest.mark.parametrize("width", [360, 768])
def test_narrow_windows_do_not_scroll_sideways(read, keep, width):
    size = {"width": width, "height": 780}
    reader = read(make_contents(n=100, pictures=50), viewport=size, has_touch=True)
    reader.search("row 17")
    reader.page.press("#search", "Enter")
    reader.page.wait_for_timeout(300)
    assert reader.page.evaluate("document.documentElement.scrollWidth") <= width
    keep(reader, f"width-{width}")
    x, y = reader.place(17)
    reader.page.touchscreen.tap(x, y)
    assert reader.page.is_visible("#neighbours")


def test_paper(read):
    """Printed: light, both pictures with ink in them, no controls, a few pages."""
    reader = read(make_contents(n=400, n_classes=6, pictures=60), color_scheme="dark")
    reader.search("row 17")
    reader.page.press("#search", "Enter")
    path = SCREENSHOTS / "paper.pdf"
    SCREENSHOTS.mkdir(exist_ok=True)
    reader.page.pdf(path=path, format="A4", print_background=False)
    pages = len(re.findall(rb"/Type\s*/Page\b", path.read_bytes()))
    assert 3 <= pages <= 8
    inked = reader.page.evaluate(INK)
    assert len(inked) == 2
    for corner, share in inked:
        assert corner == 255
        assert share > 0.01
    reader.page.emulate_media(media="print")
    for control in ("#search", "#play", "#theme", "#legend", "#after-frame", ".copy"):
        assert not reader.page.is_visible(control)
    colour = reader.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colour == "rgb(255, 255, 255)"


def test_code_can_be_copied(read):
    reader = read(make_contents(n=30), permissions=["clipboard-read", "clipboard-write"])
    reader.page.click(".copy")
    reader.page.wait_for_function("document.querySelector('.copy').textContent !== 'Copy'")
    copied = reader.page.evaluate("getSelection().toString() || navigator.clipboard.readText()")
    assert "vicinal.load" in copied


def test_without_scripts_words_and_tables_remain(read, keep):
    reader = read(make_contents(n=30), ready=False, java_script_enabled=False)
    for text in ("What NCA learnt", "94.1", "feature 3", "vicinal.load", "need JavaScript"):
        assert text in reader.text("body")
    keep(reader, "no-scripts")


@pytest.fixture(scope="module")
def plain_browser(launch):
    """A browser without WebGL."""
    browser = launch("--disable-gpu", "--disable-3d-apis")
    yield browser
    browser.close()


def test_without_webgl_few_points_are_svg(read, keep, plain_browser):
    reader = read(make_contents(n=100), browser=plain_browser)
    assert "no WebGL" in reader.text("#notice")
    row = reader.lonely()
    reader.click(row)
    assert reader.contents.embedding.names[row] in reader.text("#chosen")
    keep(reader, "no-webgl")


@pytest.mark.parametrize(("n", "d"), [(6000, 2), (100, 3)])
def test_without_webgl_the_rest_stands_still(read, keep, plain_browser, n, d):
    reader = read(make_contents(n=n, d=d), browser=plain_browser)
    assert "stands still" in reader.text("#notice")
    reader.search("row 17")
    reader.page.press("#search", "Enter")
    assert "row 17" in reader.text("#chosen")
    reader.page.locator("#legend input").first.uncheck()
    keep(reader, f"no-webgl-{d}d")
