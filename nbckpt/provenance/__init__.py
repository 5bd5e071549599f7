"""Provenance: what is needed to do a trial or a checkpoint again."""
