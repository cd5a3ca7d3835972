"""The papers' tables and figures, computed again: ``python benchmarks/reproduce NAME``."""
