"""Compiled inner loops: numbers in, numbers out."""
