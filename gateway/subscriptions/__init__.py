"""Subscriptions: their life, their leases, their consumers, their ends, their dead letters."""
