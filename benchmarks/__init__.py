"""Benchmarks: the time of saves and restores, compared with the hardware's floor and with peers.

`python -m benchmarks` prints the table. README.md describes the measurements.
"""
