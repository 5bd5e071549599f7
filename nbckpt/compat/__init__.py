"""Compat: scripts written for Ray Tune, Ray AIR and AdaptDL run with only their imports changed.

Nothing here imports those systems. See docs/compat.md.
"""
