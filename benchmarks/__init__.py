"""Benchmarks, as ratios to a bare baseline in the same run."""
