"""The notebook's face: the magic, its completion, its progress. IPython is imported here only."""
