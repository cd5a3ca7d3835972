"""
What is predicted everywhere in a learnt plane
==============================================

NCA maps wine's thirteen columns to a plane.  Because it is a classifier too, the plane can be
coloured by what would be predicted there; pale colours are places where the prediction is unsure.
"""

from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split

from vicinal import NCA
from vicinal.plotting import DecisionRegionsDisplay

X, y = load_wine(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)

# %%
# The map learns from three quarters of the rows; the others are drawn with heavier markers.
model = NCA(2, random_state=0).fit(X_train, y_train)
DecisionRegionsDisplay.from_estimator(model, X_train, y_train, X_test=X_test, y_test=y_test)
print(f"held-out rows predicted rightly: {model.score(X_test, y_test):.0%}")
