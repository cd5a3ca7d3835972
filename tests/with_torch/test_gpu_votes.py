"""Votes of k neighbours on a GPU are those of the CPU; without a GPU in Triton's interpreter."""

import numpy as np
import pytest
import torch
from with_torch import gpu

from vicinal import KNCA
from vicinal.engines.cuda import backend, votes
from vicinal.objectives import KNCALoss, knca_posterior
from vicinal.targets import Labels

pytestmark = [
    pytest.mark.skipif(not backend.find_spec("triton"), reason="needs triton"),
    # lanes that leave the range of plain numbers are counted again
    pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning"),
]


@pytest.fixture(autouse=True)
def device(monkeypatch):
    gpu.stand_in(monkeypatch)


def assert_agree(loss, Z, y, dtype=np.float32, tolerance=1e-5, **rows):
    """Value, gradient and facts of Z there, and in float64 on the CPU."""
    here = loss(Z.astype(np.float64), Labels(y), **rows)
    found = loss(gpu.there(Z.astype(dtype)), Labels(y), **rows)
    dZ = found.dZ.tensor.cpu().numpy()
    assert found.facts["engine"] == "triton"
    assert found.value == pytest.approx(here.value, rel=tolerance)
    assert np.linalg.norm(dZ - here.dZ) <= tolerance * np.linalg.norm(here.dZ)
    assert found.weight == here.weight
    assert found.facts["left_out"] == here.facts["left_out"]
    return found


def test_one_vote_is_nca():
    Z, y = gpu.clouds(150, 2)
    found = assert_agree(KNCALoss(1), Z, y)
    again = KNCALoss(1)(gpu.there(Z.astype(np.float32)), Labels(y))
    assert found.value == again.value
    assert torch.equal(found.dZ.tensor, again.dZ.tensor)
    value = KNCALoss(1)(gpu.there(Z.astype(np.float32)), Labels(y), gradient=False)
    assert value.dZ is None
    assert value.value == found.value


def test_a_majority_of_five_with_contested_votes():
    Z, y = gpu.clouds(100, 3)
    assert_agree(KNCALoss(5), Z, y)


def test_all_votes_in_double_precision():
    Z, y = gpu.clouds(70, 2)
    assert_agree(KNCALoss(4, "all", "accuracy"), Z, y, np.float64, 1e-12)


def test_few_queries_and_other_references():
    Z, y = gpu.clouds(150, 9)
    rows = {"queries": np.arange(0, 150, 3), "references": np.arange(1, 150, 2)}
    assert_agree(KNCALoss(3), 0.5 * Z, y, **rows)


def test_votes_out_of_the_range_of_numbers_are_counted_in_logarithms():
    Z, y = gpu.clouds(70, 2)
    found = assert_agree(KNCALoss(2), 100.0 * Z, y)
    assert found.facts["log_domain"] > 50


def test_a_class_without_references_and_rows_that_cannot_win():
    Z, y = gpu.clouds(70, 2, n_classes=2)
    rows = {"references": np.flatnonzero(y == 0)}
    found = assert_agree(KNCALoss(2, "all"), Z, y, np.float64, 1e-12, **rows)
    assert found.facts["left_out"] == (y != 0).sum()


def test_equal_points_and_many_near_ones():
    """Members as near as the k-th share its slope; theta falls where many are about as near."""
    Z, y = gpu.clouds(140, 2, n_classes=2)
    Z[:80] = np.round(Z[:80])
    assert_agree(KNCALoss(3), 1e-2 * Z, y, np.float64, 1e-10)


