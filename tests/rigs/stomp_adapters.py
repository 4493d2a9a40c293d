"""An adapter of STOMP that runs."""

import uuid
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from adapters import Adapter, Interest, load
from tests.rigs.adapters import started
from tests.rigs.brokers import USER

AUTHORIZATION = f"""<authorizationPlugin><map><authorizationMap><authorizationEntries>
<authorizationEntry topic="&gt;" read="others" write="others" admin="others"/>
<authorizationEntry queue="&gt;" read="{USER}" write="{USER}" admin="{USER}"/>
<authorizationEntry topic="VirtualTopic.&gt;" read="{USER}" write="{USER}" admin="{USER}"/>
<authorizationEntry topic="ActiveMQ.Advisory.&gt;" read="{USER}" write="{USER}" admin="{USER}"/>
<authorizationEntry topic="orders.&gt;" read="{USER}" write="others" admin="{USER}"/>
</authorizationEntries></authorizationMap></map></authorizationPlugin>"""
"""An ActiveMQ's, whose topics below ``orders`` the gateway may only read."""


def running(
    url: str, name: str, data: Path, *interests: Interest, **settings: str
) -> AbstractAsyncContextManager[Adapter]:
    """One with queues and a root of *name*, as `started`."""
    adapter = load(url, data=data, settings={"name": name, "root": name, **settings})
    return started(adapter, *interests)


def settings_of_a_test() -> dict[str, str]:
    """A name and a root of its own: they keep a test from what others left, and fill no queues of
    theirs."""
    name = f"contract-{uuid.uuid4().hex[:8]}"
    return {"name": name, "root": name}
