"""zeep's UsernameToken: the gateway takes its passwords and its digests, each digest once."""

import asyncio
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from zeep import Client
from zeep.exceptions import Fault
from zeep.wsse.username import UsernameToken
from zeep.wsse.utils import WSU

from gateway.identities.file_editing import add_user, create_identities
from tests.rigs.gateways import running

PASSWORD = "Sesam öffne dich"
RULES = '\n[[rights]]\nwho = ["role:devices"]\nmay = ["subscribe"]\n'
FORMS: dict[str, dict[str, Any]] = {
    "text": {},
    "digest": {"use_digest": True},
    "digest, its time with a Z": {"use_digest": True, "zulu_timestamp": True},
}


def timestamp() -> etree._Element:
    """What zeep puts beside a token where it is told to."""
    now = datetime.now(UTC)
    began, over = (f"{one:%Y-%m-%dT%H:%M:%SZ}" for one in (now, now + timedelta(minutes=5)))
    made: etree._Element = WSU.Timestamp(WSU.Created(began), WSU.Expires(over))
    return made


def subscribe(url: str, token: UsernameToken) -> str:
    """Subscribe by the gateway's own description; the address that is answered."""
    client = Client(f"{url}/soap?wsdl=wsn", wsse=token)  # type: ignore[no-untyped-call]
    producer = client.bind("WSNotification", "NotificationProducerSoap12")
    answer = producer.Subscribe(ConsumerReference={"Address": "http://127.0.0.1:9999/"})
    return str(answer.SubscriptionReference.Address._value_1)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
async def test_it_subscribes_by_a_password(tmp_path: Path, form: dict[str, Any]) -> None:
    file = tmp_path / "identities.toml"
    create_identities(file)
    add_user(file, "camera", PASSWORD, ["devices"], digest=True)
    file.write_text(file.read_text() + RULES)
    once = {"nonce": os.urandom(16).hex(), "created": datetime.now(UTC)}
    async with running(tmp_path / "data", identities=file, egress_allow=["127.0.0.1"]) as run:

        async def ask(user: str, password: str, **more: Any) -> str:
            token = UsernameToken(user, password, **form, **more)  # type: ignore[no-untyped-call]
            return await asyncio.to_thread(subscribe, run.url, token)

        assert "/subscriptions/" in await ask("camera", PASSWORD)
        assert "/subscriptions/" in await ask("camera", PASSWORD, timestamp_token=timestamp())
        for user, password in (("camera", "wrong"), ("nobody", PASSWORD)):
            with pytest.raises(Fault, match="user or the password is wrong"):
                await ask(user, password)
        assert "/subscriptions/" in await ask("camera", PASSWORD, **once)
        if "use_digest" in form:
            with pytest.raises(Fault, match="used before"):
                await ask("camera", PASSWORD, **once)
        assert len(run.gateway.subscriptions.entries) == 3
