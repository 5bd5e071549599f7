"""Checkpoints: a trial's checkpoints on disk."""
