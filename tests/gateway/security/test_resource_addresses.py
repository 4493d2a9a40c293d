"""Which resource an address opens."""

import pytest

from gateway.security.keys import public_id
from gateway.security.resource_addresses import (
    ResourceAddress,
    ResourceKind,
    key_named,
    mailbox_key,
    resource_at,
    shown,
    shown_in,
)
from mediation import names
from tests.rigs.cases import for_each

KEY = "2f1a6e0c-8d0f-4b3e-9c55-0d6f6a1b7c11"
TOKEN = "desk-5-9f86d081884c7d65"
OTHER = "00000000-8d0f-4b3e-9c55-0d6f6a1b7c11"
BOX_2011, BOX_2004 = ResourceKind.MESSAGE_BOX_2011, ResourceKind.MESSAGE_BOX_2004

ADDRESSES = [
    (f"/subscriptions/{KEY}", ResourceAddress(ResourceKind.SUBSCRIPTION, KEY)),
    (f"/pullpoints/{KEY}", ResourceAddress(ResourceKind.PULL_POINT, KEY)),
    ("/soap/channel/Lab.7/", ResourceAddress(ResourceKind.CHANNEL, "lab.7")),
    ("/soap/topic/soap/channel/a", None),
    (f"/mailboxes/{KEY}", ResourceAddress(ResourceKind.MAILBOX, KEY)),
    (f"/sources/{KEY}", ResourceAddress(ResourceKind.SOURCE, KEY)),
    (f"/sequences/{KEY}", ResourceAddress(ResourceKind.SEQUENCE, KEY)),
    ("/api/v1/sequences/5b1f0c9a3e77-0", None),
    (f"/publishers/{KEY.upper()}/", ResourceAddress(ResourceKind.PUBLISHER, KEY)),
    ("/axis2/services/MsgBoxService", ResourceAddress(BOX_2011)),
    ("/axis2/services/MsgBoxService/", ResourceAddress(BOX_2011)),
    ("/axis2/services/MsgBoxService/clientid/", ResourceAddress(BOX_2011)),
    (f"/axis2/services/MsgBoxService/clientid/{KEY}", ResourceAddress(BOX_2011, KEY)),
    (f"/axis2/services/MsgBoxService/clientid/{KEY.upper()}/", ResourceAddress(BOX_2011, KEY)),
    ("/axis2/services/MsgBoxService/clientid/nobody", ResourceAddress(BOX_2011, "nobody")),
    ("/msgbox", ResourceAddress(BOX_2011)),
    (f"/msgbox/clientid/{KEY}", ResourceAddress(BOX_2011, KEY)),
    ("/MsgBox", ResourceAddress(BOX_2004)),
    (f"/MsgBox/{KEY}", ResourceAddress(BOX_2004, KEY)),
    (
        f"https://h.example/a/pullpoints/{KEY}?x=/MsgBox#y",
        ResourceAddress(ResourceKind.PULL_POINT, KEY),
    ),
    (f"soap.tcp://[::1]:9/msgbox/clientid/{KEY}", ResourceAddress(BOX_2011, KEY)),
    (f" http://h/MsgBox/{KEY}\n", ResourceAddress(BOX_2004, KEY)),
    (None, None),
    ("", None),
    ("/soap", None),
    ("http://MsgBox", None),
    ("/soap/topic/msgbox", None),
    (f"/soap/topic/mailboxes/{KEY}", None),
    ("/mymsgbox", None),
    ("/pullpoints/", None),
    ("/axis2/services/EventingService", None),
    (f"/mailboxes/{KEY}/events", None),
    (f"/mailboxes/{'k' * 101}", None),
]


@for_each(("address", "resource"), ADDRESSES, ids=str)
def test_doors(address: str | None, resource: ResourceAddress | None) -> None:
    assert resource_at(address) == resource


ANONYMOUS = names.MAKE_CONNECTION_ANONYMOUS


@for_each(
    ("address", "safe"),
    [
        ("http://h/consumer", "http://h/consumer"),
        (f"http://h/{KEY}", f"http://h/{KEY}"),
        (f"http://h/pullpoints/{KEY}", f"http://h/pullpoints/{public_id(KEY)}"),
        (f"http://h/a/MsgBox/{KEY.upper()}?x", f"http://h/a/MsgBox/{public_id(KEY)}?x"),
        (f"http://h/subscriptions/{KEY}", f"http://h/subscriptions/{public_id(KEY)}"),
        (f"http://h/sources/{KEY}", f"http://h/sources/{public_id(KEY)}"),
        (f"http://h/publishers/{KEY}", f"http://h/publishers/{public_id(KEY)}"),
        ("http://user:secret@h/consumer?a@b", "http://h/consumer?a@b"),
        (f"https://user@h/publishers/{KEY}", f"https://h/publishers/{public_id(KEY)}"),
        ("urn:a@b", "urn:a@b"),
        ("http://h/msgbox/clientid/nobody", "http://h/msgbox/clientid/nobody"),
        (f"https://h/relay/{TOKEN}", f"https://h/relay/{public_id(TOKEN)}"),
        (f"https://u:p@h/a/relay/{TOKEN}/?x=1", f"https://h/a/relay/{public_id(TOKEN)}/?x=1"),
        (f"https://h/relay/%64{TOKEN[1:]}", f"https://h/relay/{public_id(TOKEN)}"),
        ("https://h/relay/status", "https://h/relay/status"),
        (f"https://h/relay/{TOKEN}/more", f"https://h/relay/{public_id(TOKEN)}/more"),
        (f"{ANONYMOUS}{KEY}", ANONYMOUS + public_id(ANONYMOUS + KEY)),
    ],
)
def test_what_is_shown_opens_nothing(address: str, safe: str) -> None:
    assert shown(address) == safe


