"""Step "read": the octets of a message become a request."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import urlsplit

from filters import DocumentLimits, Reason, Refused
from filters.documents import DEFAULT_LIMITS
from gateway.exchange import Inbound
from gateway.parsing import Parsing
from gateway.security.keys import message_urn
from gateway.soap.endpoint_rules import endpoint_named, rules_at
from gateway.soap.topic_paths import names_every_topic, topic_of_path
from mediation.detect import read, read_headers_alone
from mediation.model.requests import (
    Arrival,
    Context,
    EndpointRules,
    Incoming,
    Publish,
    Rejected,
    Sequences,
    Subscribe,
    TopicRules,
)
from mediation.reliable_messaging import Rm

STRICT = TopicRules()


async def read_unopened(inbound: Inbound, parsing: Parsing, limits: DocumentLimits) -> Context:
    """Read what a fault needs of *inbound*, of which nothing else may be said, or can.

    Raises:
        Refused: ``UNAVAILABLE``: there is too much to do.
    """
    principal = inbound.principal
    return await parsing.run_parser(
        len(inbound.octets),
        lambda learnt: read_headers_alone(
            inbound.octets, soap_hint=inbound.hint, limits=limits, learnt=learnt
        ),
        trusted=not principal.limits.quotas,
        owner=principal.owner,
    )


async def read_inbound(
    inbound: Inbound,
    parsing: Parsing,
    rules: Callable[[str], EndpointRules] = rules_at,
    *,
    limits: DocumentLimits = DEFAULT_LIMITS,
    topics: Callable[[str], TopicRules] = lambda _: STRICT,
) -> Incoming:
    """Read *inbound*, where that may be done; *rules* tells those of the endpoint at a path,
    *topics* those of topics that come from an address.

    Raises:
        Rejected: It cannot be read, with all that is known of how to say so.
        Refused: ``UNAVAILABLE``: there is too much to do.
    """
    topic, unreadable = None, None
    try:
        topic = topic_of_path(inbound.path)
    except Refused as refused:
        unreadable = refused.with_traceback(None)
    principal = inbound.principal
    arrival = Arrival(
        source=principal.source,
        time=datetime.now(UTC),
        fresh_id=message_urn(),
        url_topic=topic,
        http_action=inbound.action or None,
        attachments=inbound.attachments,
        packaging=inbound.packaging,
        rules=_rules_to_read_by(inbound, rules),
        topics=topics(principal.address),
    )

    def parse(learnt: set[str] | None) -> Incoming:
        return read(
            inbound.octets,
            arrival,
            soap_hint=inbound.hint,
            limits=limits,
            learnt=learnt,
        )

    incoming = await parsing.run_parser(
        len(inbound.octets), parse, trusted=not principal.limits.quotas, owner=principal.owner
    )
    declared = inbound.declared
    if declared is not None and declared is not incoming.context.soap:
        raise Rejected(
            replace(incoming.context, form=declared),
            Refused(Reason.VERSION_MISMATCH, "The envelope is of another version of SOAP."),
        )
    if isinstance(incoming.request, Subscribe) and names_every_topic(inbound.path):
        unreadable = None
    if unreadable is not None:  # Said in the envelope's version of SOAP, which is known now.
        raise Rejected(incoming.context, unreadable)
    if not inbound.path:
        _check_sequences(incoming, rules)
        return _with_topic_of_to(incoming)
    return incoming


def _rules_to_read_by(inbound: Inbound, rules: Callable[[str], EndpointRules]) -> EndpointRules:
    """Rules of the endpoint. Where ``wsa:To`` says which one it is, what a message says of
    sequences is read, to be refused if they are not offered there."""
    found = rules(inbound.path)
    if inbound.path or found.sequences is not Sequences.OFF:
        return found
    if any(rm.namespace.encode() in inbound.octets for rm in Rm):
        return replace(found, sequences=Sequences.OFFERED)
    return found


def _check_sequences(incoming: Incoming, rules: Callable[[str], EndpointRules]) -> None:
    context = incoming.context
    if context.reliable is None:
        return
    if rules(endpoint_named(context.headers.to)).sequences is Sequences.OFF:
        raise Rejected(
            replace(context, reliable=None),
            Refused(Reason.ACTION_UNSUPPORTED, "WS-ReliableMessaging is not offered here."),
        )


def _with_topic_of_to(incoming: Incoming) -> Incoming:
    """*incoming* with the topic that ``wsa:To`` names, for a transport that has no path."""
    request, to = incoming.request, incoming.context.headers.to
    if not isinstance(request, Publish) or to is None:
        return incoming
    try:
        topic = topic_of_path(urlsplit(to).path)
    except ValueError:
        return incoming
    except Refused as refused:
        raise Rejected(incoming.context, refused) from refused
    if topic is None:
        return incoming
    notifications = tuple(
        one if one.topic is not None else replace(one, topic=topic) for one in request.notifications
    )
    return replace(incoming, request=replace(request, notifications=notifications))
