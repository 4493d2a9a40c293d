"""The scopes of the ids of what is published: nobody is in another's, whatever its name."""

import json
from datetime import UTC, datetime
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from filters import Topic, parse_clark
from gateway.identities.file_editing import add_key, add_user, create_identities
from gateway.security.identify import scope_of
from gateway.security.principals import owner_in
from mediation.model.messages import Notification
from mediation.tenants import as_its_tenant_knows_it, tenant_of_source, topic_in
from tests.rigs.envelopes import Speaker
from tests.rigs.gateways import running
from tests.rigs.json_mailboxes import Box

SPEAKER = Speaker()
NAMES = st.text("ab#%23:", min_size=1, max_size=6)
TENANTS = st.sampled_from(["", "a", "ab"])
OWNERS = st.builds(
    lambda tenant, scheme, name: owner_in(tenant, f"{scheme}:{name}"),
    TENANTS,
    st.sampled_from(["user", "cert", "ca"]),
    NAMES,
)
SAID = st.none() | st.text("ab#%23", max_size=6)
"""What a publisher says besides: a channel, or the source of a CloudEvent."""


@given(OWNERS, OWNERS, SAID, SAID)
def test_no_owner_has_the_scope_of_another(
    one: str, other: str, said: str | None, too: str | None
) -> None:
    scopes = [
        scope_of(owner) + ("" if besides is None else f"#{besides}")
        for owner, besides in ((one, said), (other, too))
    ]
    assert one == other or scopes[0] != scopes[1]
    assert tenant_of_source(scopes[0]) == (one.split(":")[1] if one.startswith("tenant:") else "")


@given(OWNERS, TENANTS, SAID)
def test_no_program_at_the_broker_has_a_scope_of_another_tenant(
    owner: str, tenant: str, written: str | None
) -> None:
    """Whatever it writes into its message."""
    own, topic = scope_of(owner), Topic(parse_clark("t").steps)
    for source in (own, f"{own}#{written}", written or "", f"native#{own}"):
        named = topic_in(tenant, topic)
        event = Notification("1", source, b"<a/>", datetime.now(UTC), named)
        known = as_its_tenant_knows_it(event).source
        if tenant_of_source(own) != tenant:
            assert known != own and not known.startswith(f"{own}#")


async def test_who_is_called_as_another_at_a_channel(tmp_path: Path) -> None:
    file = tmp_path / "identities.toml"
    create_identities(file)
    names = ("bank", "bank#alarms", "bank%23alarms")
    keys = {}
    for name in names:
        add_user(file, name, None, [])
        keys[name] = {"authorization": f"Bearer {add_key(file, name)}"}
    rules = '\n[[rights]]\nwho = ["everybody"]\nmay = ["publish", "subscribe", "manage"]\n'
    file.write_text(file.read_text() + rules)
    channels = [{"name": "alarms"}]
    async with running(tmp_path / "data", identities=file, channels=channels) as run:
        box = await Box.make(run)
        subscribe = SPEAKER.wsn_subscribe(box.address)
        octets = SPEAKER.envelope(subscribe, message_id="urn:s")
        assert (await run.post(octets, "/soap/channel/alarms", type=SPEAKER.type)).status == 200
        for name, path in (
            ("bank#alarms", "/soap"), ("bank%23alarms", "/soap"), ("bank", "/soap/channel/alarms"),
        ):  # fmt: skip
            event = SPEAKER.envelope(f"<of>{name}</of>", message_id="urn:alarm:1")
            answer = await run.post(event, path, type=SPEAKER.type, **keys[name])
            assert answer.status == 202, answer.body
        got = await box.do("receive", wait=10, max=10)
        assert ["bank</of>" in json.dumps(one) for one in got["messages"]] == [True]
