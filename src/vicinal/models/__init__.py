"""What predicts: knows nothing of learning."""
