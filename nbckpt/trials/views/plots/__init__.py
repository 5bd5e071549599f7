"""Plots of an experiment: curves, parallel coordinates, a scatter plot, and what the parameters matter."""
