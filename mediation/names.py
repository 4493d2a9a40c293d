"""Every namespace and action URI of the wire, in one place. Versions sit side by side."""

from collections.abc import Mapping

from filters import KNOWN_PREFIXES, dialects

XML = "http://www.w3.org/XML/1998/namespace"
XSI = "http://www.w3.org/2001/XMLSchema-instance"
XSD = "http://www.w3.org/2001/XMLSchema"
WSSE = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd"
WSU = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-utility-1.0.xsd"
WSSE_1_1 = "http://docs.oasis-open.org/wss/oasis-wss-wssecurity-secext-1.1.xsd"
WSS_X509 = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-x509-token-profile-1.0#"
"""In front of the types of tokens and of key identifiers (X.509 Certificate Token Profile)."""
WSS_BASE_64 = (
    "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-soap-message-security-1.0#Base64Binary"
)
WSS_THUMBPRINT = "http://docs.oasis-open.org/wss/oasis-wss-soap-message-security-1.1#ThumbprintSHA1"

XOP = "http://www.w3.org/2004/08/xop/include"

SOAP_NEXT_1_1 = "http://schemas.xmlsoap.org/soap/actor/next"
SOAP_NEXT_1_2 = "http://www.w3.org/2003/05/soap-envelope/role/next"
SOAP_RECEIVER_1_2 = "http://www.w3.org/2003/05/soap-envelope/role/ultimateReceiver"

WSA_ANONYMOUS_MISSPELT = "http://www.w3.org/2005/08/addressing/role/anonymous"
"""The anonymous address of WS-Addressing 1.0 as Apache Muse writes it."""
WSA_NONE = "http://www.w3.org/2005/08/addressing/none"
WSA_SOAP_FAULT = "http://www.w3.org/2005/08/addressing/soap/fault"

WSA_DRAFTS = frozenset(
    f"http://www.w3.org/{month}/addressing" for month in ("2004/12", "2005/02", "2005/03")
)
"""Drafts between 2004/08 and 1.0. No peer is known to speak one, and none is guessed at."""

WSE_2011_03 = "http://www.w3.org/2011/03/ws-evt"
WSE_2011_03_UNWRAP = WSE_2011_03 + "/DeliveryFormats/Unwrap"
WSE_2011_03_WRAP = WSE_2011_03 + "/DeliveryFormats/Wrap"
WSE_2011_03_NOTIFY_ACTION = WSE_2011_03 + "/WrappedSinkPortType/NotifyEvent"
CXF_EVENTING = "http://client.eventing.ws.cxf.apache.org/"
"""The namespace of SubscriptionEnd of WS-Eventing 2011/03 as Apache CXF sends it."""
WSE_2004_01 = "http://schemas.xmlsoap.org/ws/2004/01/eventing"
WSE_2004_08 = "http://schemas.xmlsoap.org/ws/2004/08/eventing"
WSE_PUSH = WSE_2004_08 + "/DeliveryModes/Push"
WSE_NOTIFICATION = "http://org.apache.airavata/WseNotification"
"""The action of WS-Messenger's publications through WS-Eventing."""
MESSENGER_TOPICS = "http://tutorial.globus.org/auction"
"""The namespace that WS-Messenger declares for the prefix of a topic without one."""
WSE_FILTER_COMBINED = "http://docs.oasis-open.org/wsn"
"""WS-Messenger's filter dialect: a topic expression and a content expression as children."""

