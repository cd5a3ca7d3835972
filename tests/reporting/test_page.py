"""The HTML of a report: whole, escaped, small; what a browser makes of it is in with_browser."""

import base64
import dataclasses
import gzip
import hashlib
import json
import re
import sys

import numpy as np
import pytest
from common.reports import make_contents

from vicinal.reporting.contents import Frame, Score
from vicinal.reporting.page import render

HOSTILE = "</script><img src=x onerror=alert(1)>&\"'\u2028<b>"


def unpacked(html):
    """The JSON of the payload and its bytes."""
    text = re.search(r'id="payload">([^<]*)<', html)[1]
    plain = gzip.decompress(base64.b64decode(text))
    length = int.from_bytes(plain[:4], "little")
    return json.loads(plain[4 : 4 + length]), plain[4 + length :]


def array(head, data, name):
    place = head["arrays"][name]
    dtype = np.dtype(place["type"]).newbyteorder("<")
    block = data[place["start"] : place["start"] + place["count"] * dtype.itemsize]
    planes = np.frombuffer(block, np.uint8).reshape(dtype.itemsize, -1)
    return np.ascontiguousarray(planes.T).view(dtype).ravel()


def test_points_survive_packing():
    contents = make_contents(n=40, n_frames=5)
    head, data = unpacked(render(contents))
    steps = array(head, data, "frames").reshape(5, 2, 40)
    codes = np.cumsum(steps, axis=0, dtype=np.uint16)
    low, high = (np.array(head["after"][end])[:, None] for end in ("low", "high"))
    for frame, code in zip(contents.embedding.frames, codes, strict=True):
        points = low + (high - low) * code / 0xFFFF
        np.testing.assert_allclose(points.T, frame.points, atol=float((high - low).max()) / 0xFFFF)
    found = array(head, data, "afterNeighbours").reshape(40, -1)
    np.testing.assert_array_equal(found, contents.neighbors.after)
    p = array(head, data, "afterP").reshape(40, -1) / 0xFFFE
    np.testing.assert_allclose(p, contents.neighbors.after_p, atol=1e-5)
    assert head["names"] == contents.embedding.names


def test_missing_neighbours_and_probabilities():
    contents = make_contents(n=30)
    near = contents.neighbors
    near.after[3, 5:] = -1
    near.after_p[3, 5:] = np.nan
    head, data = unpacked(render(contents))
    assert (array(head, data, "afterNeighbours").reshape(30, -1)[3, 5:] == 30).all()
    assert (array(head, data, "afterP").reshape(30, -1)[3, 5:] == 0xFFFF).all()


def hostile_contents():
    """Contents in which every text is an attack."""

    def spoilt(value):
        if isinstance(value, str):
            return HOSTILE if value not in ("accuracy", "better") else value
        if isinstance(value, list):
            return [spoilt(each) for each in value]
        if isinstance(value, dict):
            return {spoilt(a) + str(i): spoilt(b) for i, (a, b) in enumerate(value.items())}
        if dataclasses.is_dataclass(value):
            fields = {f.name: spoilt(getattr(value, f.name)) for f in dataclasses.fields(value)}
            return dataclasses.replace(value, **fields)
        return value

    return spoilt(make_contents(n=30))


def test_texts_cannot_become_markup():
    plain, hostile = render(make_contents(n=30)), render(hostile_contents())
    assert "<img" not in hostile
    assert "onerror=alert(1)>" not in hostile
    for tag in ("<script", "</script>", "<b>", "<a "):
        assert hostile.count(tag) == plain.count(tag)
    head, _ = unpacked(hostile)
    assert head["classes"][0] == HOSTILE  # as it is: scripts show it as text


def test_lone_surrogates_and_control_characters_are_replaced():
    html = render(make_contents(n=20, title="a\ud800b\x00c\x1b", facts={"\udfff": "\x07"}))
    html.encode("utf-8")
    assert "<title>a?b\ufffdc\ufffd</title>" in html


def test_policy_names_every_script_and_forbids_every_load():
    html = render(make_contents(n=20))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)[1]
    scripts = re.findall(r"<script>(.*?)</script>", html, flags=re.DOTALL)
    assert len(scripts) == 2
    for script in scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy
    outside = html.replace(scripts[0], "")
    assert not re.search(r"(src|href)=[\"']?(https?:|//)", outside)


def test_parts_that_are_none_are_left_out():
    few = dict.fromkeys(("neighbors", "table", "thumbnails", "metric", "history", "model"))
    none = {"left_out": {}, "table_notes": [], "verdict": None, "confusion": None, "mistakes": None}
    html = render(make_contents(n=20, scores=[], warnings=[], **none, **few))
    for name in ("scores", "columns", "convergence", "model"):
        assert f'id="{name}"' not in html
        assert f'href="#{name}"' not in html
    assert "{{" not in html.replace(re.findall(r"<script>(.*?)</script>", html, re.DOTALL)[0], "")


def test_headline_compares_with_the_best_rival():
    html = render(make_contents(n=20))
    figures = re.search(r'class="headline".*?</p></div>', html, re.DOTALL)[0]
    text = " ".join(re.sub(r"<[^>]*>", " ", figures).split())
    assert "94.1 % ± 0.9 % NCA, 2 components 87.4 % ± 1.4 % against LDA" in text
    assert text.endswith("better than the best usual method")


@pytest.mark.parametrize(
    ("n_classes", "shown"), [(3, "True class</th>"), (30, "most frequent conf")]
)
def test_confusions_mistakes_and_columns_left_out(n_classes, shown):
    html = render(make_contents(n=300, n_classes=n_classes))
    assert shown in html
    assert "Recall" in html
    assert 'data-point="7"' in html
    assert "row numbers" in html
    assert "3 of 303 rows have no label" in html


def test_scores_that_are_no_shares():
    scores = [Score("Euclidean", -0.2, float("nan")), Score("MLKR", 0.871, 0.012, learnt=True)]
    html = render(make_contents(n=20, scores=scores, score_name="R²"))
    assert "0.871 ± 0.012" in html
    assert "\u22120.200" in html
    assert "nan" not in re.search(r'<section id="scores".*?</section>', html, re.DOTALL)[0].lower()


@pytest.mark.parametrize("d", [2, 3])
def test_points_of_two_and_three_dimensions(d):
    head, _ = unpacked(render(make_contents(n=20, d=d)))
    assert head["d"] == d


def test_bad_parts_are_named():
    contents = make_contents(n=20)
    picture = contents.embedding
    for changed, message in [
        (dict(names=["a"]), "'embedding.names' must have one entry for each of 20 points, not 1"),
        (dict(frames=[]), "'embedding.frames' must have at least one frame"),
        (dict(frames=[Frame(0, np.zeros((3, 2)))]), r"iteration 0 must have shape \(20, 2\)"),
        (dict(before=np.zeros((20, 4))), r"'embedding.before' must have shape"),
        (dict(before=np.full((20, 2), np.nan)), r"'embedding.before' must be finite"),
        (dict(codes=np.full(20, 7)), r"'embedding.codes' must be in \[0, 2\]"),
    ]:
        broken = dataclasses.replace(contents, embedding=dataclasses.replace(picture, **changed))
        with pytest.raises(ValueError, match=message):
            render(broken)


def test_missing_plotly_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(ImportError, match=r"plotly: pip install 'vicinal\[report\]'"):
        render(make_contents(n=20))


@pytest.mark.slow
def test_sixty_thousand_points_stay_below_25_megabytes():
    contents = make_contents(n=60_000, n_classes=10, n_frames=30, pictures=3000, columns=4)
    html = render(contents)
    assert len(html.encode()) < 25e6
