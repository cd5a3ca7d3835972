"""Every formula in plain NumPy, with its equation number: the oracle of the tests.

Float64, whole N x N arrays, no tricks beyond log-sum-exp.  Read these files to learn what is
computed, and `vicinal.kernels` to learn how it is computed fast.  They import nothing of vicinal.

The derivations are in ``docs/theory/``, the keys in ``docs/references.bib``.
"""

from formulas._common import finite_difference, squared_distances
from formulas.background import (
    background_gradient,
    class_normals,
    kernel_density,
    mixture_densities,
    nca_background,
)
from formulas.knca import knca, knca_by_subsets, knca_posterior
from formulas.ksne import ksne, set_marginals, set_marginals_by_subsets
from formulas.lmnn import chi2, lmnn, simplex_projection
from formulas.maps import mlp, periodic_features
from formulas.matches import matches_of_distributions, matches_of_numbers, nca_matches
from formulas.mcml import mcml, mcml_gradient_printed
from formulas.mlkr import mlkr
from formulas.nca import nca, nca_gradient_printed
from formulas.pair_nca import pair_nca
from formulas.rules import effective_n_neighbors, posterior

__all__ = [
    "background_gradient",
    "chi2",
    "class_normals",
    "effective_n_neighbors",
    "finite_difference",
    "kernel_density",
    "knca",
    "knca_by_subsets",
    "knca_posterior",
    "ksne",
    "lmnn",
    "matches_of_distributions",
    "matches_of_numbers",
    "mcml",
    "mcml_gradient_printed",
    "mixture_densities",
    "mlkr",
    "mlp",
    "nca",
    "nca_background",
    "nca_gradient_printed",
    "nca_matches",
    "pair_nca",
    "periodic_features",
    "posterior",
    "set_marginals",
    "set_marginals_by_subsets",
    "simplex_projection",
    "squared_distances",
]
