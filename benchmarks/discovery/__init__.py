"""Measures topic discovery: making and finding topics, and a node that knows 100,000 of them.

`exchange`, `shares`, `catalogue` and `intake` each state their question; ``python -m
benchmarks.discovery`` asks them.
"""
