"""Document Metadata Subscription of IHE (ITI-52, -53, -54, -69, -70), in messages like those of its
actors: SOAP 1.2, WS-Addressing 1.0 that must be understood, ``ihe:`` mostly undeclared."""

import json
from pathlib import Path

import pytest
from lxml import etree

from tests.rigs.consumers import Consumers, accept, status
from tests.rigs.document_metadata import (
    ANY_DOCUMENTS,
    FOLDER,
    FULL,
    MINIMAL,
    PATIENT_DOCUMENTS,
    RIM,
    SUBMISSION_SET,
    RegistryObject,
    adhoc_query,
    document,
    submission,
)
from tests.rigs.envelopes import BW, RP, WSNT, Answer, R, canonical, fresh_id
from tests.rigs.gateways import Running, manager_path, running
from tests.rigs.mediation import stored

pytestmark = pytest.mark.asyncio(loop_scope="module")

S12 = "http://www.w3.org/2003/05/soap-envelope"
WSA = "http://www.w3.org/2005/08/addressing"
P1, P2 = "P1^^^&1.2.3&ISO", "P2^^^&1.2.3&ISO"
EMPTY_ANSWER = f'<S:Envelope xmlns:S="{S12}"><S:Header/><S:Body/></S:Envelope>'.encode()
GATEWAY = {"retry_delays": (0.05,) * 10}
CLASSES = ("DocumentEntryClassCode", ["('history^^classes','summary^^classes')"])
HISTORY = {"classCode": [("history", "classes")]}


def of_patient(patient: str) -> tuple[str, list[str]]:
    return "DocumentEntryPatientId", [f"'{patient}'"]


def envelope(action: str, to: str, body: str) -> bytes:
    must = 's:mustUnderstand="true"'
    return (
        f'<s:Envelope xmlns:s="{S12}" xmlns:a="{WSA}"><s:Header>'
        f"<a:Action {must}>{action}</a:Action>"
        f"<a:MessageID {must}>{fresh_id().rpartition(':')[2]}</a:MessageID>"
        f"<a:ReplyTo {must}><a:Address>{WSA}/anonymous</a:Address></a:ReplyTo>"
        f"<a:To {must}>{to}</a:To></s:Header><s:Body>{body}</s:Body></s:Envelope>"
    ).encode()


async def subscribe(
    run: Running, url: str, query: str = "", topic: str = FULL, declared: str = ""
) -> Answer:
    """ITI-52, Subscribe."""
    body = (
        f'<n:Subscribe xmlns:n="{WSNT}"><n:ConsumerReference><a:Address>{url}</a:Address>'
        f"</n:ConsumerReference><n:Filter><n:TopicExpression{declared}"
        f' Dialect="http://docs.oasis-open.org/wsn/t-1/TopicExpression/Simple">{topic}'
        f"</n:TopicExpression>{query}</n:Filter></n:Subscribe>"
    )
    return await run.post(
        envelope(f"{BW}/NotificationProducer/SubscribeRequest", f"{run.url}/soap", body)
    )


async def publish(run: Running, *objects: RegistryObject, topic: str | None = FULL) -> None:
    """ITI-54, Publish."""
    said = (
        f'<n:Topic Dialect="http://docs.oasis-open.org/wsn/t-1/TopicExpression/Simple">{topic}'
        "</n:Topic>"
    )
    body = (
        f'<n:Notify xmlns:n="{WSNT}"><n:NotificationMessage>{said if topic else ""}'
        "<n:ProducerReference><a:Address>https://registry.example.org</a:Address>"
        f"</n:ProducerReference><n:Message>{submission(*objects)}</n:Message>"
        "</n:NotificationMessage></n:Notify>"
    )
    octets = envelope(f"{BW}/NotificationConsumer/Notify", f"{run.url}/soap", body)
    assert (await run.post(octets)).status == 202


def documents(payload: etree._Element) -> list[str]:
    return [str(each.get("id")) for each in payload.iter(f"{{{RIM}}}ExtrinsicObject")]


@pytest.mark.parametrize("declared", ["", ' xmlns:ihe="urn:ihe:iti:dsub:2009"'])
async def test_a_recipient_is_notified_of_documents_of_its_patient(
    gateway: Running, consumer: Consumers, declared: str
) -> None:
    """ITI-52, ITI-54, ITI-53. Recipients answer a notification with an empty envelope."""
    recipient = consumer.add(status(200, EMPTY_ANSWER, content_type="application/soap+xml"))
    query = adhoc_query(PATIENT_DOCUMENTS, of_patient(P1), CLASSES)
    answer = await subscribe(gateway, recipient.url, query, declared=declared)
    assert answer.status == 200, answer.body
    await publish(gateway, document(P2, HISTORY, id="d2"))
    await publish(gateway, document(P1, id="d3"))
    await publish(gateway, document(P1, HISTORY, id="d1"))
    receipt = await recipient.next()
    assert documents(receipt.payload) == ["d1"]
    assert receipt.headers["content-type"].startswith("application/soap+xml")
    message = receipt.message
    assert message.wsa("Action") == f"{BW}/NotificationConsumer/Notify"
    assert receipt.topic is not None and receipt.topic.text == FULL
    assert receipt.topic.nsmap["ihe"] == "urn:ihe:iti:dsub:2009"
    await gateway.quiet()
    assert recipient.count == 1, "an envelope as the answer is none to send again for"


