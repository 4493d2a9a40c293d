"""Settings of a gateway that is a topic discovery node, and entities that speak to it in SOAP."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from tests.rigs.discovery_keys import parties


def node_settings(folder: Path, **discovery: Any) -> Mapping[str, Any]:
    """Settings, with the files that they name in *folder*."""
    known = parties()
    key, certificate = folder / "node.key", folder / "node.pem"
    key.write_bytes(known.node.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    certificate.write_bytes(known.node.certificate.public_bytes(Encoding.PEM))
    found = {"key": key, "certificate": certificate}
    for name, authority in (("node", known.node_authority), ("entity", known.entity_authority)):
        path = folder / f"{name}-authority.pem"
        path.write_bytes(authority.certificate.public_bytes(Encoding.PEM))
        found[f"{name}_authorities"] = path
    return {"discovery_node": True, "discovery": {**found, **discovery}}
