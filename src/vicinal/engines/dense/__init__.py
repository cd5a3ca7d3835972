"""Whole arrays of pairs in NumPy: for small data, without anything to compile."""
