"""Engines of others beside Dragoman: the same messages, the same patterns, the same verdicts."""
