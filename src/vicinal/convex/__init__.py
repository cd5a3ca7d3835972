"""Methods that learn the matrix M of a Mahalanobis distance directly, by convex problems in M.

Each file solves one problem: arrays of differences in, M out.  The estimators check, scale and
store.
"""
