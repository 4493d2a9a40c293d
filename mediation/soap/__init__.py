"""SOAP envelopes, WS-Addressing headers and references, faults of peers."""
