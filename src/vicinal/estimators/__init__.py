"""scikit-learn estimators: thin interfaces over the parts."""
