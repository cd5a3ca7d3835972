"""Predictors over embedded training rows, independent of how the map was learnt."""
