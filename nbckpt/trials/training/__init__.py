"""Training: the part of a trial that runs the user's code in a worker."""
