"""Dragoman's management of subscriptions on the wire."""

from dataclasses import replace
from pathlib import Path

import pytest
from lxml import etree

from filters import Expression, Filter, Reason
from filters.dialects import TOPIC_CONCRETE
from mediation import names
from mediation.model.requests import (
    Context,
    DeleteSubscriptions,
    ListSubscriptions,
    Operation,
    Request,
    SubscriptionEntry,
    SubscriptionsDeleted,
    SubscriptionSelection,
    SubscriptionsListed,
)
from mediation.model.versions import Soap, Version
from mediation.responses import write_response
from tests.rigs.mediation import envelope, incoming, refused, subscription, topic
from tests.rigs.schemas import Validator

M = "urn:dragoman:management:1"
OWN = Validator(None, Path())


def request(name: str, inner: str = "", attributes: str = "") -> bytes:
    return envelope(f'<m:{name} xmlns:m="{M}" xmlns:w="urn:w"{attributes}>{inner}</m:{name}>')


STORMS, CALM = (f"<m:Selection><m:Topic>{name}</m:Topic></m:Selection>" for name in ("s", "c"))
ALL = SubscriptionSelection()
REQUESTS = [
    pytest.param("ListSubscriptions", "", "", ListSubscriptions(ALL), id="all"),
    pytest.param(
        "ListSubscriptions",
        "<m:MaximumNumber>5</m:MaximumNumber><m:After> ab </m:After>",
        "",
        ListSubscriptions(ALL, 5, "ab"),
        id="a page",
    ),
    pytest.param(
        "ListSubscriptions",
        "<m:Selection><m:Topic>w:storms/coast</m:Topic><m:Consumer>http://a*</m:Consumer>"
        "<m:Specification>wsn-1.3</m:Specification><m:State>failing</m:State>"
        "<m:State>paused</m:State><m:Owner>anonymous:10.0.0.1</m:Owner></m:Selection>",
        "",
        ListSubscriptions(
            SubscriptionSelection(
                topic("{urn:w}storms/coast"),
                "http://a*",
                "wsn-1.3",
                frozenset({"failing", "paused"}),
                "anonymous:10.0.0.1",
            )
        ),
        id="a selection",
    ),
    pytest.param(
        "DeleteSubscriptions",
        "<m:Id>a</m:Id><m:Id>b</m:Id>",
        "",
        DeleteSubscriptions(("a", "b")),
        id="by id",
    ),
    pytest.param(
        "DeleteSubscriptions",
        "<m:All/>",
        ' dryRun="true"',
        DeleteSubscriptions(selection=ALL, dry_run=True),
        id="what would end",
    ),
    pytest.param(
        "DeleteSubscriptions",
        "<m:Selection><m:Consumer>http://a</m:Consumer></m:Selection><m:After>x</m:After>",
        "",
        DeleteSubscriptions(selection=SubscriptionSelection(consumer="http://a"), after="x"),
        id="by selection",
    ),
]


@pytest.mark.parametrize(("name", "inner", "attributes", "meant"), REQUESTS)
def test_requests(name: str, inner: str, attributes: str, meant: Request) -> None:
    octets = request(name, inner, attributes)
    read = incoming(octets)
    assert read.request == meant
    assert read.context.version is Version.ADMINISTRATION_1
    OWN.check(octets)


@pytest.mark.parametrize(
    ("name", "inner", "reason"),
    [
        ("DeleteSubscriptions", "", Reason.SELECTION_MISSING),
        ("DeleteSubscriptions", "<m:Selection/>", Reason.SELECTION_MISSING),
        ("DeleteSubscriptions", "<m:All/><m:Id>a</m:Id>", Reason.SELECTION_MISSING),
        ("DeleteSubscriptions", "<m:Id>a</m:Id>" * 1001, Reason.MESSAGE_INVALID),
        ("ListSubscriptions", "<m:Selection><m:Colour/></m:Selection>", Reason.MESSAGE_INVALID),
        ("ListSubscriptions", "<m:Selection><Consumer/></m:Selection>", Reason.MESSAGE_INVALID),
        ("ListSubscriptions", "<m:MaximumNumber>x</m:MaximumNumber>", Reason.MESSAGE_INVALID),
        ("ListSubscriptions", f"<m:After>{'x' * 3000}</m:After>", Reason.MESSAGE_INVALID),
        (
            "ListSubscriptions",
            "<m:Selection><m:Topic>w:*</m:Topic></m:Selection>",
            Reason.TOPIC_INVALID,
        ),
        ("DeleteSubscriptions", "<m:All/><m:All/>", Reason.MESSAGE_INVALID),
        ("DeleteSubscriptions", "<m:All/><m:Colour/>", Reason.MESSAGE_INVALID),
        ("DeleteSubscriptions", "<m:All/><MaximumNumber>1</MaximumNumber>", Reason.MESSAGE_INVALID),
        ("ListSubscriptions", "<m:Id>a</m:Id>", Reason.MESSAGE_INVALID),
        ("ListSubscriptions", "<m:After>a</m:After><m:After>b</m:After>", Reason.MESSAGE_INVALID),
        ("DeleteSubscriptions", f"{STORMS}{CALM}", Reason.MESSAGE_INVALID),
    ],
)
def test_refused(name: str, inner: str, reason: Reason) -> None:
    assert refused(request(name, inner)).refused.reason is reason


