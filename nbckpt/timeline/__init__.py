"""Timeline: the namespace after each cell as a point, and the ways back and forth between points.

See docs/decisions/0098.
"""