@pytest.mark.parametrize(
    "kind", [kind for kind in ResourceKind if kind is not ResourceKind.CHANNEL]
)
@pytest.mark.parametrize("behind", ["", "/", "?x=1&amp;y=2", "/events", ".", ", and more"])
@pytest.mark.parametrize("key", [KEY, KEY.upper(), f"urn:uuid:{KEY}"])
def test_no_document_has_an_address_that_opens_anything(
    kind: ResourceKind, behind: str, key: str
) -> None:
    address = kind.address("https://user:secret@h.example/prefix", key)
    document = f'<a to="{address}{behind}"><b>{address}{behind}</b><id>{OTHER}</id></a>'
    safe = shown_in(document)
    assert KEY not in safe.lower() and "secret" not in safe
    assert safe.count(public_id(KEY)) == 2 and OTHER in safe, "what is no address stays"


@pytest.mark.parametrize("address", [f"https://h/relay/{TOKEN}/x", f"{ANONYMOUS}{KEY}"])
def test_other_addresses_in_documents(address: str) -> None:
    assert shown_in(f"<a b='{address}'>{address}</a>") == (
        f"<a b='{shown(address)}'>{shown(address)}</a>"
    )


@pytest.mark.parametrize("kind", ResourceKind)
def test_the_address_of_a_door_leads_to_it(kind: ResourceKind) -> None:
    assert resource_at(kind.address("https://h.example/prefix", KEY)) == ResourceAddress(kind, KEY)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (KEY, KEY),
        (f" {KEY.upper()} ", KEY),
        (f"urn:uuid:{KEY}", KEY),
        (f"uuid:{KEY}", KEY),
        (f"http://h/pullpoints/{KEY}", KEY),
        (f"/MsgBox/{KEY}", KEY),
        (f"/subscriptions/{KEY}", None),
        ("/msgbox", None),
        ("Create message box", None),
        (f"{KEY}0", None),
        ("", None),
        (None, None),
    ],
)
def test_keys_in_a_peers_text(text: str | None, key: str | None) -> None:
    assert key_named(text) == key


def named(namespace: str, name: str, text: str) -> bytes:
    return f'<m:{name} xmlns:m="{namespace}">{text}</m:{name}>'.encode()


SERVICE = "http://h/axis2/services/MsgBoxService"
BY_ID = named(names.MESSAGE_BOX_2011_SLASH, "MsgBoxId", KEY)


@pytest.mark.parametrize(
    ("address", "references", "key"),
    [
        pytest.param(f"{SERVICE}/clientid/{KEY}", (), KEY, id="by address"),
        pytest.param(SERVICE, (BY_ID,), KEY, id="by reference"),
        pytest.param(
            SERVICE, (named(names.MESSAGE_BOX_2011, "MsgBoxId", KEY),), KEY, id="without the slash"
        ),
        pytest.param(
            "http://h/MsgBox",
            (
                named("urn:app", "Else", OTHER),
                named(
                    names.MESSAGE_BOX_2004,
                    "MsgBoxAddr",
                    f'<Address xmlns="urn:any">http://h/MsgBox/{KEY}</Address>',
                ),
            ),
            KEY,
            id="an endpoint reference within",
        ),
        pytest.param(
            f"{SERVICE}/clientid/{OTHER}", (BY_ID,), OTHER, id="the address before references"
        ),
        pytest.param(SERVICE, (), None, id="no reference"),
        pytest.param(SERVICE, (named("urn:app", "Id", KEY),), None, id="another reference"),
        pytest.param("http://h/consumer", (BY_ID,), None, id="a reference alone"),
        pytest.param(f"http://h/subscriptions/{KEY}", (BY_ID,), None, id="a subscription"),
    ],
)
def test_the_mailbox_of_an_endpoint_reference(
    address: str, references: tuple[bytes, ...], key: str | None
) -> None:
    assert mailbox_key(address, references) == key


@pytest.mark.parametrize("kind", [ResourceKind.SOURCE, ResourceKind.PUBLISHER])
def test_what_is_no_mailbox_names_none(kind: ResourceKind) -> None:
    address = kind.address("http://h", KEY)
    assert mailbox_key(address) is None
    assert key_named(address) is None