WSN_1_3 = "http://docs.oasis-open.org/wsn/b-2"
WSN_1_3_SLASH = WSN_1_3 + "/"
"""The namespace as openHAB writes it."""
WSN_1_3_FAULT_ACTION = "http://docs.oasis-open.org/wsn/fault"
WSN_1_3_ACTIONS = "http://docs.oasis-open.org/wsn/bw-2/"
WSN_BR_1_3 = "http://docs.oasis-open.org/wsn/br-2"
WSN_BR_1_3_ACTIONS = "http://docs.oasis-open.org/wsn/brw-2/"
WSTOP_1_3 = "http://docs.oasis-open.org/wsn/t-1"
WSN_2004_06 = "http://docs.oasis-open.org/wsn/2004/06/wsn-WS-BaseNotification-1.2-draft-01.xsd"
WSN_2004_06_ACTIONS = "http://docs.oasis-open.org/wsn/2004/06/wsn-WS-BaseNotification/"
"""The beginning of actions as the WSDL of Globus Toolkit 4 has them."""
WSN_2004_06_ACTIONS_SHORT = "http://docs.oasis-open.org/wsn/2004/06/WS-BaseNotification/"
"""The same as ServiceMix writes it."""
WSN_BR_2004_06 = (
    "http://docs.oasis-open.org/wsn/2004/06/wsn-WS-BrokeredNotification-1.2-draft-01.xsd"
)
_STDWIP = "http://www.ibm.com/xmlns/stdwip/web-services/"
WSN_IBM = f"{_STDWIP}WS-BaseNotification"
WSN_BR_IBM = f"{_STDWIP}WS-BrokeredNotification"
GLOBUS_CORE = "http://www.globus.org/namespaces/2004/06/core"
"""The namespace of the keys of resources in Globus Toolkit 4."""
MESSENGER_TEXT = "http://org.apache.airavata/ws-messenger/wsmg/2011"
"""The namespace of the element in which WS-Messenger wraps plain text."""
SYNAPSE_TOPIC = "http://apache.org/aip"
ONVIF_EVENTS = "http://www.onvif.org/ver10/events/wsdl"
ONVIF_DEVICE = "http://www.onvif.org/ver10/device/wsdl"
ONVIF_TOPICS = "http://www.onvif.org/ver10/topics"
ONVIF_SCHEMA = "http://www.onvif.org/ver10/schema"
ONVIF_ERRORS = "http://www.onvif.org/ver10/error"

GRID_EVENTS = "urn:dragoman:grid-events:1"
"""Grid SOAP Events as far as it is ours: the header block ``via``, the details of faults."""
GRID_EVENT = "http://www.extreme.indiana.edu/soap/events"
"""The types of Grid SOAP Events; the paper's figures end it in a slash, too."""
GRID_RESOURCE_EVENT = GRID_EVENT + "/resdat/"
SOAPRMI_TYPES = "urn:soaprmi-v11:temp-java-xml-type"
"""Types of SoapRMI whose local names are names of Java's classes."""
SOAPRMI_PORT_TYPES = "urn:soaprmi-v11:temp-java-port-type"
SOAP_ENCODING_1_1 = "http://schemas.xmlsoap.org/soap/encoding/"
XSD_1999 = "http://www.w3.org/1999/XMLSchema"
XSI_1999 = XSD_1999 + "-instance"
XSD_2000_10 = "http://www.w3.org/2000/10/XMLSchema"
XSI_2000_10 = XSD_2000_10 + "-instance"

MESSAGE_BOX_2011 = "http://org.apache.airavata/ws-messenger/msgbox/2011"
"""WS-Messenger's message box: its requests; its answers end in a slash."""
MESSAGE_BOX_2011_SLASH = MESSAGE_BOX_2011 + "/"
MESSAGE_BOX_2004 = "http://www.extreme.indiana.edu/xgws/msgbox/2004/"
"""The message box of XSUL."""
WSRM_1_0 = "http://schemas.xmlsoap.org/ws/2005/02/rm"
WSRM_1_0_POLICY = WSRM_1_0 + "/policy"
WSRM_1_1 = "http://docs.oasis-open.org/ws-rx/wsrm/200702"
"""WS-ReliableMessaging 1.1 and 1.2, which has the same namespace."""
SECURITY_POLICY = "http://docs.oasis-open.org/ws-sx/ws-securitypolicy/200702"
WSRM_1_1_POLICY = "http://docs.oasis-open.org/ws-rx/wsrmp/200702"
NETRM = "http://schemas.microsoft.com/ws/2006/05/rm"
"""The namespace of what WCF adds to WS-ReliableMessaging: flow control, further subcodes."""
MAKE_CONNECTION_1_1 = "http://docs.oasis-open.org/ws-rx/wsmc/200702"
MAKE_CONNECTION_ANONYMOUS = MAKE_CONNECTION_1_1 + "/anonymous?id="
"""The beginning of the address of a consumer that fetches its messages."""

