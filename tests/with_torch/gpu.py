"""A GPU for tests, or what stands for one: tensors of the CPU and Triton's interpreter.

Imported before triton is, which reads the variable.
"""

import os

import numpy as np
import torch

#: kernels run on the GPU itself; elsewhere one statement at a time, on tiny data
REAL = torch.cuda.is_available()
if not REAL:
    os.environ["TRITON_INTERPRET"] = "1"
    torch.set_num_threads(1)  # tiny arrays, and other tests beside them
DEVICE = "cuda" if REAL else "cpu"


def stand_in(monkeypatch):
    """Let the CPU stand for a GPU where there is none."""
    from vicinal.engines import cuda

    if not REAL:
        monkeypatch.setattr(cuda, "STAND_IN", "cpu")


def tensor(X):
    """An array on the device."""
    return torch.from_numpy(np.ascontiguousarray(X)).to(DEVICE)


def there(Z):
    """Points as engines of the device take them."""
    from vicinal.engines.cuda.arrays import DeviceArray

    return DeviceArray(tensor(Z))


def clouds(n, d, n_classes=3, apart=0.7, seed=0):
    """Points of overlapping classes, and their labels; one class has a single row."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    y[0] = n_classes
    return rng.normal(size=(n, d)) + apart * rng.normal(size=(n_classes + 1, d))[y], y
