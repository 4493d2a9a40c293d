"""The routing keys of WS-Messenger's copies (Apache Airavata 0.11, ``amqp-routing-keys.xml``)."""

from xml.sax.saxutils import quoteattr

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.protocol import AdapterError
from adapters.rabbitmq.routing_keys import read_routing_keys

WFT = "http://airavata.apache.org/schemas/wft/2011/08"
SHIPPED = b"""<?xml version="1.0"?>
<routingKeys>
  <event name="workflowTerminated">
    <key name="primaryKey">
      <segment name="serviceID">notificationSource/@serviceID</segment>
    </key>
  </event>
  <event name="plain"><key name="k"/></event>
  <event name="keyless"/>
  <event name="deep">
    <key name="a"><segment name="x"> /b/c </segment><segment name="y">@z</segment></key>
    <key name="b"><segment name="x">b</segment></key>
    <key name="b"><segment name="x">never/read</segment></key>
    <key><segment name="x">never</segment></key>
  </event>
  <event name="deep"><key name="other"/></event>
  <event><key name="unnamed"/></event>
  <event name="ours" namespace="urn:o">
    <key name="k"><segment name="s">a</segment><segment name="t" namespace="">b/@c</segment></key>
  </event>
</routingKeys>"""
ROUTING = read_routing_keys(SHIPPED)


def terminated(source: str) -> bytes:
    return f'<w:workflowTerminated xmlns:w="{WFT}">{source}</w:workflowTerminated>'.encode()


@pytest.mark.parametrize(
    ("payload", "keys"),
    [
        (
            terminated('<w:notificationSource w:serviceID="urn:s.1"/>'),
            ("workflowTerminated.urn:s.1",),
        ),
        (terminated('<w:notificationSource serviceID="s"/>'), ("workflowTerminated.",)),
        (terminated('<notificationSource w:serviceID="s"/>'), ("workflowTerminated.",)),
        (
            terminated('<w:notificationSource/><w:notificationSource w:serviceID="2"/>'),
            ("workflowTerminated.2",),
        ),
        (b"<workflowTerminated/>", ("workflowTerminated.",)),
        (b"<plain>x</plain>", ("plain",)),
        (b"<p:plain xmlns:p='urn:any'/>", ("plain",)),
        (b"<keyless/>", ()),
        (
            f'<deep xmlns="{WFT}" xmlns:w="{WFT}" w:z="Z"><b>q<c>C<d/>D</c>r</b></deep>'.encode(),
            ("deep.CD.Z", "deep.qr"),
        ),
        (b"<ours><a xmlns='urn:o'>A</a><b c='C'/></ours>", ("ours.A.C",)),
    ],
)
def test_keys(payload: bytes, keys: tuple[str, ...]) -> None:
    assert ROUTING.takes(payload)
    assert ROUTING.keys_of(payload) == keys


@pytest.mark.parametrize("payload", [b"<other/>", b"<workflowTerminatedX/>", b"text", b""])
def test_other_events_are_not_copied(payload: bytes) -> None:
    assert not ROUTING.takes(payload)


def test_every_event() -> None:
    routing = read_routing_keys(SHIPPED, every_event=True)
    assert routing.takes(b"<other/>") and routing.keys_of(b"<p:other xmlns:p='u'/>") == ("other",)
    assert routing.keys_of(terminated("")) == ("workflowTerminated.",)
    assert read_routing_keys(None, every_event=True).keys_of(b"<other/>") == ("other",)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "cannot be read"),
        (b"<routing/>", "its root element is not routingKeys"),
        (b"<!DOCTYPE routingKeys><routingKeys/>", "cannot be read"),
        (
            b"<routingKeys><event name='a'><key name='b'><segment name='c'>d[1]</segment></key>"
            b"</event></routingKeys>",
            "'d\\[1\\]' is not a path such as notificationSource/@serviceID",
        ),
        (
            b"<routingKeys><event name='a'><key name='b'><segment name='c'/></key></event>"
            b"</routingKeys>",
            "'' is not a path",
        ),
        (b" " * (2**20 + 1), "longer than a mebibyte"),
    ],
)
def test_files_that_cannot_be_read(content: bytes, text: str) -> None:
    with pytest.raises(AdapterError, match=text):
        read_routing_keys(content)


@given(st.text(max_size=30))
def test_values_are_not_escaped(value: str) -> None:
    printable = "".join(one for one in value if one.isprintable())
    source = f"<w:notificationSource w:serviceID={quoteattr(printable)}/>"
    assert ROUTING.keys_of(terminated(source)) == (f"workflowTerminated.{printable}",)
