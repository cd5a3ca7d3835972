"""From a table as it is to an estimator that can learn from it.

`methods` lists every method by a short name; `build` makes the scikit-learn pipeline.  Importing
this package imports neither NumPy nor scikit-learn, so that a command line can list the methods at
once.
"""

from vicinal._public import listing as _listing
from vicinal.learner.methods import METHODS, MethodInfo, usual_method

__all__ = ["METHODS", "MethodInfo", "usual_method"]
__dir__ = _listing(__name__)
