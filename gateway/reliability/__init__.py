"""Reliable messaging: what is kept of sequences, and the storage API. It imports nothing of the
server, so that applications can use it alone."""
