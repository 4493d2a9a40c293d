"""Sequences of reliable messages that publishers make at the gateway (WS-ReliableMessaging)."""
