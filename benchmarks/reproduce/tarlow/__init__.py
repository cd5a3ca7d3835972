"""The tables and figures of Tarlow et al. (2013) computed again."""
