"""
From a CSV file to a better classifier and a picture
====================================================

::

    python examples/plot_wine.py [table.csv [label column [picture.png]]]

Without arguments it uses scikit-learn's wine.  Needs pandas and matplotlib.
"""

import sys
import tempfile
from pathlib import Path

import pandas as pd
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from vicinal import NCA
from vicinal.plotting import EmbeddingDisplay


def wine_as_csv():
    path = Path(tempfile.mkdtemp()) / "wine.csv"
    load_wine(as_frame=True).frame.to_csv(path, index=False)
    return path


given = sys.argv[1:]
path, label, picture = given + [None, "target", "demo/wine.png"][len(given) :]

table = pd.read_csv(path or wine_as_csv())
X, y = table.drop(columns=label), table[label]
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)

# %%
# Nearest neighbours on scaled columns, and NCA in two dimensions.
before = make_pipeline(StandardScaler(), KNeighborsClassifier()).fit(X_train, y_train)
after = NCA(n_components=2, random_state=0).fit(X_train, y_train)
print("Test accuracy")
print(f"5-NN on scaled columns: {before.score(X_test, y_test):.1%}")
print(f"NCA in two dimensions:  {after.score(X_test, y_test):.1%}")

# %%
# Filled markers are training rows; held-out rows stand out.
display = EmbeddingDisplay.from_estimator(
    after, X_train, y_train, X_test=X_test, y_test=y_test, target_name=label
)
Path(picture).parent.mkdir(parents=True, exist_ok=True)
display.figure_.savefig(picture)
print(f"Picture: {picture}")
