"""docs/model_files.md: its code runs, and what it says of the format is so."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from sklearn.datasets import load_iris

from vicinal import NCA
from vicinal.storage import codec

PAGE = Path(__file__).resolve().parents[2] / "docs" / "model_files.md"


@pytest.mark.filterwarnings("ignore:.* did not converge")
def test_the_snippet_embeds_rows_without_vicinal(tmp_path, monkeypatch):
    iris = load_iris()
    model = NCA(2, alpha=1e-3, random_state=0, max_iter=3).fit(
        iris.data, iris.target_names[iris.target]
    )
    monkeypatch.chdir(tmp_path)
    model.save("model.vic")
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.S | re.M)
    assert "vicinal" not in code.replace('"vicinal"', "")
    found = {}
    exec(code, found)
    np.testing.assert_array_equal(found["embedded"], model.transform(found["rows"]))


@pytest.mark.filterwarnings("ignore:.* did not converge")
def test_the_checksum_is_as_the_page_says(tmp_path):
    X = np.random.RandomState(0).standard_normal((20, 3))
    NCA(2, max_iter=2, alpha=0.0).fit(X, np.arange(20) % 2).save(tmp_path / "model.vic")
    with safe_open(tmp_path / "model.vic", "np") as file:
        found = hashlib.sha256(file.metadata()["vicinal"].encode())
        for name in sorted(set(file.keys()) - {"sha256"}):
            array = file.get_tensor(name)
            found.update(json.dumps([name, array.dtype.name, list(array.shape)]).encode())
            found.update(array.tobytes())
        assert file.get_tensor("sha256").tobytes() == found.digest()


def test_the_page_lists_every_kind_of_value():
    text = PAGE.read_text("utf-8")
    for kind in codec._KEYS:
        assert f'"{kind}":' in text, kind
