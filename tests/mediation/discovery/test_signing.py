"""Signing: what is put together here is what signxml makes."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from mediation.discovery import (
    Element,
    Role,
    Signable,
    SignedTopicAdvertisement,
    read,
    topic_id_of,
    write,
)
from mediation.discovery.errors import Malformed, SignatureRefused
from mediation.discovery.signing import _sign, sign, sign_canonical
from mediation.discovery.xml_fields import canonical
from mediation.discovery.xml_signature import SIGNATURE, _read, _read_plain
from tests.rigs import discovery, discovery_strategies
from tests.rigs.discovery import NOW, TOPIC_ID
from tests.rigs.discovery_keys import parties, root, rsa_key

_SIGNED = discovery_strategies.elements.filter(lambda value: not hasattr(value, "possession"))


def id_of(octets: bytes) -> str:
    return read(octets).id


@settings(max_examples=50, deadline=None)
@given(_SIGNED)
def test_signatures_put_together_are_those_of_signxml(value: Element) -> None:
    written, own = write(value), parties().node
    assert sign_canonical(written, id_of(written), own) == _sign(written, own)


def test_intermediates_travel_along() -> None:
    below = root("Authority", rsa_key("one")).below("Below", rsa_key("two"))
    own = below.credentials("entity", rsa_key("three"))
    own = replace(own, certificates=(*own.certificates, below.certificate))
    written = write(discovery.SIGNED)
    assert sign_canonical(written, id_of(written), own) == _sign(written, own)


def test_an_elliptic_curve_signs_another_way_each_time() -> None:
    written, own = write(discovery.SIGNED), parties().elliptic
    read_back = read(sign_canonical(written, id_of(written), own))
    signer = parties().verifier().verify(read_back, Role.ENTITY, now=NOW)
    assert signer.identifier == own.identifier(Role.ENTITY)


@pytest.mark.parametrize(
    "value", [value for value in discovery.ELEMENTS if not hasattr(value, "possession")]
)
def test_one_is_signed_as_the_other(value: Signable) -> None:
    """A response, which signxml has no part in, as all others."""
    assert sign(value, parties().node) == _sign(write(value), parties().node)


@pytest.mark.parametrize("value", discovery.ELEMENTS)
def test_the_topic_of_an_advertisement_is_told_alone(value: Element) -> None:
    octets = write(value)
    if isinstance(value, SignedTopicAdvertisement):
        assert topic_id_of(octets) == TOPIC_ID == value.topic_id
        with pytest.raises(Malformed):
            topic_id_of(octets.replace(b"TopicId", b"Topic"))
        with pytest.raises(Malformed):
            topic_id_of(octets.replace(b"urn:uuid:", b"urn:"))
    else:
        with pytest.raises(Malformed):
            topic_id_of(octets)


@settings(max_examples=50, deadline=None)
@given(_SIGNED, st.sampled_from(["node", "elliptic"]), st.data())
def test_a_plain_signature_is_read_quickly_as_any_other(
    value: Element, name: str, data: st.DataObject
) -> None:
    """Whatever is changed in it: if it is read the quick way, it is read the same."""
    octets = sign(value, getattr(parties(), name))  # type: ignore[arg-type]
    [signature] = etree.fromstring(octets).findall(SIGNATURE)
    plain = canonical(signature)
    assert _read_plain(plain) == _read(signature)
    at = data.draw(st.integers(0, len(plain) - 1))
    changed = (
        plain[:at] + data.draw(st.sampled_from([b" ", b"A", b"=", b"", b"#"])) + plain[at + 1 :]
    )
    with suppress(etree.XMLSyntaxError, SignatureRefused, Malformed):
        quickly = _read_plain(canonical(etree.fromstring(changed)))
        assert quickly is None or quickly == _read(etree.fromstring(changed))


def test_what_is_not_plain_is_read_slowly() -> None:
    octets = sign(discovery.SIGNED, parties().producer)
    for old, new in (
        (b"<ds:KeyInfo>", b"<ds:KeyInfo> "),
        (b"<ds:SignatureValue>", b"<!-- one --><ds:SignatureValue>"),
        (b"ds:", b"dsig:"),
        (b"xmlns:ds", b"xmlns:dsig"),
    ):
        octets = octets.replace(old, new)
    [signature] = etree.fromstring(octets).findall(SIGNATURE)
    assert _read_plain(canonical(signature)) is None
    assert len(_read(signature).certificates) == 1
