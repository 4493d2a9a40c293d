"""Backups of a gateway's data folder: made while it runs, encrypted if wanted, verified, restored.

A backup is a tar file. Its first member, ``manifest.json``, names the others with their sizes and
SHA-256, the versions, and the moment that all of it is of.
"""
