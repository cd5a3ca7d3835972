"""Engines on a GPU give the sums and gradients of the dense ones; each trap of float32 is a test.

Without a GPU the kernels run in Triton's interpreter, on tensors of the CPU.
"""

import numpy as np
import pytest
import torch
from with_torch import gpu

from vicinal.densities import Compact, Gaussian, Laplace, Student
from vicinal.engines import choose
from vicinal.engines.cuda import backend, class_sums, dots
from vicinal.objectives import MatchLoss, MCMLLoss, MLKRLoss, NCALoss, nca_posterior
from vicinal.targets import LabelDistributions, Labels, Matches, NearNumbers, Numbers

pytestmark = pytest.mark.skipif(not backend.find_spec("triton"), reason="needs triton")


@pytest.fixture(autouse=True)
def device(monkeypatch):
    gpu.stand_in(monkeypatch)


def assert_agree(loss, Z, target, engine, dtype=np.float32, tolerance=1e-5, **rows):
    """Value, gradient and facts of Z there, and in float64 here; the same bits a second time."""
    Z = Z.astype(dtype)
    here = loss(Z.astype(np.float64), target, **rows)
    found, again = (loss(gpu.there(Z), target, **rows) for _ in range(2))
    dZ = found.dZ.tensor.cpu().numpy()
    assert found.facts["engine"] == engine
    assert found.value == pytest.approx(here.value, rel=tolerance)
    assert np.linalg.norm(dZ - here.dZ) <= tolerance * np.linalg.norm(here.dZ)
    assert found.weight == pytest.approx(here.weight, rel=1e-12)
    assert found.facts["left_out"] == here.facts["left_out"]
    assert found.value == again.value
    np.testing.assert_array_equal(dZ, again.dZ.tensor.cpu().numpy())
    value = loss(gpu.there(Z), target, gradient=False, **rows)
    assert value.dZ is None
    assert value.value == found.value
    return found


@pytest.fixture(params=["triton", "torch"])
def engine(request, monkeypatch):
    """The name of the engine of labels; the other one is for devices without Triton."""
    if request.param == "torch":
        monkeypatch.setattr(backend, "uses_triton", lambda device: False)
    return {"triton": "triton", "torch": "blocked torch"}[request.param]


@pytest.mark.parametrize("kernel", [Gaussian(), Student(), Laplace()])
@pytest.mark.parametrize("kind", ["log", "accuracy"])
def test_nca_agrees_with_dense(engine, kernel, kind, rng):
    Z, y = gpu.clouds(150, 2)
    assert_agree(NCALoss(kind, kernel), Z, Labels(y, rng.uniform(0.2, 3.0, 150)), engine)
    assert_agree(NCALoss(kind, kernel), Z, Labels(y), engine, np.float64, 1e-12)


@pytest.mark.parametrize("d", [1, 5, 8, 16, 40])
def test_nca_agrees_in_many_dimensions(d):
    Z, y = gpu.clouds(140, d)
    engine = "triton" if d <= class_sums.DIRECT_UP_TO else "triton products"
    assert_agree(NCALoss(), 0.5 * Z, Labels(y), engine, tolerance=1e-5 if d <= 8 else 2e-5)


def test_priors_and_masses_of_few_queries(engine, rng):
    Z, y = gpu.clouds(150, 3)
    labels = Labels(y, rng.uniform(0.2, 3.0, 150), priors=np.array([0.1, 0.2, 0.3, 0.4]))
    rows = {"queries": np.arange(0, 150, 3), "references": np.arange(0, 150, 2)}
    assert_agree(NCALoss(), Z, labels, engine)
    assert_agree(NCALoss("accuracy", Laplace()), Z, labels, engine, **rows)


def test_products_of_few_queries(rng):
    Z, y = gpu.clouds(150, 12)
    rows = {"queries": np.arange(0, 150, 3), "references": np.arange(0, 150, 2)}
    weighted = Labels(y, rng.uniform(0.2, 3.0, 150))
    for kernel in (Gaussian(), Student(), Laplace()):
        assert_agree(NCALoss("log", kernel), 0.5 * Z, weighted, "triton products",
                     tolerance=2e-5, **rows)  # fmt: skip


# The traps of float32


@pytest.mark.parametrize("scale", [10.0, 100.0])
def test_large_shifts_lose_no_digits(scale):
    """The energy of a pair is summed first: a shift that is added to it term by term loses them."""
    Z, y = gpu.clouds(150, 2)
    assert_agree(NCALoss(), scale * Z, Labels(y), "triton")


