"""Checks a filter and compiles its expressions, each in its dialect."""