async def test_forms_of_notification_are_topics(gateway: Running, consumer: Consumers) -> None:
    full, minimal = consumer.add(), consumer.add()
    query = adhoc_query(ANY_DOCUMENTS, CLASSES)
    for recipient, topic in ((full, FULL), (minimal, MINIMAL)):
        assert (await subscribe(gateway, recipient.url, query, topic)).status == 200
    await publish(gateway, document(P2, HISTORY, id="small"), topic=MINIMAL)
    await publish(gateway, document(P2, HISTORY, id="large"), topic=FULL)
    assert documents((await full.next()).payload) == ["large"]
    assert documents((await minimal.next()).payload) == ["small"]


async def test_metadata_tells_the_topics_that_its_publisher_does_not(
    gateway: Running, consumer: Consumers
) -> None:
    """ITI-54, with a producer and a message alone."""
    topics = {
        FULL: document(P1, id="d1"),
        "ihe:SubmissionSetMetadata": RegistryObject(
            "s1", {"setPatientId": P1}, element="RegistryPackage", node=SUBMISSION_SET
        ),
        "ihe:FolderMetadata": RegistryObject(
            "f1", {"folderPatientId": P1}, element="RegistryPackage", node=FOLDER
        ),
    }
    recipients = {topic: consumer.add() for topic in (*topics, MINIMAL)}
    for topic, recipient in recipients.items():
        assert (await subscribe(gateway, recipient.url, topic=topic)).status == 200
    await publish(gateway, *topics.values(), topic=None)
    for topic, recipient in recipients.items():
        receipt = await recipient.next()
        assert receipt.topic is not None and receipt.topic.text == topic
    await gateway.quiet()
    assert [recipient.count for recipient in recipients.values()] == [1, 1, 1, 1]


async def test_minimal_notifications_are_made_of_full_ones(
    gateway: Running, consumer: Consumers
) -> None:
    """ITI-53: the filter sees all of the metadata, the recipient a reference, on its topic; also
    once it waited in the store."""
    recipient = consumer.add(status(503))
    query = adhoc_query(PATIENT_DOCUMENTS, of_patient(P1), CLASSES)
    assert (await subscribe(gateway, recipient.url, query, MINIMAL)).status == 200
    await publish(gateway, document(P2, HISTORY, id="other"))
    await publish(gateway, document(P1, id="of another class"))
    await publish(gateway, document(P1, HISTORY, id="d1"))
    for _ in range(2):
        receipt = await recipient.next()
        recipient.behaviour = accept
        [objects] = receipt.payload
        assert [(one.tag, dict(one.attrib)) for one in objects] == [
            (f"{{{RIM}}}ObjectRef", {"id": "d1"})
        ]
        assert receipt.topic is not None and receipt.topic.text == MINIMAL
    await gateway.quiet()
    assert recipient.count == 2


async def test_unsubscribe_is_sent_to_the_broker(gateway: Running, consumer: Consumers) -> None:
    """ITI-52, Unsubscribe: the address of the subscription is in wsa:To only."""
    url = consumer.fresh()
    path = manager_path((await subscribe(gateway, url)).message)
    action = f"{BW}/SubscriptionManager/UnsubscribeRequest"
    body = f'<n:Unsubscribe xmlns:n="{WSNT}"/>'
    octets = envelope(action, f"{gateway.url}{path}", body)
    answer = await gateway.post(octets)
    assert answer.message.body[0].tag == f"{{{WSNT}}}UnsubscribeResponse"
    gone = await gateway.post(octets)
    assert gone.fault.element == f"{{{R}}}ResourceUnknownFault"


