"""Runs tests with both engines: import the fixture ``engine`` into the test module."""

import pytest
from numba import config

from vicinal.engines import choose

#: for tests of the compiled loops on few rows, and where dense arrays would take gigabytes
compiled_only = pytest.mark.parametrize("engine", ["compiled"], indirect=True)


@pytest.fixture(params=["compiled"] if config.DISABLE_JIT else ["dense", "compiled"], autouse=True)
def engine(request, monkeypatch):
    """NumPy up to 2,000 rows, or compiled loops for any number of rows.

    Without compilation the loops themselves are tested, as plain Python.  tests/conftest.py leaves
    out the dense engine where it says nothing new.
    """
    limit = {"dense": 2000, "compiled": 0}[request.param]
    monkeypatch.setattr(choose, "DENSE_UP_TO", limit)
    return request.param
