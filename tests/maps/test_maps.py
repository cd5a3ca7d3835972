"""What is special to a map; what all keep to is in contracts."""

from __future__ import annotations

import numpy as np

from vicinal.maps import Diagonal


def test_diagonal_of_a_matrix(rng):
    a = np.array([2.0, -3.0, 0.0])
    np.testing.assert_array_equal(Diagonal().theta(np.diag(a)), a)  # signs are kept
    A = rng.standard_normal((2, 3))
    np.testing.assert_allclose(Diagonal().theta(A), np.linalg.norm(A, axis=0))
    A = rng.standard_normal((3, 3))
    np.testing.assert_allclose(Diagonal().theta(A), np.linalg.norm(A, axis=0))
