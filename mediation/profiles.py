"""Peculiarities of peers: one readable table of who does what, and what is done about it.

A peculiarity is recognised in what a peer sends, by its Subscribe, or named by an operator: for a
consumer (``profile`` of ``consumers`` in the settings) or for a producer (``profile`` of a source).
The data of the rows is read by the rooms above, which know no peers.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from filters import Topic, dialects, parse_clark
from filters.topics import IHE
from mediation import names
from mediation.model.messages import Packaging, Subscription
from mediation.model.versions import Soap, Version, Wsa

_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Sending:
    """What is done for a consumer of which only an operator knows. None is as for everybody.

    Attributes:
        http: The version of HTTP that is spoken to it.
        attachments: The packaging in which attachments go to it.
    """

    http: str | None = None
    attachments: Packaging | None = None


@dataclass(frozen=True, slots=True)
class Producer:
    """How a producer is asked, at which the gateway subscribes.

    Attributes:
        text: The help of `dragoman sources add` for it.
        soap: The version of SOAP; None: the one that clients of the specification speak.
        addressing: Whether requests have headers of WS-Addressing.
        pauses: Whether its subscriptions can be paused.
        checks: Whether its subscriptions can be asked how they are, otherwise than by Renew.
        wsa: The version of WS-Addressing; None: the one that clients of the specification speak.
        version: The only specification that it goes with; None: any.
        management: Whether it is a service of WS-Management, with resources, delivery modes,
            heartbeats and bookmarks.
        device: Whether it is a device of ONVIF: at its URL is the device service, which says where
            the event service is; its addresses may have hosts that lead nowhere.
        username_token: Whether it wants a user and a password in each message (WS-Security), as of
            its own clock; others are told them in HTTP, as they ask for them.
        lease: Seconds to ask for where nobody says how long.
    """

    text: str
    soap: Soap | None = None
    addressing: bool = True
    pauses: bool = True
    checks: bool = True
    wsa: Wsa | None = None
    version: Version | None = None
    management: bool = False
    device: bool = False
    username_token: bool = False
    lease: float = 3600.0


@dataclass(frozen=True, slots=True)
class Sign:
    """What a publisher's content has where nobody says that it is on *topic*.

    Attributes:
        content: The expanded name of the content's root.
        element: That of an element anywhere in it.
        attribute: An attribute of that element with its value; None where the element is enough.
    """

    topic: Topic
    content: str
    element: str
    attribute: tuple[str, str] | None = None


_DOCUMENTS = parse_clark(f"{{{IHE}}}FullDocumentEntry")
_SUBMISSION_SETS = parse_clark(f"{{{IHE}}}SubmissionSetMetadata")
_FOLDERS = parse_clark(f"{{{IHE}}}FolderMetadata")
_METADATA = f"{{{names.LCM}}}SubmitObjectsRequest"
_CLASSIFICATION = f"{{{names.RIM}}}Classification"
_SUBMISSION_SET = ("classificationNode", names.SUBMISSION_SET)
_FOLDER = ("classificationNode", "urn:uuid:d9d542f3-6cc4-48b6-8870-ea235fbc94c2")
"""What a ``rim:RegistryPackage`` is, by the node of its classification (IHE ITI TF-3)."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One peculiarity.

    Attributes:
        does: What the peers do.
        done: What is done about it.
        case: Where it can be seen in public: a repository with its path, or a document.
        namespaces: Namespaces as they write them, and those that they mean.
        addresses: Namespaces in which they write the ``Address`` of an endpoint reference.
        anonymous: Addresses that they write for the anonymous one.
        identifiers: Local names of the header blocks by which they name a subscription.
        topics: Namespaces of the header block ``Topic`` by which they name the topic of an event.
        actions: Actions as they write them, and those that they mean.
        dialects: Topic dialects as they write them, and those that they mean.
        prefixes: Prefixes of topics that they do not declare, and their namespaces.
        signs: Topics that they do not say, and what they publish on them.
        mended: Header blocks and contents of bodies, by their expanded names, in whose messages
            each character that XML forbids is read as U+FFFD.
        fits: Whether a subscription was made so; None where that is not what tells.
        sending: For a consumer that an operator gives this profile.
        producer: For a source that an operator gives this profile.
    """

    name: str
    peers: str
    does: str
    done: str
    case: str
    namespaces: Mapping[str, str] = field(default_factory=lambda: _NONE)
    addresses: frozenset[str] = frozenset()
    anonymous: frozenset[str] = frozenset()
    identifiers: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()
    actions: Mapping[str, str] = field(default_factory=lambda: _NONE)
    dialects: Mapping[str, str] = field(default_factory=lambda: _NONE)
    prefixes: Mapping[str, str] = field(default_factory=lambda: _NONE)
    signs: tuple[Sign, ...] = ()
    mended: frozenset[str] = frozenset()
    fits: Callable[[Subscription], bool] | None = None
    sending: Sending | None = None
    producer: Producer | None = None

    @property
    def how(self) -> str:
        """How it is found."""
        if self.sending is not None or self.producer is not None:
            return "set"
        return "by the message" if self.fits is None else "by its Subscribe"


def is_messenger(dialect: str | None) -> bool:
    """Whether a subscriber is one of WS-Messenger's clients, by its Subscribe: with topics in their
    dialect, as which an expiration in milliseconds counts, too, and EventingService as the address,
    where no other dialect is used."""
    return dialect == dialects.TOPIC_IBM_SIMPLE


_ROWS = (
    Profile(
        "ws-messenger",
        "WS-Messenger's clients (Apache Airavata 0.11)",
        "count a lease in milliseconds, take only a `wse:Identifier` out of an endpoint reference, "
        "look for the topic in a header block of IBM's namespace",
        "their lease is read so; they get what they look for; a publisher's own topic element goes "
        "to them as it came",
        "apache/airavata, modules/ws-messenger: BrokerWSETest.java",
        identifiers=frozenset({"Identifier"}),
        topics=frozenset({names.WSN_IBM}),
        dialects={
            dialects.TOPIC_IBM_SIMPLE.replace("WS-Topics", "WSTopics"): dialects.TOPIC_IBM_SIMPLE
        },
        fits=lambda one: isinstance(one.spec.form, Soap) and is_messenger(one.policy.dialect),
    ),
    Profile(
        "mixed-addressing",
        "Axis2 Savan (Java and C), Apache Synapse, WSO2 ESB",
        "send headers of WS-Addressing 1.0 and endpoint references of 2004/08",
        "each reference is read in the version of its own address; what they get has both, each "
        "where they had it; not at WS-Messenger's addresses, where the headers count",
        "apache/axis-axis2-c-savan, src/subs_mgrs/registry/test; "
        "apache/synapse, EventSubscriber.java",
        topics=frozenset({names.SYNAPSE_TOPIC}),
        fits=lambda one: one.spec.wsa is not None and one.spec.wsa is not one.consumer.wsa,
    ),
    Profile(
        "onvif-dialect",
        "Home Assistant's reolink",
        "takes a notification only if its topic is in ONVIF's dialect ConcreteSet",
        "topics are written in the dialect of the subscription; pull points of ONVIF have this one",
        "starkillerOG/reolink_aio, templates",
        dialects={
            "http://docs.oasis-open.org/wsnt/t-1/TopicExpression/ConcreteSet": (
                dialects.TOPIC_CONCRETE_SET
            )
        },
        fits=lambda one: one.policy.dialect == dialects.TOPIC_CONCRETE_SET,
    ),
    Profile(
        "absolute-times",
        "Apache Synapse, Globus Toolkit 4, python-onvif-zeep",
        "ask for a lease until a time, and read no durations",
        "who asks with a time is answered with times",
        "apache/synapse, modules/core/src/test: org.apache.synapse.eventing",
        fits=lambda one: not one.lease.as_duration and one.lease.expires is not None,
    ),
    Profile(
        "no-addressing",
        "Apache CXF's WS-Notification (Red Hat A-MQ), ServiceMix",
        "send no addressing headers, and address a subscription by its URL alone",
        "the address of each manager names its subscription; what they get has headers, in the "
        "version of the consumer reference",
        "apache/cxf, services/wsn: WsnBrokerTest.java",
        fits=lambda one: one.spec.wsa is None and isinstance(one.spec.form, Soap),
    ),
    Profile(
        "no-dialect",
        "Apache CXF, Red Hat A-MQ, ServiceMix",
        "send topics without a `Dialect`, which the schema wants",
        "such a topic is in the dialect Simple",
        "apache/cxf, services/wsn: WsnBrokerTest.testBroker",
    ),
    Profile(
        "misspelt-dialect",
        "tukdsub, 52°North SES, ServiceMix, WS-Messenger",
        "write `Dialect` in lower case or with a namespace, or a URI that no dialect has",
        "any attribute of that name counts, and spellings are known",
        "52North/SES, 52n-ses-core: examples; ipthomas/tukdsub",
        dialects={
            "http://docs.oasis-open.org/wsn/t1/TopicExpression/Simple": dialects.TOPIC_SIMPLE
        },
    ),
    Profile(
        "wrong-namespace",
        "openHAB's ipcamera",
        "writes WS-Notification's namespace with a slash at its end, and addresses in it",
        "both mean the same, in children, too",
        "openhab/openhab-addons, org.openhab.binding.ipcamera: OnvifConnection.java",
        namespaces={names.WSN_1_3_SLASH: names.WSN_1_3},
        addresses=frozenset({names.WSN_1_3, names.WSN_1_3_SLASH}),
        topics=frozenset({names.WSN_1_3_SLASH}),
    ),
    Profile(
        "address-of-base-faults",
        "ServiceMix",
        "writes the address of a reference in the namespace of WS-BaseFaults",
        "it is read as one of WS-Addressing 1.0",
        "apache/servicemix-components, servicemix-wsn2005: WSN-Unsubsribe-Input.xml",
        addresses=frozenset({names.WSRF_BF}),
    ),
    Profile(
        "misspelt-anonymous",
        "Apache Muse, 52°North SES",
        "write the anonymous address of WS-Addressing 1.0 as if it were that of 2004/08",
        "it is anonymous",
        "52North/SES, 52n-ses-core: examples",
        anonymous=frozenset({names.WSA_ANONYMOUS_MISSPELT}),
    ),
    Profile(
        "body-reference",
        "ESnet OSCARS, ServiceMix",
        "name the subscription by a `SubscriptionReference` in the body",
        "it is looked for there, too",
        "gabriel-inf/oscars, wsnbroker",
        identifiers=frozenset({"subscriptionId"}),
    ),
    Profile(
        "to-alone",
        "Home Assistant's reolink, ServiceMix",
        "post every request to one URL, and name the subscription by `wsa:To`",
        "the address in `wsa:To` names it as the URL does",
        "starkillerOG/reolink_aio, templates",
    ),
    Profile(
        "bare-path",
        "sdc11073, and clients behind proxies",
        "write or post to the path of a manager's address alone",
        "a path names the subscription as the whole address does",
        "Draegerwerk/sdc11073, tests/test_soapclient.py",
    ),
    Profile(
        "header-names",
        "agsh/onvif, Apache CXF's WS-Eventing, Globus Toolkit 4, WS-Messenger's message box",
        "name the subscription by header blocks of their own",
        "blocks of these names are looked at, whatever their namespace",
        "agsh/onvif; apache/cxf, rt/ws/eventing: SubscriptionManagementTest.java",
        identifiers=frozenset({"SubscriptionId", "SubscriptionID", "SubscriptionKey", "MsgBoxId"}),
    ),
    Profile(
        "unqualified-attributes",
        "agsh/onvif, clients of ONVIF's cameras",
        "write `mustUnderstand` in no namespace",
        "it is not an attribute of SOAP, and asks for nothing",
        "agsh/onvif, lib/events.js: renew",
    ),
    Profile(
        "nested-reference",
        "Layer 7 API gateway",
        "puts an `EndpointReference` inside of the reference",
        "the inner one is read",
        "the Layer 7 gateway's package com.l7tech.server.wsdm",
    ),
    Profile(
        "padded-texts",
        "ServiceMix, PyWSD, Layer 7 API gateway, Windows Event Forwarding",
        "surround addresses, dialects, topics and identifiers by white space",
        "texts are read without it; message ids are echoed as they came",
        "apache/servicemix-components, servicemix-wsn2005 samples; roncapat/WSD-python, templates",
    ),
    Profile(
        "undeclared-prefix",
        "actors of IHE DSUB, cameras of ONVIF, WS-Nu",
        "do not declare the prefix of a topic",
        "prefixes that everybody knows have their namespace; topics go out with these prefixes",
        "IHE ITI Technical Framework, Document Metadata Subscription; tOgg1/WS-Nu, topic_*.xml",
        prefixes={prefix: namespace for namespace, prefix in names.PREFERRED_PREFIXES.items()},
    ),
    Profile(
        "action-of-management",
        "openwsman",
        "sends `wsman:Action` in the place of `wsa:Action`",
        "it counts where there is no other",
        "Openwsman/openwsman, tests/webinject/indication.xml",
    ),
    Profile(
        "misspelt-action",
        "openwsman",
        "writes `GetStaus`, and `wbmem` for `wbem`",
        "they mean what they should",
        "Openwsman/openwsman, its constants of actions",
        actions={
            f"{names.WSE_2004_08}/GetStaus": f"{names.WSE_2004_08}/GetStatus",
            f"{names.WSMAN_MISSPELT_ACTIONS}Ack": f"{names.WSMAN_ACTIONS}Ack",
            f"{names.WSMAN_MISSPELT_ACTIONS}Heartbeat": f"{names.WSMAN_ACTIONS}Heartbeat",
            f"{names.WSMAN_MISSPELT_ACTIONS}Events": f"{names.WSMAN_ACTIONS}Events",
        },
    ),
    Profile(
        "forbidden-characters",
        "Windows Event Forwarding",
        "sends events with characters that XML forbids, such as U+0001",
        "in deliveries of WS-Management, and in no other message, each of them is read as U+FFFD",
        "elastic/beats, winlogbeat/sys/winevent/event_test.go",
        mended=frozenset({f"{{{names.WSMAN}}}Events", f"{{{names.WSMAN}}}AckRequested"}),
    ),
    Profile(
        "answered-publications",
        "WS-Messenger's clients (Apache Airavata 0.11)",
        "wait for an envelope in answer to what they publish, and throw at 202",
        "what they publish is answered with one",
        "apache/airavata, modules/ws-messenger: WseMsgBrokerClient",
    ),
    Profile(
        "blank-is-content",
        "Apache CXF, SDCri, .NET Micro Framework",
        "take white space inside of `Delivery` for content",
        "there is none in what is written",
        "apache/cxf, rt/ws/eventing: SubscriptionManagementTest.java",
    ),
    Profile(
        "no-zone",
        "WS-Nu, cameras of ONVIF",
        "write times without a zone",
        "they are UTC",
        "okse-2/okse, test-scripts/bullrider.py",
    ),
    Profile(
        "topic-union",
        "ESnet OSCARS",
        "publishes on a union of topics, which no event has",
        "there is an event on each",
        "gabriel-inf/oscars, wsnbroker",
    ),
    Profile(
        "unsaid-topic",
        "publishers of IHE DSUB",
        "send a `Notify` with metadata of documents and no `Topic`",
        "there is an event on each topic that the metadata is about: documents, submission sets, "
        "folders",
        "IHE ITI Technical Framework, Document Metadata Publish (ITI-54)",
        signs=(
            Sign(_DOCUMENTS, _METADATA, f"{{{names.RIM}}}ExtrinsicObject"),
            Sign(_SUBMISSION_SETS, _METADATA, _CLASSIFICATION, _SUBMISSION_SET),
            Sign(_FOLDERS, _METADATA, _CLASSIFICATION, _FOLDER),
        ),
    ),
    Profile(
        "http-1.0",
        "consumers behind servers that know HTTP/1.0 alone",
        "close the connection, or wait for its end, where HTTP/1.1 is spoken",
        "requests are HTTP/1.0; a connection is kept where the consumer says so",
        "RFC 1945",
        sending=Sending(http="1.0"),
    ),
    Profile(
        "no-attachments",
        "consumers that subscribed from a program that reads attachments, and read none",
        "refuse a message in MIME or DIME",
        "the envelope alone is sent",
        "SOAP Messages with Attachments, W3C Note of 11 December 2000",
        sending=Sending(attachments=Packaging.NONE),
    ),
    Profile(
        "soap-1.1",
        "producers that know SOAP 1.1 alone",
        "read no request in SOAP 1.2",
        "they are asked in SOAP 1.1",
        "Simple Object Access Protocol (SOAP) 1.1, W3C Note of 8 May 2000",
        producer=Producer("as its specification says, in SOAP 1.1", soap=Soap.V1_1),
    ),
    Profile(
        "cxf",
        "Apache CXF's WS-Notification, Red Hat A-MQ",
        "read no addressing headers, and can neither be paused nor asked how a subscription is",
        "they are sent none, and asked by Renew alone",
        "apache/cxf, services/wsn: WsnBrokerTest.java",
        producer=Producer(
            "Apache CXF, Red Hat A-MQ, without addressing headers, pausing and asking",
            soap=Soap.V1_1,
            addressing=False,
            pauses=False,
            checks=False,
        ),
    ),
    Profile(
        "dpws",
        "devices of DPWS 1.1 and SDC",
        "speak WS-Eventing 2004/08 with WS-Addressing 1.0, and cannot be paused",
        "they are asked so",
        "Devices Profile for Web Services 1.1, OASIS Standard; Draegerwerk/sdc11073",
        producer=Producer(
            "devices of DPWS 1.1 and SDC, with WS-Addressing 1.0, for wse-2004-08",
            soap=Soap.V1_2,
            pauses=False,
            wsa=Wsa.V2005_08,
        ),
    ),
    Profile(
        "dpws-1.0",
        "devices of DPWS 1.0, as Windows has them (WSD)",
        "speak WS-Eventing 2004/08 with WS-Addressing of 2004/08 in SOAP 1.2, and cannot be paused",
        "they are asked so",
        "Devices Profile for Web Services, February 2006",
        producer=Producer(
            "devices of DPWS 1.0 (WSD), for wse-2004-08",
            soap=Soap.V1_2,
            pauses=False,
            wsa=Wsa.V2004_08,
        ),
    ),
    Profile(
        "wsman",
        "services of WS-Management",
        "have resources, delivery modes, heartbeats and bookmarks, and discourage GetStatus",
        "they are subscribed at with these; heartbeats say how a subscription is",
        "Web Services for Management, DMTF DSP0226",
        producer=Producer(
            "services of WS-Management, for wse-2004-08",
            soap=Soap.V1_2,
            pauses=False,
            checks=False,
            wsa=Wsa.V2004_08,
            version=Version.WSE_2004_08,
            management=True,
        ),
    ),
    Profile(
        "onvif",
        "cameras and other devices of ONVIF",
        "have a device service that says where the event service is, want a UsernameToken whose "
        "time is that of their own clock, write addresses with hosts that lead nowhere, and can "
        "neither be paused nor asked how a subscription is",
        "their clock and their services are asked first; they are spoken to at the host where the "
        "operator found them, and asked by Renew alone",
        "openvideolibs/python-onvif-zeep-async, onvif/client.py",
        producer=Producer(
            "cameras of ONVIF, at their device service, for wsn-1.3",
            soap=Soap.V1_2,
            pauses=False,
            checks=False,
            wsa=Wsa.V2005_08,
            version=Version.WSN_1_3,
            device=True,
            username_token=True,
            lease=600.0,
        ),
    ),
)

PROFILES: Mapping[str, Profile] = {row.name: row for row in _ROWS}
"""All rows, by name."""
SENDING: Mapping[str, Sending] = {row.name: row.sending for row in _ROWS if row.sending is not None}
"""The profiles that an operator can give to a consumer."""
PRODUCERS: Mapping[str, Producer] = {
    "standard": Producer("as its specification says"),
    **{row.name: row.producer for row in _ROWS if row.producer is not None},
}
"""The profiles that an operator can give to a source, and ``standard``, without a peculiarity."""

WSN_1_3_SPELLINGS = frozenset({names.WSN_1_3}).union(*(row.namespaces for row in _ROWS))
"""The namespace of WS-BaseNotification 1.3, in every spelling."""
TOPIC_HEADERS = frozenset({names.WSN_1_3, names.WSN_2004_06}).union(*(row.topics for row in _ROWS))
"""Namespaces of the header block ``Topic``, by which peers name the topic of a bare event."""
IDENTIFIERS = frozenset[str]().union(*(row.identifiers for row in _ROWS))
"""Local names of the header blocks by which peers name a subscription, or a message box; they
count as understood."""
ADDRESS_NAMESPACES = frozenset[str]().union(*(row.addresses for row in _ROWS))
"""Namespaces beside those of WS-Addressing in which peers write an address."""
ANONYMOUS = frozenset({*(wsa.anonymous for wsa in Wsa)}).union(*(row.anonymous for row in _ROWS))
"""The anonymous addresses, in every spelling."""
MENDED = frozenset[str]().union(*(row.mended for row in _ROWS))
"""Header blocks and contents of bodies by which the messages are known in which each character
that XML forbids is read as U+FFFD."""
_SIGNS = tuple(sign for row in _ROWS for sign in row.signs)
TOPIC_SIGNS: Mapping[str, tuple[Sign, ...]] = {
    content: tuple(sign for sign in _SIGNS if sign.content == content)
    for content in {sign.content for sign in _SIGNS}
}
"""The signs of topics that nobody says, by the expanded name of the content's root."""


def spellings_of(action: str) -> frozenset[str]:
    """*action* in every spelling."""
    spelled = (name for row in _ROWS for name, meant in row.actions.items() if meant == action)
    return frozenset({action, *spelled})


def profiles_of(subscription: Subscription) -> Iterator[str]:
    """The names of the profiles by which a subscription is served."""
    for row in _ROWS:
        if row.fits is not None and row.fits(subscription):
            yield row.name
