"""Nothing from the data becomes markup or script, and nothing is asked of a network."""

import dataclasses

import pytest
from common.reports import make_contents

ATTACKS = [
    "</script><script>window.__pwned = 1</script>",
    "<img src=x onerror='window.__pwned = 2'>",
    "<a href='javascript:window.__pwned = 3'>click</a>",
    '"><svg onload="window.__pwned = 4">',
    "<b>bold</b><a href='https://example.org/x'>away</a>",
    "</style><style>@import 'https://example.org/x.css'</style>",
    "{{payload}}",
    "\u2028window.__pwned = 5//",
]


def attacked(contents):
    """The contents with an attack in place of every text."""
    used = iter(range(10**9))

    def attack():
        return ATTACKS[next(used) % len(ATTACKS)]

    def spoilt(value):
        if isinstance(value, str):
            return value if value == "accuracy" else attack()
        if isinstance(value, list):
            return [spoilt(each) for each in value]
        if isinstance(value, dict):
            return {f"{i}{attack()}": spoilt(each) for i, each in enumerate(value.values())}
        if dataclasses.is_dataclass(value):
            fields = {f.name: spoilt(getattr(value, f.name)) for f in dataclasses.fields(value)}
            return dataclasses.replace(value, **fields)
        return value

    return spoilt(contents)


@pytest.mark.parametrize("values", [False, True])
def test_attacks_are_shown_as_text(read, keep, values):
    plain = make_contents(n=60, n_classes=1 if values else 8, n_frames=3, values=values)
    reader = read(attacked(plain))
    row = reader.lonely()
    reader.hover(row)
    reader.page.wait_for_selector("#tip:not([hidden])")
    reader.click(row)
    reader.page.wait_for_selector("#neighbours:not([hidden])")
    reader.search("<")
    reader.page.wait_for_selector("#matches:not([hidden])")
    reader.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    keep(reader, f"attacks-{'numbers' if values else 'classes'}")
    assert reader.page.evaluate("window.__pwned") is None
    assert reader.page.title() == ATTACKS[0]
    found = reader.page.evaluate(
        """() => [
          [...document.links].filter((link) => !link.getAttribute("href").startsWith("#")).length,
          document.querySelectorAll("img, iframe, object, embed, form").length,
        ]"""
    )
    assert found == [0, 0]


def test_policy_stops_what_would_load_or_run(read):
    reader = read(make_contents(n=30, n_frames=1))
    failures = []
    reader.page.on("requestfailed", lambda request: failures.append(request.failure))
    outcome = reader.page.evaluate(
        """async () => {
          const out = {};
          out.fetch = await fetch("https://example.org/").then(() => "loaded", () => "stopped");
          out.image = await new Promise((done) => {
            const image = new Image();
            image.onload = () => done("loaded");
            image.onerror = () => done("stopped");
            image.src = "https://example.org/x.png";
          });
          const script = document.createElement("script");
          script.textContent = "window.__ran = 1";
          document.body.append(script);
          const handler = "<p id='on' onclick='window.__ran = 2'>x</p>";
          document.body.insertAdjacentHTML("beforeend", handler);
          document.getElementById("on").click();
          out.script = window.__ran || "stopped";
          return out;
        }"""
    )
    assert outcome == {"fetch": "stopped", "image": "stopped", "script": "stopped"}
    assert len([e for e in reader.errors if "Content Security Policy" in e]) >= 3
    assert set(failures) == {"csp"}  # Playwright need not list each request that was stopped
    reader.errors.clear()  # what was to be seen
    reader.requests.clear()
