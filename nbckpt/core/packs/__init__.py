"""Packs: files of blobs, which are named by their digests."""
