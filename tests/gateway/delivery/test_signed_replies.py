"""Consumers that must sign what they answer: nothing else is a delivery."""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from gateway.egress import Consumer, ConsumerOptions
from gateway.egress.signed_replies import ReplySignersUnusable
from gateway.identities.file_editing import create_identities
from gateway.security.audit_chain import read_records, verify
from mediation.model.versions import Soap, Wsa
from mediation.receipts import verify_receipt, write_receipt
from tests.gateway.delivery.test_sequence_attempt import rig
from tests.rigs.consumers import Connection, Receipt, consumers
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import running
from tests.rigs.reliable_consumers import ReliableConsumer
from tests.rigs.signers import Signers
from tests.rigs.waiting import until

RIGHTS = '\n[[rights]]\nwho = ["anonymous"]\nmay = ["publish", "subscribe", "manage", "operate"]\n'


@pytest.fixture(scope="module")
def signers(tmp_path_factory: pytest.TempPathFactory) -> Signers:
    return Signers.make(tmp_path_factory.mktemp("signers"), "ship", "tug")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Signers:
    return Signers.make(tmp_path_factory.mktemp("strangers"), "ship")


def settings_for(folder: Path, signers: Signers) -> dict[str, Any]:
    rule = {"signers": str(signers.authority.certificate), "subject": "CN=ship"}
    identities = folder / "identities.toml"
    create_identities(identities)
    identities.write_text(identities.read_text() + RIGHTS)
    return {"consumers": [{"address": "*", "signed_replies": rule}], "identities": identities}


def reply(relates_to: str | None, body: str = "") -> bytes:
    return write_receipt(Soap.V1_2, Wsa.V2005_08, relates_to, b"").replace(
        b"<s:Body>", b"<s:Body>" + body.encode()
    )


Answer = Callable[[Signers, Signers, Receipt], bytes]
ANSWERS: dict[str, Answer] = {
    "nothing": lambda signers, _, receipt: b"",
    "unsigned": lambda signers, _, receipt: reply(receipt.id),
    "no envelope": lambda signers, _, receipt: b"<thanks/>",
    "by another": lambda signers, _, receipt: signers.signed("tug", reply(receipt.id)),
    "by a stranger": lambda _, stranger, receipt: stranger.signed("ship", reply(receipt.id)),
    "altered": lambda signers, _, receipt: signers.signed(
        "ship", reply(receipt.id, "<a/>")
    ).replace(b"<a/>", b"<b/>"),
    "of another message": lambda signers, _, receipt: signers.signed("ship", reply("urn:uuid:1")),
    "of none": lambda signers, _, receipt: signers.signed("ship", reply(None)),
    "old": lambda signers, _, receipt: signers.signed(
        "ship", reply(receipt.id), now=datetime.now(UTC) - timedelta(hours=1)
    ),
}


@pytest.mark.parametrize("first", ANSWERS)
async def test_what_is_no_delivery(
    tmp_path: Path, signers: Signers, stranger: Signers, first: str
) -> None:
    """It is tried again; the one that is signed as it must be is the delivery, and is kept."""
    count = 0

    def answer(connection: Connection, receipt: Receipt) -> None:
        nonlocal count
        count += 1
        octets = signers.signed("ship", reply(receipt.id))
        if count == 1:
            octets = ANSWERS[first](signers, stranger, receipt)
        connection.answer(200, octets, Content_Type="application/soap+xml; charset=utf-8")

    settings = settings_for(tmp_path, signers)
    async with (
        consumers() as some,
        running(tmp_path / "data", retry_delays="0.05,0.05", **settings) as run,
    ):
        consumer = some.add(answer)
        await run.subscribe(Speaker(), Speaker().wse_subscribe(consumer.url))
        await run.publish('<t:event xmlns:t="urn:t"><n>1</n></t:event>')
        await consumer.have(2)
        await run.quiet()
        totals = (await run.gateway.dispatchers.conservation()).totals
        assert (totals.delivered, consumer.count) == (1, 2)
    log = tmp_path / "data" / "audit.jsonl"
    verify(log)
    [record] = [one for one in read_records(log) if "receipt" in one]
    assert record["who"] == "cert:CN=ship"
    found = verify_receipt(base64.b64decode(record["receipt"]), signers.trust)
    assert found.messages == (consumer.received[0].id,) == (record["what"],)


async def test_one_that_never_signs_has_dead_letters(tmp_path: Path, signers: Signers) -> None:
    settings = settings_for(tmp_path, signers)
    async with (
        consumers() as some,
        running(tmp_path / "data", retry_delays="0.02", **settings) as run,
    ):
        consumer = some.add()
        await run.subscribe(Speaker(), Speaker().wse_subscribe(consumer.url))
        await run.publish('<t:event xmlns:t="urn:t"><n>1</n></t:event>')

        async def dead() -> bool:
            return (await run.gateway.dispatchers.conservation()).totals.dead == 1

        await until(dead)
        assert consumer.count == 2


@dataclass
class _Signing:
    """A connection on which what is answered is signed, while *signs*."""

    connection: Connection
    signers: Signers
    signs: bool

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        if body and self.signs:
            body = self.signers.signed("ship", body)
        self.connection.answer(status, body, **headers)


class SigningConsumer(ReliableConsumer):
    """Signs acknowledgements, but for the first."""

    signers: Signers

    def __call__(self, connection: Connection, receipt: Receipt) -> None:
        signs = not receipt.number or sum(map(len, self.numbers.values())) > 0
        super().__call__(_Signing(connection, self.signers, signs), receipt)  # type: ignore[arg-type]


async def test_acknowledgements(tmp_path: Path, signers: Signers) -> None:
    """What an unsigned acknowledgement says is not believed: the message goes again."""
    consumer = SigningConsumer()
    consumer.signers = signers
    async with rig(tmp_path / "data", consumer, **settings_for(tmp_path, signers)) as r:
        await r.subscribe()
        await r.publish(1, 2)
        await r.got(1, 2)
        await r.conserved(matched=2, delivered=2)
        [numbers] = consumer.numbers.values()
        assert numbers.count(1) == 2 and numbers[-1] == 2
    log = tmp_path / "data" / "audit.jsonl"
    kept = [base64.b64decode(one["receipt"]) for one in read_records(log) if "receipt" in one]
    told = [verify_receipt(one, signers.trust).acknowledged for one in kept if b"Range" in one]
    assert [*told[-1].values()] == ["1-2"]


def test_where_there_are_no_replies(tmp_path: Path, signers: Signers) -> None:
    rule = {"signers": signers.authority.certificate}
    for row in ({"address": "*", "acknowledgements": "address"}, {"address": "soap.tcp://a.b"}):
        with pytest.raises(ValidationError, match="on the connections of HTTP alone"):
            Consumer.model_validate({**row, "signed_replies": rule})


@pytest.mark.parametrize("content", [None, b"", b"nothing"])
def test_a_file_that_cannot_be_used(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "signers.pem"
    if content is not None:
        file.write_bytes(content)
    row = Consumer.model_validate({"address": "*", "signed_replies": {"signers": file}})
    with pytest.raises(ReplySignersUnusable, match=r"signed_replies: .*signers\.pem"):
        ConsumerOptions([row])
