"""Ids of messages."""

from uuid import RFC_4122, UUID

from gateway.security.keys import message_urn


def test_message_ids_are_random_uuids() -> None:
    urns = [message_urn() for _ in range(1000)]
    assert len(set(urns)) == len(urns)
    for urn in urns:
        uuid = UUID(urn)
        assert (uuid.urn, uuid.version, uuid.variant) == (urn, 4, RFC_4122)
    # All the other bits change, and the digit of the variant has its four values.
    assert {urn[28] for urn in urns} == set("89ab")
