"""Two sample reports for the site: classes with a slider over the iterations, and numbers."""

from sklearn.datasets import load_diabetes, load_wine

from vicinal import MLKR, NCA, report

X, y = load_wine(return_X_y=True, as_frame=True)
report(
    NCA(2, alpha=0.01, random_state=0), X, y, target_name="cultivar", source="wine", random_state=0
).save("wine.html")

X, y = load_diabetes(return_X_y=True, as_frame=True)
report(
    MLKR(2, random_state=0), X, y, target_name="progression", source="diabetes", random_state=0
).save("diabetes.html")
