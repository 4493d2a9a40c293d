"""``dragoman topics advertise --answer``, at a gateway that is no node."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from mediation.discovery import Credentials, SignedTopicAdvertisement, read_as
from tests.rigs.discovery_entities import Speaker
from tests.rigs.discovery_keys import parties
from tests.rigs.discovery_topics import made_topic
from tests.rigs.programs import Program, RunningGateway, run


def folder_of(own: Credentials, folder: Path) -> Path:
    """A folder with what an entity has, and believes."""
    folder.mkdir()
    key = own.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    files = {
        "nodes": parties().node_authority.certificate,
        "entities": parties().entity_authority.certificate,
        "entity": own.certificate,
    }
    for name, certificate in files.items():
        (folder / f"{name}.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
    (folder / "entity.key").write_bytes(key)
    return folder


@pytest.mark.slow
def test_a_creator_that_stays_answers(tmp_path: Path) -> None:
    owner = folder_of(parties().producer, tmp_path / "owner")
    seeker = folder_of(parties().consumer, tmp_path / "seeker")
    topic = read_as(SignedTopicAdvertisement, made_topic(Speaker(parties().producer))).value
    (owner / "tide.xml").write_bytes(topic.advertisement)
    with RunningGateway(cwd=tmp_path) as gateway:
        staying = ("topics", "advertise", "tide.xml", "--answer", "--wait", "0.1")
        with Program(*staying, cwd=owner, DRAGOMAN_GATEWAY=gateway.url) as creator:
            creator.wait_for("Ctrl-C ends", lines=creator.err)
            asked = run(
                *("topics", "discover", "north mole", "--most", "1"),
                cwd=seeker,
                DRAGOMAN_GATEWAY=gateway.url,
            )
            assert asked.stderr == ""
            assert f"answered by  {parties().producer_id}" in asked.stdout
            assert str(topic.topic_id) in asked.stdout
            assert creator.stop() == 0