def test_rows_without_a_slope_bound_the_shift():
    """Two rows that are both classified well: 0 * inf would be NaN."""
    Z, y = gpu.clouds(150, 2)
    Z[y == 1] += 60.0
    Z[y == 2] *= 12.0
    found = assert_agree(NCALoss(), Z, Labels(y), "triton")
    assert np.isfinite(found.dZ.tensor.cpu().numpy()).all()


@pytest.mark.parametrize("d", [2, 32])
def test_rows_whose_shifts_are_far_apart_take_two_exponentials(d):
    Z, y = gpu.clouds(150, d, apart=0.0)
    Z *= 0.2
    Z[1:3] += 11.0 / np.sqrt(d)  # far from all other rows of their classes
    engine = "triton" if d == 2 else "triton products"
    assert_agree(NCALoss(), Z, Labels(y), engine, tolerance=2e-5)


def test_products_beyond_their_digits_are_differences():
    for d, engine in ((12, "triton"), (33, "blocked torch")):
        Z, y = gpu.clouds(150, d)
        assert_agree(NCALoss(), 10.0 * Z, Labels(y), engine)
    assert dots._NORM <= 256.0


def test_double_precision_has_differences_in_many_dimensions():
    Z, y = gpu.clouds(140, 20)
    assert_agree(NCALoss(), 0.5 * Z, Labels(y), "triton", np.float64, 1e-12)


def test_fused_multiply_add_is_set():
    for setting in (class_sums._FUSED, dots._FUSED):
        assert setting["enable_fp_fusion"] is True


@pytest.mark.parametrize(("d", "scale"), [(2, 1.0), (9, 10.0)])
def test_blocks_have_the_shapes_of_a_device(monkeypatch, d, scale, rng):
    """In the interpreter, where other shapes are faster."""
    usual = class_sums.TritonSums._shape
    monkeypatch.setattr(class_sums.TritonSums, "_shape", lambda self, d, _: usual(self, d, False))
    Z, y = gpu.clouds(60, d, n_classes=2)
    assert_agree(NCALoss(), scale * Z, Labels(y), "triton")
    few = {"queries": np.arange(0, 60, 3), "references": np.arange(1, 60)}
    assert_agree(NCALoss(), scale * Z, Labels(y), "triton", np.float64, 1e-10, **few)
    numbers = Numbers(rng.normal(size=60))
    assert_agree(MLKRLoss(), 0.5 * Z, numbers, "triton")


def test_many_classes():
    Z, y = gpu.clouds(300, 2, 97 if gpu.REAL else 9)
    assert_agree(NCALoss(), Z, Labels(y), "triton")


def test_tiny_classes_are_left_to_torch(monkeypatch):
    monkeypatch.setattr(backend, "_PADDED", 0)
    Z, y = gpu.clouds(200, 2, 67)
    assert_agree(NCALoss(), Z, Labels(y), "blocked torch")


