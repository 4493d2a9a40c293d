"""Sending to addresses that strangers name: which ones, how, and at what cost at most."""

from gateway.egress.addresses import AddressRefused, Target, parse_target
from gateway.egress.causes import status_words
from gateway.egress.client_limits import ClientLimits
from gateway.egress.consumer_options import Consumer, ConsumerOptions, Options
from gateway.egress.dialing import Dialer
from gateway.egress.hops import (
    HOPS_HEADER,
    MAX_HOPS,
    ORIGIN_HEADER,
    VIA_HEADER,
    LoopRefused,
    hops_header,
    hops_kept,
    read_hops,
    read_origin,
    read_via,
    with_hops,
)
from gateway.egress.http_transport import HttpTransport
from gateway.egress.policy import AddressPolicy, is_forbidden
from gateway.egress.proxy import Proxy
from gateway.egress.resolver import Resolver, SystemResolver
from gateway.egress.scheme_transports import TransportByScheme
from gateway.egress.schemes import Schemes
from gateway.egress.transport import (
    TRANSPORT_API_VERSION,
    Answer,
    FailureKind,
    Lane,
    PluggedTransport,
    Posted,
    Posting,
    Request,
    SendFailed,
    Shown,
    Told,
    Transport,
    TransportSetup,
)
from gateway.model.hosts import IPAddress

__all__ = [
    "HOPS_HEADER",
    "MAX_HOPS",
    "ORIGIN_HEADER",
    "TRANSPORT_API_VERSION",
    "VIA_HEADER",
    "AddressPolicy",
    "AddressRefused",
    "Answer",
    "ClientLimits",
    "Consumer",
    "ConsumerOptions",
    "Dialer",
    "FailureKind",
    "HttpTransport",
    "IPAddress",
    "Lane",
    "LoopRefused",
    "Options",
    "PluggedTransport",
    "Posted",
    "Posting",
    "Proxy",
    "Request",
    "Resolver",
    "Schemes",
    "SendFailed",
    "Shown",
    "SystemResolver",
    "Target",
    "Told",
    "Transport",
    "TransportByScheme",
    "TransportSetup",
    "hops_header",
    "hops_kept",
    "is_forbidden",
    "parse_target",
    "read_hops",
    "read_origin",
    "read_via",
    "status_words",
    "with_hops",
]
