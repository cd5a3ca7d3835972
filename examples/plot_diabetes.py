"""
A metric for regression on a real table
=======================================

MLKR learns from the progression of diabetes in 442 patients which measurements make patients
alike.  The plane that it finds is coloured by the progression; the importances say which
measurements it rests on.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from vicinal import MLKR
from vicinal.plotting import MetricDisplay

X, y = load_diabetes(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

# %%
# Two dimensions for the picture.
model = MLKR(2, random_state=0).fit(X_train, y_train)
print(f"R² of new patients: {model.score(X_test, y_test):.2f}")
figure, ax = plt.subplots(figsize=(6, 4.5), layout="constrained")
points = ax.scatter(*model.transform(X_test).T, c=y_test, s=25)
figure.colorbar(points, ax=ax, label="progression")
ax.set(xticks=[], yticks=[], title="new patients in the learnt plane")

# %%
# Which measurements matter.
MetricDisplay.from_estimator(model)
