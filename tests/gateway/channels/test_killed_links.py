"""Links of a gateway that is killed."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.channels.test_channels import LAB, event, publishes, types
from tests.rigs.consumers import Consumers
from tests.rigs.gateways import running
from tests.rigs.grid_events import lease
from tests.rigs.processes import gateway_process
from tests.rigs.waiting import until

pytestmark = pytest.mark.slow


async def test_links_and_channels_outlive_a_kill(tmp_path: Path) -> None:
    async with (
        Consumers() as consumers,
        running(tmp_path / "above", grid_events={"min_lease": 0.2}) as above,
        gateway_process(tmp_path / "data") as below,
    ):

        async def api(method: str, path: str, **asked: Any) -> Any:
            body = json.dumps(asked).encode() if asked else b""
            path = f"/api/v1{path}"
            answer = await below.request(method, path, body, content_type="application/json")
            assert answer.status in (200, 201, 204), answer.body
            return json.loads(answer.body) if answer.body else None

        async def lives() -> bool:
            (link,) = (await api("GET", "/links"))["links"]
            return bool(link["id"] == made["id"] and link["state"] == "live")

        def linked_from() -> list[str]:
            return [
                one.subscription.consumer.address for one in above.gateway.subscriptions.entries
            ]

        await api("POST", "/channels", name="lab")
        listener = consumers.at("/")
        port = f"<endpoint><location>{listener.url}</location></endpoint>"
        asked = lease(port=port)
        answer = await below.request("POST", LAB, asked, content_type="text/xml")
        assert answer.status == 200, answer.body
        made = await api("POST", "/links", url=f"{above.url}/soap", channel="lab", lease=4)
        await until(lives)
        assert linked_from() == [f"{below.url}{LAB}"]
        await publishes(above, event("before"), "/soap")
        await listener.have(1)
        await below.kill()
        await below.start()
        # It is on another port now: its renewal is another subscription, the first one ends.
        await until(lambda: linked_from() == [f"{below.url}{LAB}"])
        await until(lives)
        await publishes(above, event("after"), "/soap")
        # What was not acknowledged when it was killed may come again.
        await until(lambda: set(types(listener)) == {"after", "before"})
