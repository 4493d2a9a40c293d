"""Endpoint references and specifications in the texts of columns."""

import json
from collections.abc import Mapping
from typing import Any

from mediation.model.messages import EndpointReference
from mediation.model.versions import EventForm, Form, Soap, Spec, Version, Wsa

_FORMS: Mapping[str, Form] = {form.name: form for form in (*Soap, *EventForm)}


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


def spec_values(spec: Spec) -> dict[str, str | None]:
    """The columns, or members of JSON, that store *spec*."""
    return {
        "version": spec.version.value,
        "soap": spec.form.name,
        "wsa": spec.wsa.name if spec.wsa else None,
    }


def read_spec(values: Mapping[str, Any]) -> Spec:
    """Read what `spec_values` made; other members are not looked at."""
    wsa = values["wsa"]
    return Spec(Version(values["version"]), _FORMS[values["soap"]], Wsa[wsa] if wsa else None)
