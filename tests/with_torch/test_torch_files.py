"""Model files with a `TorchMap`: arrays in the file, code from the module that is given."""

import numpy as np
import pytest
from torch import nn
from with_torch.networks import Residual, clouds, plain

import vicinal
from vicinal import NCA
from vicinal.maps import TorchMap
from vicinal.storage import FileError


@pytest.mark.filterwarnings("ignore:.* did not converge")
@pytest.mark.parametrize("make", [plain, Residual])
def test_a_loaded_model_says_the_same_bits(rng, make, tmp_path):
    X, y = clouds(rng)
    model = NCA(mapping=TorchMap(make()), max_iter=5, alpha=1e-3, random_state=0).fit(X, y)
    path = tmp_path / "model.vic"
    model.save(path)
    other = make(seed=1)  # its own parameters do not matter
    before = [p.detach().clone() for p in other.parameters()]
    loaded = vicinal.load(path, module=other)
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.mapping == model.mapping
    assert all((p == q).all() for p, q in zip(other.parameters(), before, strict=True))


@pytest.mark.filterwarnings("ignore:.* did not converge")
def test_another_module_is_refused(rng, tmp_path):
    X, y = clouds(rng)
    path = tmp_path / "model.vic"
    NCA(mapping=TorchMap(plain()), max_iter=2, alpha=1e-3).fit(X, y).save(path)
    with pytest.raises(FileError, match=r"module 'Sequential'.*load\(path, module=\.\.\.\)"):
        vicinal.load(path)
    with pytest.raises(FileError, match="must have the architecture that was saved"):
        vicinal.load(path, module=plain(hidden=7))
    with pytest.raises(FileError, match="'module' parameter of TorchMap"):
        vicinal.load(path, module=nn.Linear)
