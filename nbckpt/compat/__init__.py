"""Compat: scripts written for Ray Tune, Ray AIR, AdaptDL and W&B run with only their imports changed.

Nothing here imports those systems. See docs/compat.md.
"""
