"""Subscriptions in front of any adapter: matching, filters that the system evaluates, slow
filters."""
