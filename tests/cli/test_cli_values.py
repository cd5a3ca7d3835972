"""Values on the command line: durations, settings, near names, and numbers in JSON."""

import click
import numpy as np
import pytest

from vicinal.cli import _options
from vicinal.cli._console import plain


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("30s", 30), ("2m", 120), ("1.5h", 5400), ("1h30m", 5400), ("2 min", 120)],
)
def test_durations(text, seconds):
    assert _options.Duration().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "soon", "3 days", "-5s", "0", "5s and more"])
def test_wrong_durations(text):
    with pytest.raises(click.BadParameter):
        _options.Duration().convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "value"),
    [("a=1", 1), ("a=1e-3", 1e-3), ("a=auto", "auto"), ("a=None", None), ("a=null", None),
     ("a=true", True), ("a=[1, 2]", [1, 2]), ("a='1'", "1"), ("a=x=y", "x=y"), ("a=", "")],
)  # fmt: skip
def test_settings(text, value):
    assert _options.Setting().convert(text, None, None) == ("a", value)


def test_settings_run_no_code():
    assert _options.Setting().convert("a=__import__('os')", None, None)[1] == "__import__('os')"


def test_json_has_no_nan_and_no_arrays():
    value = {"a": np.float64("nan"), "b": np.arange(2), 3: float("inf"), "c": np.int64(4)}
    assert plain(value) == {"a": None, "b": [0, 1], "3": None, "c": 4}
