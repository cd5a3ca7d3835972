"""
Digits before and after learning
================================

Images of digits in the plane: by principal components, which keep what varies most, and by NCA,
which keeps what tells the digits apart.  Only images that were not learnt from are drawn.
"""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from vicinal import NCA
from vicinal.plotting import EmbeddingDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)

# %%
# Pixels share a unit, so that one scale serves all columns.
model = NCA(2, scaling="global", random_state=0).fit(X_train, y_train)
EmbeddingDisplay.from_estimator(
    model, X_train, y_train, X_test=X_test, y_test=y_test, show="held-out"
)
print(f"held-out images predicted rightly: {model.score(X_test, y_test):.0%}")
