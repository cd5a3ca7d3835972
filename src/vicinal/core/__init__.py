"""The types that parts hand to each other, and the one way through a fit."""
