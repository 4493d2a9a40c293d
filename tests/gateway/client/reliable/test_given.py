"""What a program gives to be sent: refused where it is given, before anything is stored."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from lxml import etree

from gateway.client.reliable import Delivery, Receiver, ReliableClient
from mediation.model.messages import EndpointReference
from mediation.model.versions import Wsa
from tests.gateway.client.reliable.test_queued import ORDER, SOON
from tests.rigs.receivers import served
from tests.rigs.waiting import wait_until

THERE = "http://127.0.0.1:9/orders"
PARAMETER = EndpointReference(THERE, Wsa.V2005_08, parameters=(b"<p:a/>",))
WRONG = [
    pytest.param({"body": b"<p:a/>"}, "line 1, column", id="undeclared prefix"),
    pytest.param({"body": "<a>"}, "line 1, column", id="not closed"),
    pytest.param({"body": b"<a/></s:Body>"}, "line 1, column", id="ends the body"),
    pytest.param({"action": ""}, "needs an action", id="no action"),
    pytest.param({"action": "urn:a\r\nX-Y: z"}, "is not an action", id="action with a line end"),
    pytest.param({"address": "warehouse/orders"}, "'warehouse/orders' is not a URL", id="no URL"),
    pytest.param({"address": "ftp://there/"}, "is not a URL of HTTP", id="another scheme"),
    pytest.param({"address": "http:///orders"}, "is not a URL of HTTP", id="no host"),
    pytest.param({"address": "http://there:99999/"}, "is not a URL of HTTP", id="no port"),
    pytest.param({"address": "http://there/a b"}, "is not a URL of HTTP", id="a blank"),
    pytest.param({"address": PARAMETER}, "line 1, column", id="reference parameter"),
    pytest.param({"envelope": b"<a/>"}, "cannot be sent", id="no envelope"),
    pytest.param({"envelope": "<a>"}, "line 1, column", id="envelope that is not closed"),
]


def sending(client: ReliableClient, given: dict[str, Any]) -> list[Callable[[], object]]:
    said = {"address": THERE, "body": b"<a/>", "action": ORDER, **given}
    address = said.pop("address")

    def in_transaction() -> None:
        with client.transaction() as tx:
            tx.send(address, b"<good/>" if address == THERE else b"", action=ORDER)
            tx.request(address, **said, callbacks="")

    return [
        lambda: client.send(address, **said),
        lambda: client.request(address, **said, callbacks=""),
        in_transaction,
    ]


@pytest.mark.parametrize(("given", "words"), WRONG)
def test_what_cannot_be_sent_is_refused_and_nothing_is_stored(
    given: dict[str, Any], words: str
) -> None:
    client = ReliableClient("memory:")
    client.callbacks("")
    for send in sending(client, given):
        with pytest.raises(ValueError, match=words):
            send()
    assert client.waiting() == 0
    client.close()


@pytest.mark.parametrize("address", ["warehouse", "http://there:0/", "http://there/?query#no"])
def test_addresses_of_ones_own_follow_the_same_rule(address: str) -> None:
    with pytest.raises(ValueError, match="is not"):
        ReliableClient("memory:", replies=address)
    if "?" not in address:
        with pytest.raises(ValueError, match="is not a URL of HTTP"):
            Receiver("memory:", address=address)


def test_text_and_elements_are_bodies_in_both_directions() -> None:
    taken: list[bytes] = []
    replies: list[bytes] = []
    answers = iter(["<r>\xe9</r>", etree.fromstring("<r>2</r>"), b"<r>3</r>"])

    def take(message: Delivery) -> Any:
        taken.append(message.body)
        return next(answers)

    receiver = Receiver("memory:", policy=SOON)
    receiver.service("/orders", take)
    client = ReliableClient("memory:", policy=SOON)
    client.callbacks("orders", on_message=lambda reply: replies.append(reply.body))
    with served(receiver) as url, client:
        for body in ("<o>\xe9</o>", etree.fromstring("<o>2</o>"), b"<o>3</o>"):
            client.request(f"{url}/orders", body, action=ORDER, callbacks="orders")
        wait_until(lambda: len(replies) >= 3)
    assert taken == ["<o>\xe9</o>".encode(), b"<o>2</o>", b"<o>3</o>"]
    assert replies == ["<r>\xe9</r>".encode(), b"<r>2</r>", b"<r>3</r>"]


def test_callbacks_that_nobody_registered_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    client = ReliableClient("memory:")
    client.callbacks("orders")
    with caplog.at_level(logging.WARNING):
        for path in ("a", "b"):
            client.request(f"http://there/{path}", b"<a/>", action=ORDER, callbacks="oders")
            client.request(f"http://there/{path}", b"<a/>", action=ORDER, callbacks="orders")
    [said] = [record.getMessage() for record in caplog.records]
    assert "'oders', which are not registered here (registered: 'orders')" in said
    client.close()
