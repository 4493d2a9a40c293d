"""Who may publish on a protected topic and subscribe to it: each reason to refuse."""

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from filters import parse_document
from mediation.discovery import (
    Access,
    Anchors,
    AnyAdvertisement,
    Authorization,
    Creator,
    Credentials,
    Decision,
    Delegation,
    Denial,
    EncryptedAdvertisement,
    Possession,
    ReplayWindow,
    Right,
    Role,
    SignedTopicAdvertisement,
    TopicAdvertisement,
    Trust,
    Verifier,
    admit_decision,
    authority_of,
    check_access,
    check_advertisement,
    read_as,
    read_authorities,
    write,
)
from mediation.discovery.signing import sign
from mediation.model.versions import Soap
from mediation.soap.envelopes import read_envelope, write_envelope
from mediation.soap.payloads import payload_of
from tests.rigs import discovery
from tests.rigs.discovery import NOW
from tests.rigs.discovery_keys import Parties, parties, root, rsa_key

SECOND = timedelta(seconds=1)
REQUEST = "urn:uuid:7"
GATEWAY = "https://gateway.example.net/soap"
SUBSCRIBE = Access(Right.SUBSCRIBE, REQUEST, frozenset({GATEWAY, "https://other.example.net/"}))


@pytest.fixture(scope="module")
def people() -> Parties:
    return parties()


def topic(people: Parties) -> TopicAdvertisement:
    return replace(discovery.ADVERTISEMENT, creator=Creator(people.producer_id))


def possession(**changes: Any) -> Possession:
    return replace(discovery.POSSESSION, **changes)


def delegation(people: Parties, **changes: Any) -> Delegation:
    value = replace(
        discovery.DELEGATION,
        grantee=people.consumer_id,
        rights=frozenset({Right.SUBSCRIBE}),
        not_after=NOW + timedelta(days=7),
    )
    return replace(value, **changes)


def ask(
    people: Parties,
    *,
    proof: Possession | None = None,
    prover: Credentials | None = None,
    given: Delegation | None = None,
    giver: Credentials | None = None,
    about: AnyAdvertisement | None = None,
    access: Access = SUBSCRIBE,
    **options: Any,
) -> Decision:
    """What is decided when the consumer brings a possession and a delegation, both right."""
    return check_access(
        about or topic(people),
        access,
        people.verifier(),
        **{
            "now": NOW,
            "possession": sign(proof or possession(), prover or people.consumer),
            "delegation": sign(given or delegation(people), giver or people.producer),
            **options,
        },
    )


def test_a_creator_may(people: Parties) -> None:
    decision = ask(people, prover=people.producer, delegation=None)
    assert decision.allowed
    assert decision.holder == people.producer_id
    assert decision.until == topic(people).expires
    assert decision.delegation is None
    publish = replace(SUBSCRIBE, right=Right.PUBLISH)
    proof = possession(right=Right.PUBLISH)
    assert ask(people, proof=proof, prover=people.producer, delegation=None, access=publish).allowed


def test_who_has_a_delegation_may_until_it_ends(people: Parties) -> None:
    decision = ask(people)
    assert decision.allowed
    assert decision.holder == people.consumer_id
    assert decision.until == NOW + timedelta(days=7)
    assert decision.delegation == delegation(people).id


def test_a_topic_whose_advertisement_is_encrypted_is_protected_alike(people: Parties) -> None:
    known = topic(people)
    hidden = EncryptedAdvertisement(
        known.topic_id, known.node, known.creator, known.created, known.expires, b""
    )
    assert ask(people, about=hidden).allowed
    assert ask(people, about=hidden, delegation=None).denial is Denial.NOT_DELEGATED


def test_a_proof_for_this_content_is_enough_where_one_is_asked_for(people: Parties) -> None:
    content = replace(SUBSCRIBE, digest="dGhpcw==", needs_digest=True)
    assert ask(people, proof=possession(digest="dGhpcw=="), access=content).allowed


