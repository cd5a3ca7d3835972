"""kSNE and kt-SNE as an estimator."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.manifold import trustworthiness

from vicinal import KSNE


def test_keeps_the_neighbours_of_iris():
    X = load_iris().data[::2]
    model = KSNE(k=2, perplexity=10, max_iter=300, early_exaggeration_iter=100).fit(X)
    assert trustworthiness(X, model.embedding_) > 0.96
    assert model.embedding_.shape == (75, 2)
    assert model.n_iter_ == 300


def test_k_beyond_the_rows_is_lowered_with_a_warning(rng):
    with pytest.warns(UserWarning, match="k=4 is used"):
        model = KSNE(k=5, perplexity=2, max_iter=5).fit(rng.standard_normal((6, 3)))
    assert model.k_ == 4
    assert np.isfinite(model.embedding_).all()


def test_a_picture_that_early_exaggeration_has_shrunk_grows_again(rng):
    """A round cloud has no clusters: exaggeration pulls all of it into a point."""
    X = rng.standard_normal((120, 20))
    model = KSNE(k=5, perplexity=30, max_iter=400, random_state=0).fit(X)
    assert model.n_iter_ == 400
    assert model.embedding_.std() > 1.0
    assert trustworthiness(X, model.embedding_) > 0.6
