"""A mailbox that is pulled from, at a gateway in this process, over connections that break."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from gateway.client import Client, GatewayError, PulledMailbox, pulling, subscribed
from gateway.client.calling import Answer, Caller
from mediation.model.versions import Version
from tests.rigs.gateways import running


class LosingAnswers(Caller):
    """What is asked is done; the answer to the first request for *operation* is lost."""

    def __init__(self, operation: str) -> None:
        super().__init__()
        self._operation = operation
        self._is_lost = True

    async def call(
        self,
        method: str,
        url: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        answer = await super().call(method, url, body=body, headers=headers)
        if url.endswith(self._operation) and self._is_lost:
            self._is_lost = False
            raise GatewayError("the answer was lost")
        return answer


@pytest.mark.parametrize("operation", ["acknowledge", "receive"])
async def test_trouble_is_told_until_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    """Whichever request it meets, and whatever the answer that ends it: an acknowledgement whose
    answer was lost is refused when it is repeated."""
    monkeypatch.setattr(pulling, "RETRY_EVERY", 0.01)
    told: list[str] = []
    async with (
        running(tmp_path) as gateway,
        PulledMailbox(
            gateway.url,
            lease=1.0,
            troubled=lambda error: told.append(str(error)),
            mended=lambda: told.append("is back"),
            caller=LosingAnswers(operation),
        ) as mailbox,
        Client(gateway.url, Version.WSN_1_3) as client,
        subscribed(client, mailbox.address, topic="storms"),
    ):
        taken: list[bytes | None] = []
        for payload in (b"<n>1</n>", b"<n>2</n>"):
            await client.publish(payload, topic="storms")
            while payload not in taken:  # What was lost comes again when its lease ends.
                for message in await mailbox.receive(1, 0.2):
                    taken += [notification.payload for notification in message.notifications]
        assert taken == [b"<n>1</n>", b"<n>2</n>"]
    assert told == ["the answer was lost", "is back"]
