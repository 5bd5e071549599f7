"""Training: what the user's code meets in a worker."""