WSRF_BF = "http://docs.oasis-open.org/wsrf/bf-2"
WSRF_R = "http://docs.oasis-open.org/wsrf/r-2"
WSRF_RP = "http://docs.oasis-open.org/wsrf/rp-2"
WSRF_RL = "http://docs.oasis-open.org/wsrf/rl-2"
RESOURCE_LIFETIMES = frozenset(
    {
        WSRF_RL,
        "http://docs.oasis-open.org/wsrf/2004/06/wsrf-WS-ResourceLifetime-1.2-draft-01.xsd",
        "http://www.ibm.com/xmlns/stdwip/web-services/WS-ResourceLifetime",
    }
)
"""The namespaces of WS-ResourceLifetime, in all its versions."""
WSRF_FAULT_ACTION = "http://docs.oasis-open.org/wsrf/fault"
WSRF_RP_ACTIONS = "http://docs.oasis-open.org/wsrf/rpw-2/"
WSRF_RL_ACTIONS = "http://docs.oasis-open.org/wsrf/rlw-2/"

WSRF_BF_2004_06 = "http://docs.oasis-open.org/wsrf/2004/06/wsrf-WS-BaseFaults-1.2-draft-01.xsd"
WSRF_RP_2004_06 = (
    "http://docs.oasis-open.org/wsrf/2004/06/wsrf-WS-ResourceProperties-1.2-draft-01.xsd"
)
WSRF_RP_2004_06_ACTIONS = "http://docs.oasis-open.org/wsrf/2004/06/wsrf-WS-ResourceProperties/"
WSRF_RL_2004_06 = (
    "http://docs.oasis-open.org/wsrf/2004/06/wsrf-WS-ResourceLifetime-1.2-draft-01.xsd"
)
WSRF_RL_2004_06_ACTIONS = "http://docs.oasis-open.org/wsrf/2004/06/wsrf-WS-ResourceLifetime/"
WSRF_BF_IBM = f"{_STDWIP}WS-BaseFaults"
WSRF_RP_IBM = f"{_STDWIP}WS-ResourceProperties"
WSRF_RL_IBM = f"{_STDWIP}WS-ResourceLifetime"

DRAGOMAN_SYSTEM = "urn:dragoman:system:1"
"""Topics of events of the gateway itself, and their payloads."""
DRAGOMAN_MANAGEMENT = "urn:dragoman:management:1"
"""Dragoman's own requests to list and delete subscriptions."""

