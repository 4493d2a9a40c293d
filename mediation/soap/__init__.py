"""SOAP envelopes and WS-Addressing headers."""
