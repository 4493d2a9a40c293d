"""Sequences of WS-ReliableMessaging to subscribers: made at Subscribe, listed, ended."""