def test_each_reason_to_refuse(people: Parties) -> None:
    content = replace(SUBSCRIBE, digest="dGhpcw==", needs_digest=True)
    other = root("Authority of others", rsa_key("others")).credentials("c", people.consumer.key)
    publish = replace(SUBSCRIBE, right=Right.PUBLISH)
    changed = sign(possession(), people.consumer).replace(b"urn:uuid:5d0f", b"urn:uuid:5d0e")
    fake = sign(delegation(people), people.producer).replace(b"2027-03-11", b"2027-03-12")
    cases: list[tuple[Denial, Decision]] = [
        (Denial.MISSING, ask(people, possession=None)),
        (Denial.MISSING, ask(people, possession=None, delegation=None)),
        (Denial.MALFORMED, ask(people, possession=b"<")),
        (Denial.MALFORMED, ask(people, possession=write(delegation(people)))),
        (Denial.MALFORMED, ask(people, delegation=b"<a/>")),
        (Denial.UNAUTHENTICATED, ask(people, possession=write(possession()))),
        (Denial.UNAUTHENTICATED, ask(people, delegation=write(delegation(people)))),
        (Denial.UNAUTHENTICATED, ask(people, prover=other)),
        (Denial.UNAUTHENTICATED, ask(people, prover=people.node)),
        (Denial.UNAUTHENTICATED, ask(people, delegation=fake)),
        (Denial.OTHER_TOPIC, ask(people, possession=changed)),
        (Denial.OTHER_TOPIC, ask(people, proof=possession(topic_id=discovery.MESSAGE_ID))),
        (Denial.OTHER_RIGHT, ask(people, proof=possession(right=Right.PUBLISH))),
        (Denial.OTHER_RIGHT, ask(people, access=publish)),
        (Denial.OTHER_REQUEST, ask(people, proof=possession(request="urn:uuid:8"))),
        (Denial.OTHER_AUDIENCE, ask(people, proof=possession(audience="https://elsewhere.net/"))),
        (Denial.OTHER_CONTENT, ask(people, proof=possession(digest="b3RoZXI="))),
        (Denial.OTHER_CONTENT, ask(people, proof=possession(digest="b3RoZXI="), access=content)),
        (Denial.NO_DIGEST, ask(people, access=content)),
        (Denial.UNTIMELY, ask(people, now=NOW + 31 * SECOND)),
        (Denial.UNTIMELY, ask(people, proof=possession(issued=NOW + 61 * SECOND,
                                                       expires=NOW + 62 * SECOND))),
        (Denial.UNTIMELY, ask(people, proof=possession(expires=NOW + 601 * SECOND))),
        (Denial.NOT_DELEGATED, ask(people, delegation=None)),
        (Denial.OTHER_TOPIC, ask(people, given=delegation(people, topic_id=discovery.MESSAGE_ID))),
        (Denial.OTHER_RIGHT, ask(people, given=delegation(people, rights=frozenset({Right.PUBLISH})))),
        (Denial.OTHER_GRANTEE, ask(people, given=delegation(people, grantee=people.node_id))),
        (Denial.OTHER_GRANTEE, ask(people, prover=people.elliptic)),
        (Denial.NOT_YET, ask(people, given=delegation(people, not_before=NOW + SECOND))),
        (Denial.OVER, ask(people, given=delegation(people, not_after=NOW))),
        (Denial.TOO_LONG, ask(people, given=delegation(people, not_after=topic(people).expires + SECOND))),
        (Denial.OTHER_DELEGATOR, ask(people, giver=people.consumer)),
        (Denial.OTHER_DELEGATOR, ask(people, giver=people.elliptic)),
        (Denial.REVOKED, ask(people, revoked=frozenset({delegation(people).id}))),
        (Denial.EXPIRED, ask(people, now=topic(people).expires)),
    ]  # fmt: skip
    for denial, decision in cases:
        assert decision.denial is denial
        assert not decision.allowed
        assert decision.until is None
        assert decision.proof is None
    tried = {denial for denial, _ in cases}
    assert set(Denial) - tried == {
        Denial.REPLAYED,
        Denial.CROWDED,
        Denial.FORGED,
        Denial.OTHER_SIGNER,
        Denial.WITHDRAWN,
        Denial.UNKNOWN,
    }


def test_a_delegation_is_not_handed_on(people: Parties) -> None:
    """The consumer signs one of its own for another."""
    further = delegation(people, grantee=people.elliptic.identifier(Role.ENTITY))
    decision = ask(people, prover=people.elliptic, given=further, giver=people.consumer)
    assert decision.denial is Denial.OTHER_DELEGATOR


def test_a_possession_comes_once(people: Parties) -> None:
    window = ReplayWindow(most=1)
    decision = ask(people)
    assert admit_decision(decision, window, now=NOW) == decision
    again = admit_decision(decision, window, now=NOW)
    assert again.denial is Denial.REPLAYED
    other = ask(people, proof=possession(id="pos-2"))
    assert other.allowed
    assert admit_decision(other, window, now=NOW).denial is Denial.CROWDED


def test_what_is_denied_fills_no_window(people: Parties) -> None:
    window = ReplayWindow()
    decision = ask(people, delegation=None)
    assert admit_decision(decision, window, now=NOW) == decision
    assert len(window) == 0


def test_a_client_certificate_proves_the_key(people: Parties) -> None:
    window = ReplayWindow()
    mine = ask(people, holder=people.producer_id, possession=None, delegation=None)
    assert mine.allowed
    assert mine.proof is None
    for _ in range(2):
        assert admit_decision(mine, window, now=NOW).allowed
    assert ask(people, holder=people.consumer_id, possession=None).allowed
    no_right = ask(people, holder=people.consumer_id, possession=None, delegation=None)
    assert no_right.denial is Denial.NOT_DELEGATED
    assert no_right.holder == people.consumer_id


