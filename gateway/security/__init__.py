"""Principals, what they may do and use up; the keys, addresses and certificates of access."""