async def test_notifications_are_pulled(gateway: Running) -> None:
    """ITI-69, Create and Destroy Pull Point; ITI-52 with its address; ITI-54; ITI-70."""
    make = envelope(
        f"{BW}/CreatePullPoint/CreatePullPointRequest",
        f"{gateway.url}/soap",
        f'<n:CreatePullPoint xmlns:n="{WSNT}"/>',
    )
    made = (await gateway.post(make)).message
    address = made.text(f"{{{WSNT}}}CreatePullPointResponse/{{{WSNT}}}PullPoint/{{{WSA}}}Address")
    query = adhoc_query(PATIENT_DOCUMENTS, of_patient(P1))
    assert (await subscribe(gateway, address, query)).status == 200
    await publish(gateway, document(P2, id="d2"))
    await publish(gateway, document(P1, id="d1"))
    await gateway.quiet()
    body = f'<n:GetMessages xmlns:n="{WSNT}"><n:MaximumNumber>9</n:MaximumNumber></n:GetMessages>'
    pull = envelope(f"{BW}/PullPoint/GetMessagesRequest", address, body)
    [response] = (await gateway.post(pull, address.removeprefix(gateway.url))).message.body
    assert [each.tag for each in response] == [f"{{{WSNT}}}NotificationMessage"]
    assert documents(response) == ["d1"]
    body = f'<n:DestroyPullPoint xmlns:n="{WSNT}"/>'
    destroy = envelope(f"{BW}/PullPoint/DestroyPullPointRequest", address, body)
    assert (await gateway.post(destroy)).status == 200


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (adhoc_query("urn:uuid:f26abbcb-ac74-4422-8a30-edb644bbc1a9"), "subscriptions"),
        (
            adhoc_query(PATIENT_DOCUMENTS, of_patient(P1), ("Color", ["'red'"])),
            "is not a parameter",
        ),
        (adhoc_query(PATIENT_DOCUMENTS, CLASSES), "$XDSDocumentEntryPatientId"),
    ],
)
async def test_a_query_that_is_not_offered(gateway: Running, query: str, said: str) -> None:
    refused = (await subscribe(gateway, "http://recipient.example.org/", query)).fault
    assert refused.element == f"{{{WSNT}}}InvalidFilterFault"
    assert said in refused.text
    assert refused.detail is not None
    [unknown] = refused.detail.iter(f"{{{WSNT}}}UnknownFilter")
    prefix, _, name = str(unknown.text).partition(":")
    assert (unknown.nsmap[prefix], name) == (RIM, "AdhocQuery")


async def test_a_query_outlives_the_gateway(tmp_path: Path, consumer: Consumers) -> None:
    """It is told as it was written, in resource properties and to operators, and still filters."""
    query = adhoc_query(PATIENT_DOCUMENTS, of_patient(P1), CLASSES)
    recipient = consumer.add()
    async with running(tmp_path, adapter="embedded:") as run:
        path = manager_path((await subscribe(run, recipient.url, query)).message)
    async with running(tmp_path, adapter="embedded:") as run:
        await publish(run, document(P2, HISTORY, id="d2"))
        await publish(run, document(P1, HISTORY, id="d1"))
        assert documents((await recipient.next()).payload) == ["d1"]
        body = (
            f'<r:GetResourceProperty xmlns:r="{RP}" xmlns:n="{WSNT}">n:Filter'
            "</r:GetResourceProperty>"
        )
        action = "http://docs.oasis-open.org/wsrf/rpw-2/GetResourceProperty"
        octets = envelope(f"{action}/GetResourcePropertyRequest", run.url + path, body)
        [filters] = (await run.post(octets, path)).message.body[0]
        _, kept = filters
        assert canonical(kept) == canonical(etree.fromstring(query))
        listed = json.loads((await run.api("GET", "/subscriptions")).body)
        [view] = listed["subscriptions"]
        assert canonical(etree.fromstring(view["contents"][0])) == canonical(
            etree.fromstring(query)
        )
        asked = json.dumps({"payload": submission(document(P2, HISTORY)), "topic": FULL})
        path = f"/subscriptions/{view['id']}/explain"
        steps = json.loads((await run.api("POST", path, asked.encode())).body)
        [step] = [each for each in steps if each["name"] == "filter"]
        assert step["holds"] is False
        assert any("rim:ExternalIdentifier" in line for line in step["details"])


async def test_a_subscriber_of_record(gateway: Running, consumer: Consumers) -> None:
    url = consumer.fresh()
    octets = stored("ihe-dsub-wsn-1.3-subscribe").replace(
        b"http://recipient.example.org/notify", url.encode()
    )
    assert (await gateway.post(octets)).status == 200
    await publish(gateway, document(P1, id="d1"))
    assert documents((await consumer.next(url)).payload) == ["d1"]


async def test_the_subscriber_of_the_test_kit(
    gateway: Running, consumer: Consumers, shared: Path
) -> None:
    """With FindDocuments, codes without a scheme, and an end in 2010."""
    plan = shared / "specs/schemas/wsn/samples/ihe-dsub/testplan.xml"
    [subscribing] = etree.parse(plan).iter(f"{{{WSNT}}}Subscribe")
    url = consumer.fresh()
    for address in subscribing.iter(f"{{{WSA}}}Address"):
        address.text = url
    for end in subscribing.findall(f"{{{WSNT}}}InitialTerminationTime"):
        end.text = "PT1H"
    body = etree.tostring(subscribing, encoding="unicode", with_tail=False)
    action = f"{BW}/NotificationProducer/SubscribeRequest"
    assert (await gateway.post(envelope(action, f"{gateway.url}/soap", body))).status == 200
    codes = {"healthcareFacilityTypeCode": [("Emergency Department", "any")]}
    patient = "st3498702^^^&1.3.6.1.4.1.21367.2005.3.7&ISO"
    await publish(gateway, document(patient, id="d2"))
    await publish(gateway, document(patient, codes, id="d1"))
    assert documents((await consumer.next(url)).payload) == ["d1"]