WSMAN = "http://schemas.dmtf.org/wbem/wsman/1/wsman.xsd"
WSMAN_ACTIONS = "http://schemas.dmtf.org/wbem/wsman/1/wsman/"
WSMAN_FAULT_ACTION = WSMAN_ACTIONS + "fault"
WSMAN_FAULT_DETAIL = WSMAN_ACTIONS + "faultDetail/"
WSMAN_PUSH_WITH_ACK = WSMAN_ACTIONS + "PushWithAck"
WSMAN_EVENTS = WSMAN_ACTIONS + "Events"
"""The delivery mode of batches, and the action of one."""
WSMAN_PULL = WSMAN_ACTIONS + "Pull"
WSMAN_EVENT = WSMAN_ACTIONS + "Event"
"""The action of an event that has none of its own."""
WSMAN_HEARTBEAT = WSMAN_ACTIONS + "Heartbeat"
WSMAN_DROPPED_EVENTS = WSMAN_ACTIONS + "DroppedEvents"
WSMAN_ACK = WSMAN_ACTIONS + "Ack"
WSMAN_MISSPELT_ACTIONS = "http://schemas.xmlsoap.org/wbmem/wsman/1/wsman/"
"""The beginning of openwsman's constants for the actions Ack, Events and Heartbeat."""
WSMAN_EARLIEST = WSMAN_ACTIONS + "bookmark/earliest"
WSMAN_MICROSOFT = "http://schemas.microsoft.com/wbem/wsman/1/wsman.xsd"
WSMAN_MACHINE_ID = "http://schemas.microsoft.com/wbem/wsman/1/machineid"
"""Namespaces of further header blocks of WinRM, which say nothing that is needed here."""
WINDOWS_EVENTS = "http://schemas.microsoft.com/win/2004/08/events/event"
WSEN = "http://schemas.xmlsoap.org/ws/2004/09/enumeration"
WSMAN_IDENTITY = "http://schemas.dmtf.org/wbem/wsman/identity/1/wsmanidentity.xsd"

MEX_2004_09 = "http://schemas.xmlsoap.org/ws/2004/09/mex"
MEX_2011_03 = "http://www.w3.org/2011/03/ws-mex"
TRANSFER_2004_09 = "http://schemas.xmlsoap.org/ws/2004/09/transfer"
POLICY_1_5 = "http://www.w3.org/ns/ws-policy"
POLICY_2004_09 = "http://schemas.xmlsoap.org/ws/2004/09/policy"
DPWS_1_0 = "http://schemas.xmlsoap.org/ws/2006/02/devprof"
DPWS_1_1 = "http://docs.oasis-open.org/ws-dd/ns/dpws/2009/01"
EVENT_DESCRIPTIONS = "http://www.w3.org/2011/03/ws-evd"

TDN = "urn:dragoman:tdn:1"
"""Topic discovery: its messages, and the topics that it runs over."""
DSIG = "http://www.w3.org/2000/09/xmldsig#"
DSIG_ENVELOPED = DSIG + "enveloped-signature"
DSIG_RSA_SHA256 = "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256"
DSIG_ECDSA_SHA256 = "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha256"
DSIG_MORE = "http://www.w3.org/2001/04/xmldsig-more#"
EXCLUSIVE_C14N = "http://www.w3.org/2001/10/xml-exc-c14n#"
XENC = "http://www.w3.org/2001/04/xmlenc#"
XENC_ELEMENT = XENC + "Element"
XENC_CONTENT = XENC + "Content"
XENC_RSA_OAEP_MGF1P = XENC + "rsa-oaep-mgf1p"
XENC_SHA256 = XENC + "sha256"
XENC_1_1 = "http://www.w3.org/2009/xmlenc11#"
XENC_AES256_GCM = XENC_1_1 + "aes256-gcm"
XENC_RSA_OAEP = XENC_1_1 + "rsa-oaep"
XENC_MGF1_SHA256 = XENC_1_1 + "mgf1sha256"

WSAM = "http://www.w3.org/2007/05/addressing/metadata"
WSA_FAULT_2004_08 = "http://schemas.xmlsoap.org/ws/2004/08/addressing/fault"
WSDL = "http://schemas.xmlsoap.org/wsdl/"
WSDL_SOAP_1_1 = WSDL + "soap/"
WSDL_SOAP_1_2 = WSDL + "soap12/"
WSDL_HTTP = "http://schemas.xmlsoap.org/soap/http"
"""The transport of SOAP over HTTP, in bindings of both versions."""

