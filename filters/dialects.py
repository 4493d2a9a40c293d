"""The URIs of every topic and filter dialect, and the misspellings that mean one of them."""

XPATH_1_0 = "http://www.w3.org/TR/1999/REC-xpath-19991116"

XPATH_LEXICAL = "urn:dragoman:dialect:xpath-lexical:1"
"""XPath 1.0 that is also true where it is with names compared as they are written
(`filters.xpath.lexical`). Nobody writes this URI: an endpoint says that it means XPath so."""

XPATH_1_0_EVENT = "http://www.w3.org/2011/03/ws-evt/Dialects/XPath10"
"""XPath 1.0 over the root of the event, as WS-Eventing 2011/03 says."""

TOPIC_SIMPLE = "http://docs.oasis-open.org/wsn/t-1/TopicExpression/Simple"
TOPIC_CONCRETE = "http://docs.oasis-open.org/wsn/t-1/TopicExpression/Concrete"
TOPIC_FULL = "http://docs.oasis-open.org/wsn/t-1/TopicExpression/Full"
TOPIC_CONCRETE_SET = "http://www.onvif.org/ver10/tev/topicExpression/ConcreteSet"

TOPIC_SIMPLE_1_2 = "http://docs.oasis-open.org/wsn/2004/06/TopicExpression/Simple"
TOPIC_CONCRETE_1_2 = "http://docs.oasis-open.org/wsn/2004/06/TopicExpression/Concrete"
TOPIC_FULL_1_2 = "http://docs.oasis-open.org/wsn/2004/06/TopicExpression/Full"
"""The 1.2 drafts: the same grammars, save that a child has no prefix there."""

TOPIC_IBM_SIMPLE = "http://www.ibm.com/xmlns/stdwip/web-services/WS-Topics/TopicExpression/simple"
"""WS-Messenger's: the text after the first colon, whatever its namespace; ``>`` is all."""

TOPIC_SYNAPSE = "http://synapse.apache.org/eventing/dialect/topicFilter"
TOPIC_WSO2 = "http://wso2.org/registry/eventing/dialect/topicFilter"
"""A topic path that matches the topic itself and everything below it."""

ACTION_DPWS_1_0 = "http://schemas.xmlsoap.org/ws/2006/02/devprof/Action"
ACTION_DPWS_1_1 = "http://docs.oasis-open.org/ws-dd/ns/dpws/2009/01/Action"
"""A list of action URIs, separated by white space."""

TOPIC_IBM_CONCRETE = (
    "http://www.ibm.com/xmlns/stdwip/web-services/WS-Topics/TopicExpression/concrete"
)
TOPIC_IBM_FULL = "http://www.ibm.com/xmlns/stdwip/web-services/WS-Topics/TopicExpression/full"
"""The 1.0 drafts' other two; only ``TOPIC_IBM_SIMPLE`` differs from what came of it."""

ITEM_FILTER = "http://www.onvif.org/ver10/tev/messageContentFilter/ItemFilter"
"""ONVIF's subset of XPath (Core Specification, "Message content filter")."""

EBRIM_QUERY = "urn:oasis:names:tc:ebxml-regrep:xsd:rim:3.0"
"""An ebXML ``rim:AdhocQuery``, as subscribers to document metadata write it (IHE DSUB): in
WS-Notification an element of the filter without a dialect, known by its namespace."""

EVENT_QUERY = "http://schemas.microsoft.com/win/2004/08/events/eventquery"
"""Windows Event Forwarding's: a ``QueryList`` over events of Windows."""

EVENT_ROOT_XPATH = "http://schemas.dmtf.org/wbem/wsman/1/wsman/filter/eventRootXPath"
"""WS-Management's name of XPath over the event."""

JMS_SELECTOR = "urn:dragoman:dialect:jms-selector:1"
"""A message selector over the properties (JMS 2.0, "Message selector syntax"). Nobody else has a
URI for it; where the messaging system evaluates selectors, it does."""

ATTRIBUTE_FILTERS = "urn:dragoman:dialect:cloudevents:1"
"""The filters of the CloudEvents Subscriptions API, over attributes; that has no URI for them."""

QUERY_STRING = "urn:dragoman:tdn:1:query:string"
QUERY_REGEX = "urn:dragoman:tdn:1:query:regex"
QUERY_SQL = "urn:dragoman:tdn:1:query:sql"
QUERY_XQUERY = "urn:dragoman:tdn:1:query:xquery"
"""Queries over described things (`filters.queries`), beside those in `XPATH_1_0`."""

SPELLINGS: dict[str, str] = {
    TOPIC_SIMPLE_1_2: TOPIC_SIMPLE,
    TOPIC_CONCRETE_1_2: TOPIC_CONCRETE,
    TOPIC_FULL_1_2: TOPIC_FULL,
    TOPIC_IBM_CONCRETE: TOPIC_CONCRETE,
    TOPIC_IBM_FULL: TOPIC_FULL,
    "http://docs.oasis-open.org/wsn/t1/TopicExpression/Simple": TOPIC_SIMPLE,
    "http://docs.oasis-open.org/wsnt/t-1/TopicExpression/ConcreteSet": TOPIC_CONCRETE_SET,
    TOPIC_IBM_SIMPLE.replace("WS-Topics", "WSTopics"): TOPIC_IBM_SIMPLE,
    ITEM_FILTER: XPATH_1_0,
    XPATH_1_0_EVENT: XPATH_1_0,
    EVENT_ROOT_XPATH: XPATH_1_0,
}
"""Spellings that peers use, and the dialects that they mean."""
