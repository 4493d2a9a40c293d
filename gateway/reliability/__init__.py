"""Reliable messaging: the two ends of sequences, their records and stores. It imports nothing of
the server, so that applications can use it alone."""