def test_far_tiles_are_left_out(monkeypatch, rng):
    """Tiles that change no sum are not visited, and the choice is made from Z alone."""
    monkeypatch.setattr(class_sums, "SKIP_FROM", 0)
    y = np.arange(512) % 2
    cell = np.arange(512) // 128
    Z = rng.normal(size=(512, 2)) + 40.0 * np.stack([cell % 2, cell // 2], axis=1)
    labels = Labels(y, rng.uniform(0.5, 1.0, 512))
    found = assert_agree(NCALoss(), Z, labels, "triton")
    assert found.facts["share_of_pairs"] < 0.5
    near = assert_agree(NCALoss(), 0.01 * Z, labels, "triton")
    assert near.facts["share_of_pairs"] == 1.0
    assert_agree(MCMLLoss(), 0.1 * Z, Labels(y), "triton")
    known = {}
    for scale in (1.0, 0.3):  # the order of the rows changes with Z
        points = gpu.there(scale * Z)
        points.known = known
        assert NCALoss()(points, labels).value == pytest.approx(
            NCALoss()(scale * Z, labels).value, rel=1e-10
        )


def test_too_little_memory_takes_one_part_and_then_says_what_is_needed(monkeypatch):
    Z, y = gpu.clouds(150, 2)
    usual, asked = class_sums.TritonSums._launch_sums, []

    def short(self):
        asked.append(self._most_splits)
        if len(asked) in fails:
            raise torch.OutOfMemoryError
        return usual(self)

    monkeypatch.setattr(class_sums.TritonSums, "_launch_sums", short)
    fails = {1}
    found = NCALoss()(gpu.there(Z), Labels(y))
    assert asked == [None, 1]
    assert found.value == pytest.approx(NCALoss()(Z, Labels(y)).value, rel=1e-12)
    fails = {3, 4}
    with pytest.raises(MemoryError, match=r"150 rows in 2 dimensions needs about [\d,]+ bytes"):
        NCALoss()(gpu.there(Z), Labels(y))


# Other families


def soft_targets(rng, n):
    y = np.arange(n) % 3
    T = rng.uniform(size=(n, 3)) + 2.0 * np.eye(3)[y]
    numbers = rng.normal(size=(n, 2))
    M = 0.75 * (y[:, None] == y) * (rng.uniform(size=(n, n)) < 0.5)
    np.fill_diagonal(M, 0.0)
    return {
        "distributions": LabelDistributions(T / T.sum(axis=1, keepdims=True)),
        "near": NearNumbers(numbers, 0.8, False, rng.uniform(0.5, 1.0, n)),
        "hard": NearNumbers(numbers, 0.8, True),
        "matches": Matches(M),
    }


@pytest.mark.parametrize("name", ["distributions", "near", "hard", "matches"])
def test_soft_matches(name, rng):
    Z, _ = gpu.clouds(90, 3)
    target = soft_targets(rng, 90)[name]
    assert_agree(MatchLoss(kernel=Laplace()), Z, target, "blocked torch")
    assert_agree(MatchLoss(), Z, target, "blocked torch", np.float64, 1e-10,
                 queries=np.arange(0, 90, 2))  # fmt: skip


@pytest.mark.parametrize("kernel", [Gaussian(), Student(), Laplace()])
def test_kernel_regression(engine, kernel, rng):
    Z, _ = gpu.clouds(150, 3)
    numbers = Numbers(rng.normal(size=(150, 2)), rng.uniform(0.5, 1.0, 150))
    assert_agree(MLKRLoss(kernel), Z, numbers, engine)
    assert_agree(MLKRLoss(kernel), Z, numbers, engine, np.float64, 1e-10, queries=np.arange(9),
                 references=np.arange(3, 120))  # fmt: skip


def test_kernel_regression_far_apart(rng):
    Z, _ = gpu.clouds(150, 2)
    Z[:3] += 30.0
    assert_agree(MLKRLoss(), 5.0 * Z, Numbers(rng.normal(size=150)), "triton", tolerance=2e-5)


def test_kernel_regression_in_many_dimensions(rng):
    Z, _ = gpu.clouds(140, 12)
    numbers = Numbers(rng.normal(size=(140, 1)), rng.uniform(0.0, 1.0, 140).round())
    assert_agree(MLKRLoss(), 0.3 * Z, numbers, "triton")


def test_mcml():
    Z, y = gpu.clouds(150, 3)
    assert_agree(MCMLLoss(), Z, Labels(y), "triton")


@pytest.mark.parametrize("kernel", [Gaussian(), Student(), Laplace()])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_posteriors(engine, kernel, scale, rng):
    Z, y = gpu.clouds(150, 2)
    new = scale * rng.normal(size=(70, 2))
    labels = Labels(y, rng.uniform(0.2, 3.0, 150), priors=np.array([0.1, 0.2, 0.3, 0.4]))
    for target in (labels, Labels(y)):
        here = nca_posterior(new, Z, target, kernel)
        there = nca_posterior(gpu.there(new), gpu.there(Z), target, kernel)
        np.testing.assert_allclose(there, here, atol=1e-10)
        logs = nca_posterior(gpu.there(new), gpu.there(Z), target, kernel, log=True)
        np.testing.assert_allclose(
            logs, nca_posterior(new, Z, target, kernel, log=True), rtol=1e-9, atol=1e-9
        )


def test_posteriors_in_many_dimensions(rng):
    Z, y = gpu.clouds(150, 12)
    new = rng.normal(size=(9, 12))
    there = nca_posterior(gpu.there(new), gpu.there(Z), Labels(y))
    np.testing.assert_allclose(there, nca_posterior(new, Z, Labels(y)), atol=1e-10)


def test_blocks_of_torch_add_up(monkeypatch, rng):
    from vicinal.engines.cuda import blocked

    monkeypatch.setattr(blocked, "_PAIRS", 1000)
    Z, _ = gpu.clouds(60, 3)
    assert_agree(MLKRLoss(), Z, Numbers(rng.normal(size=(60, 5))), "blocked torch")


def test_what_is_missing_is_refused_by_name():
    Z = gpu.there(np.zeros((4, 2)))
    backends = choose.backend(Z, 4)
    for name, words in (("margins", "LMNN"), ("set_potential", "KSNE")):
        with pytest.raises(NotImplementedError, match=words):
            getattr(backends, name)
    with pytest.raises(NotImplementedError, match="compact kernel"):
        NCALoss("accuracy", Compact(background=False))(Z, Labels([0, 0, 1, 1]))
