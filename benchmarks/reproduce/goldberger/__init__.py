"""The tables and figures of Goldberger et al. (2005) computed again."""
