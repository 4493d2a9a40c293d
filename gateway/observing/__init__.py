"""Observation of the process by operators: its log and its numbers."""
