"""How sums over pairs are computed; `choose` is the one place that picks an engine."""
