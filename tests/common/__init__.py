"""Data and comparisons that several test files share."""
