"""Topics on which events must be signed by their publishers (`mediation.event_signatures`).

    publication -> checks.admit   refused, where its signature does not count or came before
         |
    messaging system -> checks.once   what programs published past the gateway: to the dead letters

Which topics, and whose signatures, say rows of the settings (`settings.py`, `requirements.py`).
"""
