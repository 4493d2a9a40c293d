"""Messages as values: SOAP envelopes, WS-Addressing, WS-Eventing, WS-Notification and WSRF are
read, translated and rendered here. Sans-I/O: no socket, clock, thread or random number.

Each room is imported by its name. Most who come want `mediation.detect` (a message becomes a
request), `mediation.rendering` (a notification becomes a message), `mediation.model` (the values
that both speak of) and `mediation.client` (requests as subscribers and publishers write them).
"""
