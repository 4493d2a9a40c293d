"""The subscriptions of a gateway as a whole, listed and deleted in SOAP (a specification of
Dragoman's own, with its schema in ``mediation/schemas``)."""
