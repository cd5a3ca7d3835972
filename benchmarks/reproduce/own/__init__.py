"""Questions of our own: defaults, large data, time and memory."""
