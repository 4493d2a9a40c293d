"""The contract of an adapter: messages arrive as they were published."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from adapters.protocol import (
    API_VERSION,
    EVERYTHING_WANTED,
    Capabilities,
)
from adapters.testing.trials import AdapterTrials
from mediation.model.messages import Attachment, EndpointReference
from mediation.model.versions import Wsa


class MessageContract(AdapterTrials):
    """Messages arrive as they were published."""

    async def test_it_says_what_it_is(self, data: Path) -> None:
        capabilities = self.make_adapter(data).capabilities
        assert isinstance(capabilities, Capabilities)
        assert capabilities.api_version == API_VERSION
        assert capabilities.durable == self.durable
        assert capabilities.partitions >= 1
        assert self.topics_in_order or capabilities.partitions > 1
        assert capabilities.prefetch >= 1

    async def test_it_says_that_it_is_connected(self, data: Path) -> None:
        """Checked only if it reports its state, which it need not."""
        async with self.running(data) as adapter:
            state = self.state(adapter)
            assert state is None or state.connected

    async def test_a_message_arrives_as_it_was_published(self, data: Path) -> None:
        sent = replace(
            self.notification("storm/sea", '<w:storm xmlns:w="urn:w">9</w:storm>'),
            action="urn:weather:Storm",
            producer=EndpointReference(
                "http://station.example/",
                Wsa.V2004_08,
                properties=(b'<p xmlns="urn:p">\xe2\x82\xac</p>',),
                parameters=(b'<q xmlns="urn:q" a="&quot;"/>',),
                metadata=(b'<m xmlns="urn:m"/>',),
            ),
            expires=datetime(2099, 1, 1, tzinfo=UTC),
            properties={"severity": "9", "wind speed": "30 m/s"},
            headers=(b'<h xmlns="urn:h">a: b\r\n</h>',),
            attachments=(Attachment("map@station.example", "image/png", bytes(range(256))),),
        )
        async with self.running(data, self.interest("storm//.")) as adapter:
            await adapter.publish([sent])
            (delivery,) = await self.inbox(adapter).take(1)
            assert delivery.notification == sent
            assert 0 <= delivery.partition < adapter.capabilities.partitions
            assert not delivery.redelivered

    @pytest.mark.parametrize(
        "text",
        [
            pytest.param("Sturm über Ærø", id="latin"),
            pytest.param("台风 \U0001f300", id="beyond 16 bits"),
            pytest.param("a\\b\nc:d\te", id="escapes"),
        ],
    )
    async def test_any_text_arrives(self, data: Path, text: str) -> None:
        sent = replace(
            self.notification("Ærø", f"<a>{text}</a>"),
            action=f"urn:weather:{text}",
            properties={"text": text},
        )
        async with self.running(data, self.interest("Ærø")) as adapter:
            await adapter.publish([sent])
            (delivery,) = await self.inbox(adapter).take(1)
            assert delivery.notification == sent

    async def test_a_large_message_arrives(self, data: Path) -> None:
        sent = self.notification(payload=f"<a>{'x' * 2**20}</a>")
        async with self.running(data, self.interest("storm")) as adapter:
            await adapter.publish([sent])
            (delivery,) = await self.inbox(adapter).take(1)
            assert delivery.notification == sent

    async def test_a_message_without_topic_arrives_where_everything_is_wanted(
        self, data: Path
    ) -> None:
        sent = replace(self.notification(), topic=None)
        async with self.running(data, EVERYTHING_WANTED) as adapter:
            await adapter.publish([sent])
            inbox = self.inbox(adapter)
            while (delivery := await inbox.next()).notification != sent:
                delivery.settle()  # what others sent to the same broker
            delivery.settle()

    async def test_publishing_nothing_does_nothing(self, data: Path) -> None:
        async with self.running(data) as adapter:
            await adapter.publish([])
