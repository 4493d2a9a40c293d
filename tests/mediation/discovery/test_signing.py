"""Signing: what is put together here is what signxml makes."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from mediation.discovery import (
    Element,
    Role,
    Signable,
    SignedTopicAdvertisement,
    read,
    topic_id_of,
    write,
)
from mediation.discovery.errors import Malformed
from mediation.discovery.signing import _sign, sign, sign_canonical
from tests.rigs import discovery
from tests.rigs.discovery import NOW, TOPIC_ID
from tests.rigs.discovery_keys import parties, root, rsa_key

_SIGNED = discovery.elements.filter(lambda value: not hasattr(value, "possession"))


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
