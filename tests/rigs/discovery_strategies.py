"""Values of topic discovery, drawn by Hypothesis."""

import json
from base64 import b64encode
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from mediation.discovery import (
    Authorization,
    Creator,
    Delegation,
    DelegationRevocation,
    Descriptors,
    Element,
    EventSigners,
    Fault,
    Head,
    NodeDiscoveryRequest,
    NodeDiscoveryResponse,
    Possession,
    Property,
    PropertyType,
    Purpose,
    Query,
    Refusal,
    Right,
    Schema,
    SchemaType,
    Scope,
    SignedTopicAdvertisement,
    Synopsis,
    SynopsisType,
    TopicAdvertisement,
    TopicCreationRequest,
    TopicCreationResponse,
    TopicDiscoveryRequest,
    TopicDiscoveryResponse,
    TopicWithdrawal,
    write,
)
from mediation.model.expiry import Duration
from tests.rigs.discovery import SCHEMA, TIDE

_texts = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]) | st.sampled_from("\t\n\r<>&\"'"),
    max_size=20,
).filter(lambda text: "\ufffe" not in text and "\uffff" not in text)
_digits = st.integers(0, 16**32 - 1).map("{:032x}".format)
_entities = st.builds("{}{}".format, st.sampled_from(["e-", "x-"]), _digits)
_identifiers = st.builds("{}{}".format, st.sampled_from(["e-", "tdn-", "x-"]), _digits)
_uuids = st.uuids()
_instants = st.timedeltas(timedelta(), timedelta(days=2_000_000)).map(
    lambda since: datetime(1971, 1, 1, tzinfo=UTC) + since
)
_durations = st.builds(
    Duration,
    st.integers(0, 1200),
    st.timedeltas(timedelta(), timedelta(days=36500)),
)
_names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,79}", fullmatch=True)
_property_values = st.one_of(
    st.tuples(st.just(PropertyType.STRING), _texts),
    st.tuples(st.just(PropertyType.LONG), st.integers(-(2**63), 2**63 - 1).map(str)),
    st.tuples(
        st.just(PropertyType.DOUBLE),
        st.floats().map(lambda x: str(x).replace("nan", "NaN").replace("inf", "INF")),
    ),
    st.tuples(st.just(PropertyType.BOOLEAN), st.sampled_from(["true", "false", "0", "1"])),
)
_properties = st.builds(
    lambda name, pair: Property(name, pair[1], pair[0]), _names, _property_values
)
_documents = st.sampled_from(
    [
        TIDE,
        b"<a></a>",
        b'<p:a xmlns:p="urn:p" b="1" p:c="&lt;&quot;"><!x></p:a>'.replace(b"<!x>", b" x &amp; y "),
        b'<a><tdn:b xmlns:tdn="urn:dragoman:tdn:1"></tdn:b></a>',
    ]
)


def _few(values: st.SearchStrategy[object], most: int = 3) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(values, max_size=most).map(tuple)


descriptors = st.builds(
    Descriptors,
    _few(_texts),
    _few(_texts),
    _few(_texts),
    _few(_properties),
    _few(_documents),
    st.none()
    | st.builds(Schema, st.just(SchemaType.XSD), st.just(SCHEMA))
    | st.builds(
        Schema,
        st.just(SchemaType.JSON_SCHEMA),
        st.dictionaries(_texts, _texts, max_size=3).map(json.dumps),
    ),
    st.none() | st.sampled_from(EventSigners),
).filter(lambda made: made != Descriptors())
synopses = st.one_of(
    st.builds(Synopsis, st.just(SynopsisType.PATH), _texts, st.none() | st.just("urn:n")),
    st.builds(Synopsis, st.sampled_from([SynopsisType.INTEGER, SynopsisType.TAGS]), _texts),
    st.builds(Synopsis, st.just(SynopsisType.PROPERTIES), properties=_few(_properties)),
    st.builds(Synopsis, st.just(SynopsisType.XML), document=_documents),
)
_heads = st.builds(
    Head, _uuids, _identifiers, _instants, _instants, st.none() | _identifiers, st.none() | _uuids
)
_creators = st.builds(Creator, _entities, st.none() | _texts, st.none() | _texts)
_advertisements = st.builds(
    TopicAdvertisement, _uuids, _identifiers, _creators, _instants, _instants, descriptors, synopses
)
_signed = _advertisements.flatmap(
    lambda made: st.builds(
        SignedTopicAdvertisement, _instants, st.just(made.topic_id), st.just(write(made))
    )
)
_delegations = st.builds(
    Delegation,
    _uuids.map("dlg-{}".format),
    _uuids,
    _identifiers | st.builds("ca-{}".format, _digits),
    st.frozensets(st.sampled_from(Right), min_size=1),
    _instants,
    _instants,
)
_revocations = st.builds(
    DelegationRevocation,
    _uuids.map("rev-{}".format),
    _uuids,
    _uuids.map("dlg-{}".format),
    _instants,
    _instants,
)
_possessions = st.builds(
    Possession,
    _uuids.map("pos-{}".format),
    _uuids,
    st.sampled_from(Right),
    st.just("urn:x"),
    st.just("http://y/?a=1&b"),
    _instants,
    _instants,
    st.none() | st.binary(min_size=32, max_size=32).map(lambda octets: b64encode(octets).decode()),
)
elements: st.SearchStrategy[Element] = st.one_of(
    st.builds(NodeDiscoveryRequest, _heads, _few(st.sampled_from(Purpose)), st.none() | _texts),
    st.builds(
        NodeDiscoveryResponse,
        _heads,
        _texts,
        _few(st.sampled_from(SynopsisType)),
        _few(st.just("urn:d")),
        st.none() | _durations,
    ),
    st.builds(
        TopicCreationRequest,
        _heads,
        _creators,
        descriptors,
        synopses,
        st.none() | _durations,
        st.booleans(),
    ),
    _advertisements,
    _signed,
    st.builds(TopicCreationResponse, _heads, _advertisements.map(write)),
    st.builds(TopicWithdrawal, _heads, _uuids),
    st.builds(
        TopicDiscoveryRequest,
        _heads,
        st.builds(Query, st.just("urn:d"), _texts),
        st.none() | _instants,
        st.none() | _instants,
        st.none() | _instants,
        st.none() | _instants,
        st.none() | _durations,
        st.none() | _durations,
        st.none() | _instants,
        st.none() | _identifiers,
        st.none() | st.integers(1, 1000),
        st.sampled_from(Scope),
    ),
    st.builds(
        TopicDiscoveryResponse,
        _heads,
        st.lists(_signed, max_size=3, unique_by=lambda made: made.topic_id).map(
            lambda found: tuple(map(write, found))
        ),
        st.booleans(),
    ),
    st.builds(Refusal, _heads, st.sampled_from(Fault), st.none() | _texts),
    _delegations,
    _revocations,
    _possessions,
    st.builds(Authorization, _possessions.map(write), st.none() | _delegations.map(write)),
)
"""Any value, as it comes out of reading."""