@pytest.mark.parametrize("d", [2, 9])
def test_blocks_have_the_shapes_of_a_device(monkeypatch, d):
    """In the interpreter, where other shapes are faster."""
    shapes = votes.Sets.blocks

    def of_device(sets, d):
        monkeypatch.setattr(sets, "interpreted", False)
        found = shapes(sets, d)
        monkeypatch.setattr(sets, "interpreted", True)
        return found

    def of_pull(sets, d):
        return of_device(sets, d)[0], 2 if d < 8 else 1

    monkeypatch.setattr(votes.Sets, "blocks", of_device)
    monkeypatch.setattr(votes.Sets, "_blocks_of_pull", of_pull)
    Z, y = gpu.clouds(60, d, n_classes=2)
    assert_agree(KNCALoss(2), 0.5 * Z, y)


def test_several_splits_of_a_class_give_one_summary(monkeypatch):
    """As on a device with many more places for programs than there are blocks of rows."""
    Z, y = gpu.clouds(1200, 2, n_classes=1)
    found = votes.Sets(gpu.there(Z), layout(Z, y), 3).summaries()
    monkeypatch.setattr("vicinal.engines.cuda.layout.PROGRAMS", 1)
    whole = votes.Sets(gpu.there(Z), layout(Z, y), 3).summaries()
    for part, other in zip(found, whole, strict=True):
        np.testing.assert_allclose(part[..., :1100].cpu(), other[..., :1100].cpu(), rtol=1e-12)


def layout(Z, y):
    from vicinal.engines.base import Data
    from vicinal.engines.cuda.layout import Layout

    rows = np.arange(len(Z))
    return Layout(Data(gpu.there(Z), y, np.ones(len(Z)), rows, rows))


@pytest.mark.parametrize("vote", ["majority", "all"])
def test_chances_of_new_points(vote):
    Z, y = gpu.clouds(70, 2)
    new = np.concatenate([Z[:5] + 0.1, [[60.0, 0.0], [0.0, -900.0]]])
    here = knca_posterior(new, Z, y, 3, vote)
    there = knca_posterior(gpu.there(new), gpu.there(Z), y, 3, vote)
    np.testing.assert_allclose(there, here, atol=1e-9)


def test_a_fit_and_its_predictions():
    Z, y = gpu.clouds(40, 3, n_classes=2)
    y[0] = 0
    parameters = {"alpha": 3e-3, "max_iter": 2, "init": "identity", "tol": None}
    models = [KNCA(2, k=2, device=name, **parameters) for name in (None, "cuda")]
    here, there = (model.fit(Z, y) for model in models)
    np.testing.assert_allclose(there.transform(Z), here.transform(Z), atol=1e-6)
    assert "by Triton kernels, with about" in there.plan_.reason
    P = there.predict_proba(gpu.tensor(Z[:5]))
    assert isinstance(P, torch.Tensor)
    np.testing.assert_allclose(P.cpu(), here.predict_proba(Z[:5]), atol=1e-6)


def test_what_has_no_kernel_is_refused_by_name(monkeypatch):
    Z, y = gpu.clouds(40, 2)
    with pytest.raises(NotImplementedError, match=r"sets of k=16 neighbours.*Use k=15 or less"):
        KNCALoss(16)(gpu.there(Z), Labels(y))
    wide = gpu.there(np.ones((40, 33)))
    with pytest.raises(NotImplementedError, match="neighbours in 33 dimensions"):
        KNCALoss(3)(wide, Labels(y))
    with pytest.raises(NotImplementedError, match=r"points as far apart as \S+ on a GPU"):
        KNCALoss(3)(gpu.there(1e13 * Z), Labels(y))
    monkeypatch.setattr(backend, "uses_triton", lambda device: False)
    with pytest.raises(NotImplementedError, match="without Triton"):
        KNCALoss(3)(gpu.there(Z), Labels(y))


def test_too_little_memory_says_what_is_needed(monkeypatch):
    Z, y = gpu.clouds(40, 2)

    def short(self):
        raise torch.OutOfMemoryError

    monkeypatch.setattr(votes.Sets, "summaries", short)
    with pytest.raises(MemoryError, match=r"40 rows in 2 dimensions needs about [\d,]+ bytes"):
        KNCALoss(3)(gpu.there(Z), Labels(y))
