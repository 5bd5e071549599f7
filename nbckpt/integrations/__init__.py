"""Integrations: checkpoints that know one library each. The library is imported when it is used."""