DRAGOMAN_REFERENCE = "urn:dragoman:reference:1"
"""The namespace of the reference parameter that names one of our resources."""
PUBLISHER = "urn:dragoman:publisher:"
"""In front of the network address that scopes the ids of a publisher who has no other name; it is
never told to consumers."""
BROKER_USER = PUBLISHER + "broker:"
"""In front of the name of a broker's user, who published a native message: the broker has said so.
"""
DRAGOMAN_AGREEMENT = "urn:dragoman:agreement:1"
"""The question whether a consumer agrees to get notifications."""
EVENT_SIGNATURE = "eventsignature"
"""The property of an event with its publisher's signature, at brokers and in the header block of
properties; the extension attribute of a CloudEvent."""
EBBP_SIGNALS = "http://docs.oasis-open.org/ebxml-bp/ebbp-signals-2.0"
"""The namespace of the header block of a receipt, with the digest of what was received."""
DRAGOMAN_RECEIPT = "urn:dragoman:receipt:1"
"""The action of a message that only says, signed, what was received."""
DRAGOMAN_POLICY = "urn:dragoman:policy:1"
"""The identifier of the policy of the endpoint, and the namespace of ``Assurance``, by which a
subscriber says how often it wants to get an event, and of the header block ``Expires``, by which a
publisher says when one's life is over."""
LCM = "urn:oasis:names:tc:ebxml-regrep:xsd:lcm:3.0"
"""Requests to registries, in which IHE's actors publish metadata of documents;"""
RIM = dialects.EBRIM_QUERY
"""and the information model of registries (ebRIM 3.0)."""
SUBMISSION_SET = "urn:uuid:a54d6aa5-d40d-43f9-88c5-b4633d873bdd"
"""The node that classifies a package of a registry as a submission set (IHE ITI TF-3)."""
DRAGOMAN_EVENTS = "urn:dragoman:events:1"
"""The target namespace of the descriptions of events."""
DRAGOMAN_DATA = "urn:dragoman:data:1"
"""The namespace of the element that wraps content which is not one XML element."""

_ONVIF_SERVICES = {
    "ver10/media": "media",
    "ver20/media": "media",
    "ver20/ptz": "PTZ",
    "ver20/imaging": "imaging",
    "ver20/analytics": "analytics",
    "ver10/deviceIO": "device I/O",
    "ver10/recording": "recording",
    "ver10/search": "recording search",
    "ver10/replay": "replay",
    "ver10/receiver": "receiver",
    "ver10/display": "display",
    "ver10/accesscontrol": "access control",
    "ver10/doorcontrol": "door control",
    "ver10/network": "discovery",
}

KNOWN_ELSEWHERE: Mapping[str, str] = {
    WSE_2004_01: "WS-Eventing 2004/01",
    "http://www.w3.org/2009/09/ws-evt": "WS-Eventing 2009/09",
    "http://www.w3.org/2010/08/ws-evt": "WS-Eventing 2010/08",
    WSMAN: "WS-Management",
    "http://schemas.xmlsoap.org/ws/2005/06/management": "WS-Management, draft of 2005/06",
    TRANSFER_2004_09: "WS-Transfer",
    "http://www.w3.org/2011/03/ws-tra": "WS-Transfer 2011/03",
    "http://schemas.xmlsoap.org/ws/2004/09/enumeration": "WS-Enumeration",
    "http://schemas.xmlsoap.org/ws/2005/04/discovery": "WS-Discovery 2005/04",
    "http://docs.oasis-open.org/ws-dd/ns/discovery/2009/01": "WS-Discovery 1.1",
    **{
        f"http://www.onvif.org/{path}/wsdl": f"ONVIF's {service} service"
        for path, service in _ONVIF_SERVICES.items()
    },
}
"""Specifications that are recognised, by namespace: never taken for events. Where `SPECIFICATIONS`
does not have the element, a refusal names the specification."""

PREFERRED_PREFIXES: Mapping[str, str] = {
    namespace: prefix for prefix, namespace in KNOWN_PREFIXES.items()
}
"""Prefixes that peers look for in the text of a topic, against the rules of namespaces."""
