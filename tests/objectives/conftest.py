"""Every test of an objective runs over both engines."""

import pytest
from numba import config

from vicinal.engines import choose


@pytest.fixture(params=["compiled"] if config.DISABLE_JIT else ["dense", "compiled"], autouse=True)
def engine(request, monkeypatch):
    """The engine for small data, or the compiled one that large data have.

    Without compilation the loops themselves are what is tested, as plain Python.
    """
    if request.param == "compiled":
        monkeypatch.setattr(choose, "DENSE_UP_TO", 0)
    return request.param
