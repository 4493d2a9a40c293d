"""How requests name a subscription, and what they are told of one that is not there."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from mediation.model.versions import Wsa
from tests.rigs.consumers import Consumers
from tests.rigs.envelopes import (
    RL,
    RP,
    S11,
    S12,
    WSA10,
    WSE,
    WSNT,
    Answer,
    R,
    Speaker,
    fresh_id,
    pairs,
)
from tests.rigs.gateways import Running

pytestmark = pytest.mark.asyncio(loop_scope="module")

UNKNOWN = "01234567-89ab-cdef-0123-456789abcdef"
STATUS = f'<e:GetStatus xmlns:e="{WSE}"/>'
PROPERTY = f'<r:GetResourceProperty xmlns:r="{RP}" xmlns:l="{RL}">l:TerminationTime</r:GetResourceProperty>'
SPEAKERS = [Speaker(soap, wsa) for soap, wsa in pairs((S11, S12), (*Wsa, None))]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def keys(gateway: Running) -> AsyncIterator[tuple[str, str]]:
    """The keys of a subscription of WS-Eventing and one of WS-Notification."""
    async with Consumers() as consumer:
        speaker = Speaker()
        wse = await gateway.subscribe(speaker, speaker.wse_subscribe(consumer.fresh()))
        wsn = await gateway.subscribe(speaker, speaker.wsn_subscribe(consumer.fresh()))
        yield wse.rpartition("/")[2], wsn.rpartition("/")[2]


async def ask(
    gateway: Running, body: str, path: str = "/soap", *, speaker: Speaker | None = None, **more: Any
) -> Answer:
    return await gateway.ask(speaker or Speaker(), body, path, **more)


def identifier(key: str, namespace: str = WSE, name: str = "Identifier") -> str:
    return f'<i:{name} xmlns:i="{namespace}">urn:uuid:{key}</i:{name}>'


async def test_all_ways(gateway: Running, keys: tuple[str, str]) -> None:
    for key, body in ((keys[0], STATUS), (keys[1], PROPERTY)):
        url = f"{gateway.url}/subscriptions/{key}"
        encoded = "".join(f"%{ord(letter):02x}" for letter in key)
        mark = f'i:Identifier xmlns:a="{WSA10}" a:IsReferenceParameter="true"'
        marked = identifier(key).replace("i:Identifier", mark, 1)
        ways = {
            "header": await ask(gateway, body, headers=identifier(key)),
            "header, marked": await ask(gateway, body, headers=marked),
            "header, of another name": await ask(
                gateway, body, headers=identifier(key, "urn:test:x", "SubscriptionId")
            ),
            "header, padded": await ask(
                gateway, body, headers=identifier(key).replace("urn:", "\n  urn:")
            ),
            "path": await ask(gateway, body, f"/subscriptions/{key}"),
            "path, upper case": await ask(gateway, body, f"/subscriptions/{key.upper()}"),
            "path, encoded": await ask(gateway, body, f"/subscriptions/{encoded}"),
            "path, trailing slash": await ask(gateway, body, f"/subscriptions/{key}/"),
            "path, query": await ask(gateway, body, f"/subscriptions/{key}?wsdl"),
            "path and header": await ask(
                gateway, body, f"/subscriptions/{key}", headers=identifier(key), to=url
            ),
            "absolute To": await ask(gateway, body, to=url),
            "To through a proxy": await ask(
                gateway, body, to=f"https://x.example/subscriptions/{key}"
            ),
            "To, a bare path": await ask(gateway, body, to=f"/subscriptions/{key}"),
            "To, an identifier": await ask(gateway, body, to=f"urn:uuid:{key}"),
            "at the folder": await ask(gateway, body, "/subscriptions/", headers=identifier(key)),
            "at the folder's name": await ask(
                gateway, body, "/subscriptions", headers=identifier(key)
            ),
            "at a topic": await ask(gateway, body, "/soap/topic/a", headers=identifier(key)),
        }
        reference = (
            f'<n:SubscriptionReference xmlns:n="{WSNT}"><Address>{url}</Address>'
            "</n:SubscriptionReference>"
        )
        if key == keys[0]:
            inside = STATUS.replace("/>", f">{identifier(key)}</e:GetStatus>")
            ways["in the body, a draft's"] = await ask(gateway, inside)
            body = STATUS.replace("/>", f">{reference}</e:GetStatus>")
        else:
            body = f'<n:PauseSubscription xmlns:n="{WSNT}">{reference}</n:PauseSubscription>'
        ways["in the body"] = await ask(gateway, body)
        ways["in the body, in WS-Addressing"] = await ask(
            gateway,
            body.replace("<Address", f'<a:Address xmlns:a="{WSA10}"').replace("</A", "</a:A"),
        )
        refused = {way: answer.body for way, answer in ways.items() if answer.status != 200}
        assert refused == {}


async def test_two_ways_that_differ(gateway: Running, keys: tuple[str, str]) -> None:
    one, other = keys
    ways: list[tuple[str, dict[str, Any]]] = [
        (f"/subscriptions/{one}", {"headers": identifier(other)}),
        (f"/subscriptions/{one}", {"headers": identifier(UNKNOWN)}),
        (f"/subscriptions/{one}", {"to": f"{gateway.url}/subscriptions/{other}"}),
        ("/soap", {"headers": identifier(one), "to": f"urn:uuid:{other}"}),
        ("/soap", {"headers": identifier(one) + identifier(other)}),
    ]
    for path, more in ways:
        answer = await ask(gateway, STATUS, path, **more)
        assert answer.status == 400
        assert answer.fault.subcode == f"{{{WSE}}}InvalidMessage"
        answer = await ask(gateway, f'<n:Unsubscribe xmlns:n="{WSNT}"/>', path, **more)
        assert (answer.status, answer.fault.code) == (400, f"{{{S12.value}}}Sender")
    assert (await ask(gateway, STATUS, f"/subscriptions/{one}")).status == 200


@pytest.mark.parametrize("speaker", SPEAKERS)
async def test_unknown(gateway: Running, keys: tuple[str, str], speaker: Speaker) -> None:
    """The same answer, whatever is wrong with the key."""
    wse = [f'<e:{name} xmlns:e="{WSE}"/>' for name in ("Renew", "GetStatus", "Unsubscribe")]
    names = ("Renew", "Unsubscribe", "PauseSubscription", "ResumeSubscription", "GetStatus")
    wsn = [f'<n:{name} xmlns:n="{WSNT}"/>' for name in names]
    wsn += [
        PROPERTY,
        f'<r:Destroy xmlns:r="{RL}"/>',
        f'<r:GetResourcePropertyDocument xmlns:r="{RP}"/>',
    ]
    wsn.append(
        f'<r:SetTerminationTime xmlns:r="{RL}"><r:RequestedLifetimeDuration>PT1H'
        "</r:RequestedLifetimeDuration></r:SetTerminationTime>"
    )
    paths = [
        f"/subscriptions/{name}" for name in (UNKNOWN, "", "x", "%00", keys[0][:-1], keys[0] + "0")
    ]
    for bodies, family in ((wse, "wse"), (wsn, "wsn")):
        for body in bodies:
            texts = set()
            for path in paths:
                message_id = fresh_id()
                answer = await ask(gateway, body, path, speaker=speaker, message_id=message_id)
                message, fault = answer.message, answer.fault
                assert message.soap is speaker.soap
                assert answer.status == (500 if speaker.soap is S11 else 400)
                if family == "wse":
                    assert fault.subcode == f"{{{WSE}}}InvalidMessage"
                    assert fault.detail is None
                else:
                    assert fault.element == f"{{{R}}}ResourceUnknownFault"
                    if speaker.soap is S11:
                        assert fault.code == f"{{{S11.value}}}Client"
                if speaker.wsa is None:
                    assert message.headers == []
                else:
                    wsa = speaker.wsa
                    assert message.wsa("RelatesTo", wsa) == message_id
                    action = (
                        "http://docs.oasis-open.org/wsrf/fault"
                        if family == "wsn"
                        else wsa.fault_action
                    )
                    assert message.wsa("Action", wsa) == action
                texts.add(fault.text)
            assert len(texts) == 1


async def test_nothing_names_one(gateway: Running) -> None:
    for path in ("/soap", "/soap/", "/subscriptions/"):
        answer = await ask(gateway, f'<e:Renew xmlns:e="{WSE}"/>', path, to=f"{gateway.url}/soap")
        assert answer.fault.subcode == f"{{{WSE}}}InvalidMessage"
        answer = await ask(gateway, f'<n:Unsubscribe xmlns:n="{WSNT}"/>', path)
        assert answer.fault.element == f"{{{R}}}ResourceUnknownFault"
