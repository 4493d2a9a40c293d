"""Endpoint references as text of a column."""

import json

from mediation import EndpointReference, Wsa


def write_reference(epr: EndpointReference) -> str:
    """Write *epr* as JSON."""
    return json.dumps(
        {
            "address": epr.address,
            "wsa": epr.wsa.name,
            "properties": [octets.decode() for octets in epr.properties],
            "parameters": [octets.decode() for octets in epr.parameters],
            "metadata": [octets.decode() for octets in epr.metadata],
        }
    )


def read_reference(text: str) -> EndpointReference:
    """Read what `write_reference` wrote."""
    value = json.loads(text)
    return EndpointReference(
        value["address"],
        Wsa[value["wsa"]],
        *(
            tuple(octets.encode() for octets in value[name])
            for name in ("properties", "parameters", "metadata")
        ),
    )
