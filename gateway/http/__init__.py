"""The HTTP server's hard shell: what strangers may send, how fast, and from how many sides."""

from gateway.http.acknowledged_bytes import answer_without_end, until_gone, was_delivered
from gateway.http.aliases import AliasMiddleware
from gateway.http.body import read_body
from gateway.http.forwarded import (
    REQUEST,
    HttpSettings,
    client_address,
    client_certificate,
    from_proxy,
    public_base,
    request_of,
    transport_facts,
)
from gateway.http.gate import ConnectionGate
from gateway.http.limits import HttpLimits
from gateway.http.media import MediaType, content_type, parse_media_type, soap_media_type
from gateway.http.middleware import HostMiddleware, PrivateMiddleware
from gateway.http.protocol import HardenedProtocol, hardened
from gateway.http.refusal import HttpRefusal, header_value, send_refusal

__all__ = [
    "REQUEST",
    "AliasMiddleware",
    "ConnectionGate",
    "HardenedProtocol",
    "HostMiddleware",
    "HttpLimits",
    "HttpRefusal",
    "HttpSettings",
    "MediaType",
    "PrivateMiddleware",
    "answer_without_end",
    "client_address",
    "client_certificate",
    "content_type",
    "from_proxy",
    "hardened",
    "header_value",
    "parse_media_type",
    "public_base",
    "read_body",
    "request_of",
    "send_refusal",
    "soap_media_type",
    "transport_facts",
    "until_gone",
    "was_delivered",
]
