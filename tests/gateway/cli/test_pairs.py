"""``dragoman demo --from --to``: every pair of dialects, over a real gateway."""

import pytest

from gateway.cli.pairs import show_pair
from mediation.matrix import NOTIFIED, PUBLISHING, Dialect, Fact
from tests.rigs.cases import for_each
from tests.rigs.gateways import Running

pytestmark = pytest.mark.asyncio(loop_scope="module")
CELLS = [
    pytest.param(origin, target, id=f"{origin.name} to {target.name}")
    for origin in PUBLISHING
    for target in NOTIFIED
]
SERVICES = {"ws-messenger": "EventingService", "wsn-1.0": "NotificationService"}
"""Where real clients publish."""


@pytest.mark.slow
@for_each(("origin", "target"), CELLS)
async def test_every_pair_is_shown(
    gateway: Running, origin: Dialect, target: Dialect, capsys: pytest.CaptureFixture[str]
) -> None:
    await show_pair(gateway.url, origin, target)
    printed = capsys.readouterr().out
    before, asks, rest = printed.partition(f"The subscriber asks, in {target.title}:")
    published, sends, rest = rest.partition(f"The publisher sends, in {origin.title}:")
    sent, receives, rest = rest.partition(f"The subscriber receives, in {target.title}:")
    received, _, lost = rest.partition("What the subscriber does not read as it was said:")
    assert origin.title in before and asks and sends and receives
    assert "-> answered 20" in published and "-> answered 20" in sent
    assert "Amherst" in sent and "Amherst" in received
    served = SERVICES.get(origin.name)
    if served is not None:
        assert f"POST /axis2/services/{served}" in sent and "-> answered 200" in sent
    for fact in (Fact.TOPIC, Fact.ACTION, Fact.ID):
        named = f"\n{fact.value} " in lost
        if named:
            assert fact in origin.says | {Fact.TOPIC, Fact.ACTION}
        else:
            assert fact in target.tells or fact not in origin.says
