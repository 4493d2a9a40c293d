"""Every namespace and action URI of the wire, in one place. Versions sit side by side."""

XML = "http://www.w3.org/XML/1998/namespace"
XSI = "http://www.w3.org/2001/XMLSchema-instance"
XSD = "http://www.w3.org/2001/XMLSchema"
WSSE = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd"
WSU = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-utility-1.0.xsd"

XOP = "http://www.w3.org/2004/08/xop/include"

SOAP_NEXT_1_1 = "http://schemas.xmlsoap.org/soap/actor/next"
SOAP_NEXT_1_2 = "http://www.w3.org/2003/05/soap-envelope/role/next"
SOAP_RECEIVER_1_2 = "http://www.w3.org/2003/05/soap-envelope/role/ultimateReceiver"

WSA_ANONYMOUS_MISSPELT = "http://www.w3.org/2005/08/addressing/role/anonymous"
"""What Apache Muse writes for the anonymous address of WS-Addressing 1.0."""
WSA_NONE = "http://www.w3.org/2005/08/addressing/none"
WSA_SOAP_FAULT = "http://www.w3.org/2005/08/addressing/soap/fault"

WSA_DRAFTS = frozenset(
    f"http://www.w3.org/{month}/addressing" for month in ("2004/12", "2005/02", "2005/03")
)
"""Between 2004/08 and 1.0; nobody is known to speak one, and none is guessed at."""

WSE_2004_08 = "http://schemas.xmlsoap.org/ws/2004/08/eventing"
WSE_PUSH = WSE_2004_08 + "/DeliveryModes/Push"
WSE_ENDED_DELIVERY_FAILURE = WSE_2004_08 + "/DeliveryFailure"
WSE_ENDED_SHUTTING_DOWN = WSE_2004_08 + "/SourceShuttingDown"
WSE_ENDED_CANCELLING = WSE_2004_08 + "/SourceCancelling"
WSE_FILTER_COMBINED = "http://docs.oasis-open.org/wsn"
"""WS-Messenger's filter dialect: a topic expression and a content expression as children."""

WSN_1_3 = "http://docs.oasis-open.org/wsn/b-2"
WSN_1_3_SLASH = WSN_1_3 + "/"
"""What openHAB writes for it."""
WSN_1_3_FAULT_ACTION = "http://docs.oasis-open.org/wsn/fault"
WSN_1_3_ACTIONS = "http://docs.oasis-open.org/wsn/bw-2/"
WSN_BR_1_3 = "http://docs.oasis-open.org/wsn/br-2"
WSTOP_1_3 = "http://docs.oasis-open.org/wsn/t-1"
WSN_2004_06 = "http://docs.oasis-open.org/wsn/2004/06/wsn-WS-BaseNotification-1.2-draft-01.xsd"
WSN_IBM = "http://www.ibm.com/xmlns/stdwip/web-services/WS-BaseNotification"
SYNAPSE_TOPIC = "http://apache.org/aip"
ONVIF_EVENTS = "http://www.onvif.org/ver10/events/wsdl"
ONVIF_TOPICS = "http://www.onvif.org/ver10/topics"
ONVIF_SCHEMA = "http://www.onvif.org/ver10/schema"
ONVIF_ERRORS = "http://www.onvif.org/ver10/error"

MESSAGE_BOX_2011 = "http://org.apache.airavata/ws-messenger/msgbox/2011"
"""WS-Messenger's message box: its requests; its answers end in a slash."""
MESSAGE_BOX_2011_SLASH = MESSAGE_BOX_2011 + "/"
MESSAGE_BOX_2004 = "http://www.extreme.indiana.edu/xgws/msgbox/2004/"
"""The message box of XSUL."""
MAKE_CONNECTION_1_1 = "http://docs.oasis-open.org/ws-rx/wsmc/200702"
MAKE_CONNECTION_ANONYMOUS = MAKE_CONNECTION_1_1 + "/anonymous?id="
"""What the address of a consumer that fetches its messages begins with."""

WSRF_BF = "http://docs.oasis-open.org/wsrf/bf-2"
WSRF_R = "http://docs.oasis-open.org/wsrf/r-2"
WSRF_RP = "http://docs.oasis-open.org/wsrf/rp-2"
WSRF_RL = "http://docs.oasis-open.org/wsrf/rl-2"
WSRF_FAULT_ACTION = "http://docs.oasis-open.org/wsrf/fault"
WSRF_RP_ACTIONS = "http://docs.oasis-open.org/wsrf/rpw-2/"
WSRF_RL_ACTIONS = "http://docs.oasis-open.org/wsrf/rlw-2/"

WSMAN = "http://schemas.dmtf.org/wbem/wsman/1/wsman.xsd"

WSDL = "http://schemas.xmlsoap.org/wsdl/"
WSDL_SOAP_1_1 = WSDL + "soap/"
WSDL_SOAP_1_2 = WSDL + "soap12/"
WSDL_HTTP = "http://schemas.xmlsoap.org/soap/http"
"""The transport of SOAP over HTTP, in bindings of both versions."""

DRAGOMAN_DATA = "urn:dragoman:data:1"
"""Of the element that wraps content which is not one XML element."""

KNOWN_ELSEWHERE: frozenset[str] = frozenset(
    {
        "http://schemas.xmlsoap.org/ws/2004/01/eventing",
        "http://www.w3.org/2011/03/ws-evt",
        "http://www.w3.org/2009/09/ws-evt",
        "http://www.w3.org/2010/08/ws-evt",
        WSN_2004_06,
        "http://docs.oasis-open.org/wsn/2004/06/wsn-WS-BrokeredNotification-1.2-draft-01.xsd",
        "http://docs.oasis-open.org/wsrf/2004/06/wsrf-WS-ResourceProperties-1.2-draft-01.xsd",
        "http://docs.oasis-open.org/wsrf/2004/06/wsrf-WS-ResourceLifetime-1.2-draft-01.xsd",
        WSN_IBM,
        "http://www.ibm.com/xmlns/stdwip/web-services/WS-BrokeredNotification",
        "http://www.ibm.com/xmlns/stdwip/web-services/WS-ResourceProperties",
        "http://www.ibm.com/xmlns/stdwip/web-services/WS-ResourceLifetime",
        WSN_BR_1_3,
        WSMAN,
        "http://schemas.xmlsoap.org/ws/2004/09/enumeration",
        "http://schemas.xmlsoap.org/ws/2005/02/rm",
        "http://docs.oasis-open.org/ws-rx/wsrm/200702",
    }
)
"""Specifications whose operations are recognised and not offered: never taken for events."""

PREFERRED_PREFIXES: dict[str, str] = {ONVIF_TOPICS: "tns1"}
"""Prefixes that peers look for in the text of a topic, against the rules of namespaces."""
