"""Sequences of WS-ReliableMessaging to subscribers: message numbers, acknowledgements, ends."""
