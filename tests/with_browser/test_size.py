"""Large pages: size, the time until they can be used, and the time of a step of the slider."""

import time

import numpy as np
import pytest
from common.reports import make_contents

# Moves the slider to some frames, one by one, and waits until each is on the screen.
STEPS = """async () => {
  const slider = document.getElementById("iteration");
  const plot = document.getElementById("after-plot");
  const times = [];
  for (let i = 0; i < 8; i++) {
    const start = performance.now();
    const drawn = new Promise((done) => plot.once("plotly_afterplot", done));
    slider.value = i % Number(slider.max);
    slider.dispatchEvent(new Event("input"));
    await drawn;
    await new Promise(requestAnimationFrame);
    times.push(performance.now() - start);
  }
  return times;
}"""


@pytest.mark.parametrize(
    ("n", "n_classes", "n_frames", "pictures"),
    [(60_000, 10, 30, 3000), (100_000, 10, 6, 0), (100_000, 50, 6, 0)],
)
def test_large_pages(read, keep, n, n_classes, n_frames, pictures):
    contents = make_contents(n=n, n_classes=n_classes, n_frames=n_frames, pictures=pictures)
    start = time.perf_counter()
    reader = read(contents)
    opened = time.perf_counter() - start
    steps = np.array(reader.page.evaluate(STEPS))
    start = time.perf_counter()
    reader.search("row 4242")
    searched = time.perf_counter() - start
    reader.page.press("#search", "Enter")
    assert "row 4242" in reader.text("#chosen")
    keep(reader, f"{n}-points-{n_classes}-classes")
    print(
        f"\n{n} points, {n_classes} classes, {n_frames} frames: {reader.size / 1e6:.1f} MB, "
        f"rendered and opened in {opened:.1f} s, steps of {np.median(steps):.0f} ms "
        f"(longest {steps.max():.0f} ms), search {searched:.2f} s"
    )
    assert reader.size < 25e6
    assert opened < 90
    # Drawn by software on a few busy cores; a graphics card takes a fraction.
    assert np.median(steps) < 2000
