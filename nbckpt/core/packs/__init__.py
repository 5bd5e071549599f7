"""Packs: bytes by their digests, in packs."""
