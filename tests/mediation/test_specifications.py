"""Every version has every part that its kind needs, and the parts agree with each other."""

import ast
import itertools
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from filters import DEFAULT_TOPIC
from mediation import names
from mediation.client import SPECS
from mediation.mailboxes.kept import SPECIFICATION_NAMESPACES
from mediation.model.messages import End, EndpointReference
from mediation.model.requests import Operation
from mediation.model.specification import MAX_NAMES, Client, Requests, Specification
from mediation.model.versions import Family, Soap, Version, Wsa
from mediation.specifications import SPECIFICATIONS
from tests.rigs.cases import for_each
from tests.rigs.mediation import subscription

EVERY = pytest.mark.parametrize("version", Version, ids=lambda version: version.value)
FIELDS = {field.name for field in fields(Specification)}
SUBSCRIBING = {"notifications", "client", "services"}
"""Parts of a version in which one subscribes."""
PARTS = {
    Version.WSE_2011_03: SUBSCRIBING | {"faults", "ending", "sequences"},
    Version.WSE_2004_08: SUBSCRIBING
    | {"faults", "managed", "ending", "sequences", "identifiers", "repeats"},
    Version.WSN_1_3: SUBSCRIBING | {"faults", "properties", "termination", "sequences"},
    Version.WSN_1_2: SUBSCRIBING | {"faults", "properties", "identifiers", "termination"},
    # Of 1.0 there are no official schemas to describe it with.
    Version.WSN_1_0: SUBSCRIBING - {"services"}
    | {"faults", "properties", "identifiers", "repeats", "termination"},
    Version.MESSAGE_BOX_2011: set[str](),
    Version.MESSAGE_BOX_2004: set[str](),
    Version.MAKE_CONNECTION_1_1: {"faults"},
    Version.MESSENGER: {"faults", "events"},
    Version.MANAGEMENT: {"faults", "identifiers"},
    Version.METADATA_2004_09: set[str](),
    Version.METADATA_2011_03: set[str](),
    Version.ONVIF_DEVICE: {"faults"},
    Version.CLOUDEVENTS: {"bodies", "handshake"},
    Version.GRID_EVENTS: {"bodies", "calls", "faults", "identity", "leasing"},
    Version.WSRM_1_0: set[str](),
    Version.WSRM_1_1: set[str](),
    Version.ADMINISTRATION_1: {"services"},
}
ALWAYS = {"version", "family", "title", "requests", "leases"}


def test_every_version_is_a_row() -> None:
    assert set(SPECIFICATIONS) == set(PARTS) == set(Version)
    assert all(version is each.version for version, each in SPECIFICATIONS.items())
    assert len({each.title for each in SPECIFICATIONS.values()}) == len(SPECIFICATIONS)


@EVERY
@for_each("field", sorted(FIELDS))
def test_the_parts_of_a_version(version: Version, field: str) -> None:
    """A part that is empty is one that the table above does not name: none is forgotten."""
    part = getattr(SPECIFICATIONS[version], field)
    assert bool(part) is (field in ALWAYS or field in PARTS[version])


@EVERY
def test_families_are_said(version: Version) -> None:
    assert isinstance(SPECIFICATIONS[version].family, Family)


@EVERY
def test_requests(version: Version) -> None:
    requests: Requests = SPECIFICATIONS[version].requests
    takes_all = version is Version.MESSENGER or SPECIFICATIONS[version].bodies is not None
    assert bool(requests.elements) is not takes_all
    for element in requests.elements:
        assert element[1:].partition("}")[0] in requests.namespaces
    without_element = {  # Their bodies are always empty.
        Operation.END,
        Operation.LAST_MESSAGE,
        Operation.REQUEST_ACKNOWLEDGEMENT,
        Operation.ACKNOWLEDGE_SEQUENCE,
    }
    assert set(requests.actions.values()) - without_element <= set(requests.elements.values())
    assert requests.namespaces <= SPECIFICATION_NAMESPACES


