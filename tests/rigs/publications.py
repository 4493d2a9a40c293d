"""Publications that Hypothesis draws, in every dialect in which one publishes: with several
elements, texts, attributes and extensions wherever they may stand. Each thing that one says is a
word that is said once, so that it can be looked for in what consumers get."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hypothesis import strategies as st

from mediation.matrix import Dialect
from mediation.model.facts import Fact
from mediation.model.versions import Soap

OASIS = "http://docs.oasis-open.org/wsn/b-2"
DRAFTS = {
    "wsn-1.3": OASIS,
    "wsn-1.2": "http://docs.oasis-open.org/wsn/2004/06/wsn-WS-BaseNotification-1.2-draft-01.xsd",
    "wsn-1.0": "http://www.ibm.com/xmlns/stdwip/web-services/WS-BaseNotification",
}
WSE11, WSMAN = (
    "http://www.w3.org/2011/03/ws-evt",
    ("http://schemas.dmtf.org/wbem/wsman/1/wsman.xsd"),
)
SIMPLE = "http://docs.oasis-open.org/wsn/t-1/TopicExpression/Simple"
CONCRETE = "http://docs.oasis-open.org/wsn/t-1/TopicExpression/Concrete"
XSI = "http://www.w3.org/2001/XMLSchema-instance"
ENCODING = "http://schemas.xmlsoap.org/soap/encoding/"


@dataclass
class Drawn:
    """A publication that was drawn.

    Attributes:
        words: All that it says, and what of an event each word is; None is its payload.
        unreadable_topics: Some topics have a prefix that nobody declares.
    """

    draw: st.DrawFn
    words: dict[str, Fact | None] = field(default_factory=dict)
    about: Fact | None = None
    unreadable_topics: bool = False

    def word(self) -> str:
        """A word that was not said yet."""
        word = f"word{len(self.words)}said"
        self.words[word] = self.about
        return word

    def says(self, fact: Fact | None) -> "Drawn":
        """What is drawn from now on is this of an event."""
        self.about = fact
        return self

    def some(self, make: Callable[[], str], most: int = 2, *, least: int = 0) -> str:
        return "".join(make() for _ in range(self.draw(st.integers(least, most))))

    def perhaps(self, make: Callable[[], str]) -> str:
        # Rarely, so that most messages are wrong in one place at most.
        return make() if self.draw(st.integers(0, 19)) == 13 else ""

    def text(self) -> str:
        return self.perhaps(self.word)

    def attributes(self) -> str:
        return self.perhaps(lambda: f' own="{self.word()}"') + self.perhaps(
            lambda: f' x:foreign="{self.word()}"'
        )

    def element(self, deep: int = 2) -> str:
        name = self.draw(st.sampled_from(("o:reading", "x:reading", "reading")))
        if deep and self.draw(st.booleans()):
            inner = self.some(lambda: self.element(deep - 1)) + self.text()
        else:
            inner = self.word()
        return f"<{name}{self.attributes()}>{inner}</{name}>"

    def content(self) -> str:
        """Elements, mostly one, and what may stand beside them."""
        comment = self.perhaps(lambda: "<!-- said to nobody -->")
        more = self.perhaps(self.element) + self.perhaps(self.element)
        return self.text() + comment + self.element() + self.text() + more + self.text()


@st.composite
def publications(
    draw: st.DrawFn, dialect: Dialect, *, unreadable_topics: bool = False
) -> tuple[bytes, Mapping[str, Fact | None]]:
    """A message in *dialect*, and the words in it. Of a CloudEvent it is the data."""
    drawn = Drawn(draw, unreadable_topics=unreadable_topics)
    if not dialect.in_soap:
        return drawn.element().join((f"<a {_SCOPE}>", "</a>")).encode(), drawn.words
    form = draw(st.sampled_from(dialect.forms))
    assert isinstance(form, Soap)
    body = _BODIES.get(dialect.name, _bare)(drawn, dialect)
    return (
        f'<s:Envelope xmlns:s="{form.value}" {_SCOPE}><s:Header/>'
        f"<s:Body{drawn.says(None).attributes()}>{body}</s:Body></s:Envelope>"
    ).encode(), drawn.words


@st.composite
def cloud_events(draw: st.DrawFn, batch: bool) -> tuple[bytes, Mapping[str, Fact | None]]:
    """CloudEvents in JSON, a list where it is a *batch*: with XML, JSON or text as the data, topics
    and extensions; and the words in them."""
    drawn = Drawn(draw)
    events = [_cloud_event(drawn) for _ in range(draw(st.integers(1, 3)) if batch else 1)]
    return json.dumps(events if batch else events[0]).encode(), drawn.words


def _cloud_event(drawn: Drawn) -> dict[str, object]:
    type_ = drawn.draw(st.sampled_from(("application/xml", "application/json", "text/plain")))
    event: dict[str, object] = {"specversion": "1.0", "source": "/s", "type": "t"}
    event["data"] = _data(drawn.says(None), type_)
    event |= {"datacontenttype": type_, "id": drawn.says(Fact.ID).word()}
    for name, fact in (
        ("topic", Fact.TOPIC),
        ("own", Fact.ATTRIBUTES),
        ("subject", Fact.ATTRIBUTES),
    ):
        if drawn.draw(st.booleans()):
            event[name] = drawn.says(fact).word()
    return event


def _data(drawn: Drawn, type_: str) -> object:
    if type_ == "application/xml":
        return f"<a {_SCOPE}>{drawn.content()}</a>"
    return _json(drawn) if type_ == "application/json" else drawn.word()


def _json(drawn: Drawn, deep: int = 2) -> object:
    if not deep or drawn.draw(st.booleans()):
        return {"reading": drawn.word()}
    return {drawn.word(): [_json(drawn, deep - 1), drawn.word(), 1.5, None]}


_SCOPE = f'xmlns:o="urn:o" xmlns:x="urn:x" xmlns:xsi="{XSI}"'


def _bare(drawn: Drawn, dialect: Dialect) -> str:
    return drawn.content()


def _notify(drawn: Drawn, dialect: Dialect) -> str:
    messages = drawn.some(lambda: _message(drawn), least=1)
    further = drawn.says(Fact.HEADERS).attributes(), drawn.perhaps(drawn.element), drawn.text()
    beside = drawn.says(None).text() + drawn.perhaps(drawn.element)
    return (
        f'<w:Notify xmlns:w="{DRAFTS[dialect.name]}"{further[0]}>{messages}{further[1]}'
        f"{further[2]}</w:Notify>{beside}"
    )


def _message(drawn: Drawn) -> str:
    topics = drawn.says(Fact.TOPIC).some(lambda: _topic(drawn), 1) + drawn.perhaps(
        lambda: _topic(drawn)
    )
    contents = _content_of(drawn) + drawn.perhaps(lambda: _content_of(drawn))
    drawn.says(Fact.HEADERS)
    attributes, further = drawn.attributes(), drawn.perhaps(drawn.element) + drawn.text()
    producer = drawn.perhaps(lambda: _producer(drawn))
    return (
        f"<w:NotificationMessage{attributes}>{topics}{producer}{contents}{further}"
        "</w:NotificationMessage>"
    )


def _topic(drawn: Drawn) -> str:
    said = drawn.says(Fact.HEADERS).attributes()
    further = drawn.perhaps(drawn.element)
    topic = drawn.says(Fact.TOPIC).word()
    if drawn.unreadable_topics and drawn.draw(st.integers(0, 5)) == 5:
        return f'<w:Topic Dialect="{CONCRETE}"{said}>vendor:{topic}{further}</w:Topic>'
    return f'<w:Topic Dialect="{SIMPLE}"{said}>{topic}{further}</w:Topic>'


def _producer(drawn: Drawn) -> str:
    address = drawn.says(Fact.PRODUCER).word()
    drawn.says(Fact.HEADERS)
    attributes, further = drawn.attributes(), drawn.perhaps(drawn.element)
    if further or attributes:
        drawn.words.pop(address)
    return (
        f'<w:ProducerReference{attributes}><a:Address xmlns:a="http://www.w3.org/2005/08/addressing">'
        f"urn:{address}</a:Address>{further}</w:ProducerReference>"
    )


def _content_of(drawn: Drawn) -> str:
    drawn.says(None)
    return f"<w:Message{drawn.attributes()}>{drawn.content()}</w:Message>"


def _wrapped(drawn: Drawn, dialect: Dialect) -> str:
    return f'<e:Notify xmlns:e="{WSE11}"{drawn.attributes()}>{drawn.content()}</e:Notify>' + (
        drawn.text() + drawn.perhaps(drawn.element)
    )


def _batch(drawn: Drawn, dialect: Dialect) -> str:
    events = drawn.some(
        lambda: f"<m:Event{drawn.attributes()}>{drawn.content()}</m:Event>", least=1
    )
    further = drawn.text() + drawn.perhaps(drawn.element)
    return f'<m:Events xmlns:m="{WSMAN}"{drawn.attributes()}>{events}{further}</m:Events>'


def _call(drawn: Drawn, dialect: Dialect) -> str:
    fields = "".join(
        f"<{name} xsi:type='xsd:string'{drawn.attributes()}>{drawn.word()}</{name}>"
        for name in drawn.draw(
            st.lists(st.sampled_from(("message", "source", "colour")), max_size=3, unique=True)
        )
    )
    fields += drawn.perhaps(lambda: f"<message>{drawn.word()}</message>")
    fields += drawn.perhaps(lambda: f"<o:further>{drawn.element()}</o:further>")
    event = f"<eventType>t</eventType>{fields}{drawn.text()}"
    more = drawn.perhaps(drawn.element)
    return (
        f"<handleEvent xmlns:xsd='http://www.w3.org/2001/XMLSchema'{drawn.attributes()}>"
        f"<ev>{event}</ev>{more}</handleEvent>" + drawn.text() + drawn.perhaps(drawn.element)
    )


_BODIES = {
    **dict.fromkeys(DRAFTS, _notify),
    "wse-2011-03-wrap": _wrapped,
    "wsman-events": _batch,
    "grid-events": _call,
}
