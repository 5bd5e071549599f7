"""Sync: folders and whole stores to any storage and back, in the background, and never half."""
