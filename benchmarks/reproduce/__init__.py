"""The papers' tables and figures, computed anew: ``python benchmarks/reproduce NAME``."""
