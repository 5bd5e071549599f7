"""Cells: what the code of a cell can read and change."""
