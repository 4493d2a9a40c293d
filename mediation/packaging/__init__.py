"""Envelopes with attachments, and notifications as records of a messaging system.

Public are its modules: `dime`, `mime` and `packages` for the wire, `records` for adapters.
"""