def test_the_published_examples_fit(shared: Path) -> None:
    folder = shared / "specs/schemas/tdn/examples"
    nodes, entities = (
        Anchors(read_authorities((folder / f"{name}-ca.crt.pem").read_bytes()))
        for name in ("node", "entity")
    )
    verifier = Verifier(Trust(nodes, entities))
    now = datetime.fromisoformat("2026-11-21T10:05:10+00:00")
    signed, given, proof = (
        next(folder.glob(f"{number}-*.xml")).read_bytes() for number in ("05", "09", "10")
    )
    assert read_as(SignedTopicAdvertisement, signed).signature is not None
    known = check_advertisement(signed, verifier, now=now).advertisement
    claim = read_as(Possession, proof).value
    access = Access(Right.SUBSCRIBE, claim.request, frozenset({"https://gateway.example/soap"}))
    decision = check_access(known, access, verifier, now=now, possession=proof, delegation=given)
    assert decision.allowed
    assert decision.until == datetime.fromisoformat("2026-12-21T09:00:00+00:00")
    alone = check_access(known, access, verifier, now=now, possession=proof)
    assert alone.denial is Denial.NOT_DELEGATED


@pytest.mark.parametrize("soap", Soap)
def test_a_header_block_brings_it(people: Parties, soap: Soap) -> None:
    """Whatever the envelope declares, and with the attributes of header blocks."""
    both = Authorization(
        sign(possession(), people.consumer), sign(delegation(people), people.producer)
    )
    block = write(both).replace(
        b"<tdn:Authorization ",
        b'<tdn:Authorization s:mustUnderstand="1" xmlns:u="urn:u" u:Id="a" ',
    )
    header = block.replace(b' xmlns:tdn="urn:dragoman:tdn:1"', b"").decode()
    octets = write_envelope(soap, None, header, "<a/>").replace(
        b"<s:Envelope ", b'<s:Envelope xmlns:tdn="urn:dragoman:tdn:1" xml:lang="en" '
    )
    [element] = read_envelope(parse_document(octets)).headers
    again = read_as(Authorization, payload_of(element)).value
    assert again == both
    brought: dict[str, Any] = {"possession": again.possession, "delegation": again.delegation}
    assert ask(people, **brought).allowed


def test_everybody_whom_an_authority_has_certified(people: Parties) -> None:
    """By its key, up the chain; an authority that has its name is another."""
    entities, key = people.entity_authority, people.consumer.key
    office = entities.below("Office", rsa_key("office"))
    impostor = root("Office", rsa_key("others"))
    leaf = office.issue("c", key)
    chained = Credentials(key, (leaf, office.certificate))
    of_office = delegation(people, grantee=authority_of(office.certificate))
    of_all = delegation(people, grantee=authority_of(entities.certificate))
    of_impostor = delegation(people, grantee=authority_of(impostor.certificate))
    forged = Credentials(key, (impostor.issue("c", key), impostor.certificate))
    both = Credentials(key, (people.consumer.certificate, office.certificate))
    cases = [
        (chained, of_office, None),
        (chained, of_all, None),
        (people.consumer, of_all, None),
        (people.consumer, of_office, Denial.OTHER_GRANTEE),
        (both, of_office, Denial.OTHER_GRANTEE),  # It shows the authority, which issued nothing.
        (chained, of_impostor, Denial.OTHER_GRANTEE),
        (forged, of_office, Denial.UNAUTHENTICATED),
        (forged, of_impostor, Denial.UNAUTHENTICATED),
    ]
    for prover, given, denial in cases:
        decision = ask(people, prover=prover, given=given)
        assert decision.denial is denial, (given.grantee, denial)
    revoked = frozenset({of_all.id})
    assert ask(people, given=of_all, revoked=revoked).denial is Denial.REVOKED
    # Whom TLS has verified, and who issued that, without a possession.
    tls: dict[str, Any] = {"holder": "e-" + "0" * 32, "possession": None}
    known = frozenset({authority_of(office.certificate)})
    assert ask(people, given=of_office, authorities=known, **tls).allowed
    assert ask(people, given=of_office, **tls).denial is Denial.OTHER_GRANTEE


def test_who_certified_what_is_shown_alone(people: Parties) -> None:
    verifier, authority = people.verifier(), people.entity_authority
    shown = people.consumer.certificate.public_bytes(Encoding.DER)
    assert verifier.authorities_of(shown, now=NOW) == {authority_of(authority.certificate)}
    stranger = root(authority.certificate.subject.rfc4514_string(), rsa_key("others"))
    own = stranger.issue("c", people.consumer.key).public_bytes(Encoding.DER)
    for other in (own, b"spoilt", people.node.certificate.public_bytes(Encoding.DER)):
        assert verifier.authorities_of(other, now=NOW) == frozenset()
