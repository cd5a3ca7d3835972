"""Two sample reports for the site: rings among columns of noise, and numbers.

docs/images/report.png shows the head and the picture of the first, as Chromium draws them.
"""

import pandas as pd
from sklearn.datasets import load_diabetes

from vicinal import MLKR, NCA, report
from vicinal.datasets import make_rings

X, y = make_rings(2000, n_noise=8, random_state=0)
X = pd.DataFrame(X, columns=[f"x{at}" for at in range(X.shape[1])])
report(
    NCA(2, alpha=1e-3, random_state=0), X, y, target_name="ring", source="rings", random_state=0
).save("rings.html")

X, y = load_diabetes(return_X_y=True, as_frame=True)
report(
    MLKR(2, random_state=0), X, y, target_name="progression", source="diabetes", random_state=0
).save("diabetes.html")