@pytest.mark.parametrize(
    "inner",
    [
        *(
            f"<m:{name}>a</m:{name}><m:{name}>b</m:{name}>"
            for name in ("Topic", "Consumer", "Specification", "Owner")
        ),
        "<m:Consumer/><m:State>active</m:State>",
        "<m:State> </m:State>",
        "<m:Topic m:Dialect='urn:d'>a</m:Topic>",
    ],
)
def test_what_a_selection_would_overlook(inner: str) -> None:
    octets = request("DeleteSubscriptions", f"<m:Selection>{inner}</m:Selection>")
    assert refused(octets).refused.reason is Reason.MESSAGE_INVALID


@pytest.mark.parametrize(("said", "dry"), [(" 1 ", True), ("true", True), ("false", False)])
def test_dry(said: str, dry: bool) -> None:
    read = incoming(request("DeleteSubscriptions", "<m:All/>", f' dryRun="{said}"')).request
    assert isinstance(read, DeleteSubscriptions) and read.dry_run is dry


@pytest.mark.parametrize(
    "attribute",
    ['dryRun="yes"', 'dryRun=""', 'dryRun="TRUE"', 'dryrun="true"', 'm:dryRun="true"', 'x="1"'],
)
def test_what_is_not_dry_for_sure(attribute: str) -> None:
    octets = request("DeleteSubscriptions", "<m:All/>", f" {attribute}")
    assert refused(octets).refused.reason is Reason.MESSAGE_INVALID


def test_generated_clients_say_the_type() -> None:
    said = f' xmlns:i="{names.XSI}" i:type="m:Any" dryRun="true"'
    read = incoming(request("DeleteSubscriptions", "<m:All/>", said)).request
    assert read == DeleteSubscriptions(selection=ALL, dry_run=True)


def test_answers() -> None:
    scope = (("w", "urn:w"),)
    one = replace(subscription(), filter=Filter((Expression("w:a", TOPIC_CONCRETE, scope),)))
    entry = SubscriptionEntry(one, "active", "http://a/?b=1&c", None, 4, 3, 1, 0, "refused < 1")
    asked = Context(
        Soap.V1_2, version=Version.ADMINISTRATION_1, operation=Operation.LIST_SUBSCRIPTIONS
    )
    action, octets = write_response(
        SubscriptionsListed((entry,), "next"), asked, message_id="urn:m"
    )
    assert action == f"{M}/ListSubscriptionsResponse"
    [body] = etree.fromstring(octets).iter(f"{{{M}}}ListSubscriptionsResponse")
    OWN.check(octets)
    told = {etree.QName(child).localname: child.text for child in body[0]}
    assert (told["Consumer"], told["Specification"]) == ("http://a/?b=1&c", "wsn-1.3")
    assert (told["Waiting"], told["LastError"]) == ("1", "refused < 1")
    [expression] = body[0].iter("{*}TopicExpression")
    assert (expression.text, expression.nsmap["w"]) == ("w:a", "urn:w")
    assert body[1].text == "next"
    asked = replace(asked, operation=Operation.DELETE_SUBSCRIPTIONS)
    _, octets = write_response(SubscriptionsDeleted(("a", "b"), None), asked, message_id="urn:m")
    [body] = etree.fromstring(octets).iter(f"{{{M}}}DeleteSubscriptionsResponse")
    OWN.check(octets)
    assert [child.text for child in body] == ["2", "a", "b"]
