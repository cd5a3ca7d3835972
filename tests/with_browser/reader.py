"""A person in front of a report page."""

import numpy as np

from vicinal.reporting.page import render

# Where a point of a picture is in the window, in pixels.
PLACE = """([which, row]) => {
  const plot = document.getElementById(`${which}-plot`);
  const { xaxis, yaxis } = plot._fullLayout;
  const box = plot.getBoundingClientRect();
  const [x, y] = [xaxis._offset + xaxis.l2p(row[0]), yaxis._offset + yaxis.l2p(row[1])];
  return [box.left + x, box.top + y];
}"""
SPAN = """(which) => {
  const { xaxis, yaxis } = document.getElementById(`${which}-plot`)._fullLayout;
  return [...xaxis.range, ...yaxis.range];
}"""


class Reader:
    """Opens the page of some contents, and does what a person does."""

    def __init__(self, browser, contents, path, ready, context):
        self.contents = contents
        html = render(contents)
        self.size = len(html.encode())
        path.write_text(html, encoding="utf-8")
        settings = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"}
        self.window = browser.new_context(**(settings | context))
        self.window.set_default_timeout(180_000)  # a busy machine, which draws by software
        self.page = self.window.new_page()
        self.errors, self.requests = [], []
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        if ready:
            self.page.wait_for_function("document.documentElement.dataset.ready === 'yes'")

    def _note(self, message):
        if message.type == "error":
            self.errors.append(message.text)

    def close(self):
        """Close the window; there were no errors, and nothing was asked of a network."""
        self.window.close()
        assert self.errors == []
        outside = [url for url in self.requests[1:] if not url.startswith(("data:", "blob:"))]
        assert outside == []

    def point(self, row, which="after"):
        """The coordinates of a row in the last frame, or before."""
        picture = self.contents.embedding
        points = picture.before if which == "before" else picture.frames[-1].points
        return [float(value) for value in points[row]]

    def place(self, row, which="after"):
        """Where a row is in the window."""
        self.page.locator(f"#{which}-frame").scroll_into_view_if_needed()
        self.page.wait_for_timeout(150)  # scrolling ends, which takes the box of a row away
        return self.page.evaluate(PLACE, [which, self.point(row, which)])

    def lonely(self, which="after"):
        """A row that no other row hides: the one farthest from its nearest."""
        picture = self.contents.embedding
        points = picture.before if which == "before" else picture.frames[-1].points
        distances = np.linalg.norm(points[:, None] - points[None], axis=2)
        np.fill_diagonal(distances, np.inf)
        return int(distances.min(axis=1).argmax())

    def hover(self, row, which="after"):
        x, y = self.place(row, which)
        self.page.mouse.move(x - 3, y)
        self.page.mouse.move(x, y)

    def click(self, row, which="after"):
        x, y = self.place(row, which)
        self.page.mouse.move(x, y)
        self.page.mouse.click(x, y)

    def span(self, which="after"):
        """The range of the axes: x0, x1, y0, y1."""
        return self.page.evaluate(SPAN, which)

    def shown(self, which="after"):
        """How many points the picture has, by class."""
        n_classes = max(len(self.contents.embedding.classes), 1)
        lengths = self.page.evaluate(
            f"document.getElementById('{which}-plot').data.map((trace) => trace.x.length)"
        )
        return lengths[:n_classes]

    def search(self, text):
        """Types into the search field and waits for the answer."""
        self.page.fill("#search", text)
        self.page.wait_for_function("document.getElementById('found').textContent !== ''")

    def listed(self, which):
        """The rows of a list of neighbours."""
        buttons = self.page.locator(f"#lists [data-which={which}] button").all()
        return [int(button.get_attribute("data-row")) for button in buttons]

    def text(self, selector):
        return self.page.locator(selector).inner_text()