@pytest.mark.parametrize("part", ["namespaces", "elements", "actions"])
def test_versions_do_not_share_what_tells_them_apart(part: str) -> None:
    for one, other in itertools.combinations(SPECIFICATIONS.values(), 2):
        assert set(getattr(one.requests, part)).isdisjoint(getattr(other.requests, part))


@EVERY
@pytest.mark.parametrize("soap", Soap)
@pytest.mark.parametrize("raw", [False, True])
def test_notifications(version: Version, soap: Soap, raw: bool) -> None:
    notifications = SPECIFICATIONS[version].notifications
    if notifications is None:
        return
    wrapping = notifications.wrapping(soap, raw=raw, dialect=None)
    assert wrapping is notifications.wrapping(soap, raw=raw, dialect=None), "shapes look it up"
    producer = EndpointReference("http://producer.example.org/", Wsa.V2005_08)
    around = wrapping.around(DEFAULT_TOPIC, producer, None, Wsa.V2005_08)
    opened = around.before_payload or wrapping.opening
    assert bool(opened) is bool(around.after_payload)
    assert wrapping.action is None or wrapping.action in notifications.actions


@EVERY
def test_endings(version: Version) -> None:
    ending = SPECIFICATIONS[version].ending
    if ending is None:
        return
    for end in End:
        action, body = ending.write(subscription(version), end, "Because.")
        assert action.rpartition("/")[2] == ending.element.rpartition("}")[2]
        assert end.value in body


@EVERY
def test_clients(version: Version) -> None:
    client: Client | None = SPECIFICATIONS[version].client
    assert (version in SPECS) is (client is not None)
    if client is None:
        return
    assert (SPECS[version].soap, SPECS[version].wsa) == (client.soap, client.wsa)
    written = client.manage(Operation.RENEW, "2027-01-01T00:00:00Z")
    assert written.action in SPECIFICATIONS[version].requests.actions


@EVERY
def test_faults(version: Version) -> None:
    for fault in SPECIFICATIONS[version].faults.values():
        assert not (fault.element and fault.subcode)
        assert bool(fault.base) is bool(fault.element)
        assert 0 < fault.most <= MAX_NAMES


@EVERY
def test_services(version: Version) -> None:
    requests = SPECIFICATIONS[version].requests
    for service in SPECIFICATIONS[version].services:
        for offer in service.offers:
            assert requests.elements[f"{{{offer.namespace}}}{offer.name}"] is offer.operation
            for fault in offer.faults:
                assert fault[1:].partition("}")[0] in service.fault_actions


def test_what_is_known_elsewhere_is_named_where_it_is_not_offered() -> None:
    offered = frozenset[str]().union(*(s.requests.namespaces for s in SPECIFICATIONS.values()))
    assert set(names.KNOWN_ELSEWHERE) - offered


SPECIFYING = ("mediation/specifications.py", "mediation/model/versions.py")
ROOMS = (
    "mediation/eventing/",
    "mediation/grid_events/",
    "mediation/mailboxes/",
    "mediation/notification/",
)


def test_nobody_else_asks_for_a_version() -> None:
    """A version is asked for its parts: there is no comparison with a member of Version or Family
    outside the modules of the versions."""
    root = Path(__file__).parents[2]
    found = []
    for floor in ("gateway", "adapters", "mediation"):
        for path in sorted((root / floor).rglob("*.py")):
            name = str(path.relative_to(root))
            if not name.startswith(ROOMS) and name not in SPECIFYING:
                found += [f"{name}:{line}" for line in _tests(ast.parse(path.read_text("utf-8")))]
    assert found == []


def _tests(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left, comparators=others) if any(map(_is_member, (left, *others))):
                yield node.lineno
            case ast.MatchValue(value) if _is_member(value):
                yield value.lineno
            case ast.Attribute(attr="family"):
                yield node.lineno


def _is_member(node: ast.expr) -> bool:
    match node:
        case ast.Attribute(ast.Name("Version" | "Family")):
            return True
        case ast.Tuple(elements) | ast.Set(elements) | ast.List(elements):
            return any(map(_is_member, elements))
        case _:
            return False
