"""
Find structure that other projections miss
==========================================

Three classes lie on rings in two of eleven columns; the others are noise, and every column has the
same variance.  PCA sees nothing, LDA sees nothing since all classes have one mean.  NCA finds the
two columns.
"""

import numpy as np
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.preprocessing import StandardScaler

from vicinal import NCA, plotting
from vicinal.datasets import make_rings

X, y = make_rings(800, n_classes=3, random_state=0)
X = np.hstack([X, np.random.RandomState(0).normal(size=(800, 8))])
X = StandardScaler().fit_transform(X)
train, test = slice(0, 400), slice(400, None)

# %%
# Each learns from the first half; the second half is drawn.
maps = {
    "PCA": PCA(2),
    "LDA": LinearDiscriminantAnalysis(n_components=2),
    "NCA": NCA(2, random_state=0),
}
panels = {name: each.fit(X[train], y[train]).transform(X[test]) for name, each in maps.items()}
plotting.before_after(panels, y[test])
print(f"NCA: {maps['NCA'].score(X[test], y[test]):.0%} of the held-out rows are right")
print("importances:", maps["NCA"].feature_importances_.round(2))
