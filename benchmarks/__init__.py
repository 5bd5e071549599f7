"""Benchmarks: what a save and a restore cost, against the hardware's floor and against the peers.

`python -m benchmarks` prints the table; README.md says what is measured and how.
"""
