"""The types that the parts exchange, and the training loop that every fit uses."""
