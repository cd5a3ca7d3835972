"""Tests of single engines: the compiled loops are used however few the rows."""

import pytest

from vicinal.engines import choose


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    """Leave nothing to NumPy."""
    monkeypatch.setattr(choose, "DENSE_UP_TO", 0)
