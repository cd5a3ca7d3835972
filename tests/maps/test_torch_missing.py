"""Without torch everything loads, and what needs it says what to install."""

import sys

import numpy as np
import pytest

from vicinal.maps import TorchMap
from vicinal.torch import nca_loss


def test_what_needs_torch_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed
    with pytest.raises(ImportError, match=r"TorchMap needs .* pip install vicinal\[torch\]"):
        TorchMap(None)
    with pytest.raises(ImportError, match=r"nca_loss needs .* pip install vicinal\[torch\]"):
        nca_loss(np.zeros((2, 1)), [0, 1])
