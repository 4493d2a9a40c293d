"""What it takes to read a message grows with its length, not with its square.

The readers are found by walking over the packages and over the table of specifications, so that a new
one is tried without a line here; one that wants an argument which is not known here fails.
"""

import functools
import gc
import importlib
import inspect
import pkgutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from lxml import etree

import filters
import mediation
from filters import Expression
from filters.dialects import XPATH_1_0
from filters.documents import DEFAULT_LIMITS
from mediation.agreement import Challenge
from mediation.detect import read
from mediation.grid_events.encoding import Generation
from mediation.matrix.dialects import DIALECTS
from mediation.model.messages import Notification
from mediation.model.versions import Soap
from mediation.packaging.dime import Decoder, DimeLimits, DimeMessage, Encoder
from mediation.rendering import Shape, render
from mediation.specifications import SPECIFICATIONS
from mediation.ws_security.encryption import read_decryption_keys, read_recipient
from tests.rigs.mediation import ARRIVAL, ENVELOPES
from tests.rigs.pace import growth
from tests.rigs.sample_messages import PAGES
from tests.rigs.signers import Signers, rsa_pair

SMALL, TIMES, TRIES = 2000, 4, 24
MEASURABLE = 0.008
"""Seconds of processor time below which nothing is said."""
LINEAR = 2.0
"""Growth beyond the linear at `TIMES` the size; the square is 4. What is linear has 1.2 alone, and 1.65
beside five other tests: the larger one does not fit into the processor's cache."""

Reader = Callable[[bytes], object]
Grown = Callable[[int], bytes]
"""Makes a message of a size."""

ARGUMENTS: dict[str, Any] = {
    "arrival": ARRIVAL, "most": 10**6, "media_type": "text/xml", "boundary": "b", "prefix": "p",
    "wait": timedelta(seconds=1), "pending": True, "generation": Generation.V2001, "properties": {},
    "charset": None, "attachments": {}, "soap": Soap.V1_2, "action": "urn:a", "preferred": {},
    "query": Expression(XPATH_1_0, "count(//b)"),
    "with_blocks.blocks": [b"<x/>"], "add_header_blocks.blocks": b"<x/>",
    "write_package.attachments": (), "user": "u", "password": "p", "nonce": bytes(16),
    "created": datetime(2026, 1, 1, tzinfo=UTC), "file": "lab", "prefixes": ["p", "#default"],
    "challenge": Challenge("urn:a", "secret", "http://a.example/"), "message_id": "urn:m",
}  # fmt: skip
"""Arguments of readers, by name; of one that has its own, by its name, too."""
SIGNED = ("mediation.discovery", "mediation.event_signatures.signing")
"""Of these modules what wants more than bytes is not tried: what is signed or encrypted is taken apart
when its signature is known."""


def modules() -> Iterator[ModuleType]:
    for package in (mediation, filters):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not any(
                part in found.name for part in (".spark", ".workloads", "_main", ".processes")
            ):
                yield importlib.import_module(found.name)


def readers() -> Iterator[tuple[str, Reader]]:
    """Every public function whose first argument are bytes."""
    for module in modules():
        for name, function in vars(module).items():
            if not inspect.isfunction(function) or function.__module__ != module.__name__:
                continue
            parameters = list(inspect.signature(function).parameters.values())
            if name.startswith("_") or not parameters or parameters[0].annotation is not bytes:
                continue
            wanted = [one.name for one in parameters[1:] if one.default is one.empty]
            if wanted and module.__name__.startswith(SIGNED):
                continue
            named = {one: _argument(name, one, module) for one in wanted}
            yield f"{module.__name__}.{name}", partial(_call, function, named)


def _argument(function: str, name: str, module: ModuleType) -> object:
    arguments = ARGUMENTS
    if module.__name__.startswith(("mediation.ws_security", "mediation.receipts")):
        arguments = ARGUMENTS | _security()
    for known in (f"{function}.{name}", name):
        if known in arguments:
            return arguments[known]
    raise AssertionError(f"{module.__name__}.{function} wants {name}: give it in ARGUMENTS")


@functools.cache
def _security() -> dict[str, Any]:
    """Arguments of what reads, signs and encrypts by WS-Security."""
    with tempfile.TemporaryDirectory() as folder:
        signers = Signers.make(Path(folder), "lab")
        certificate, key = (path.read_bytes() for path in rsa_pair(Path(folder), "receiver"))
        return {
            "trust": signers.trust, "signer": signers.key("lab"), "now": ARGUMENTS["created"],
            "certificate": certificate, "keys": read_decryption_keys(key), "unique": "u",
            "recipient": read_recipient(certificate), "limits": DEFAULT_LIMITS,
        }  # fmt: skip


def _call(function: Callable[..., object], arguments: dict[str, Any], octets: bytes) -> object:
    positional = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name in arguments
    ]
    given = [arguments[one.name] for one in positional if one.kind is not one.KEYWORD_ONLY]
    named = {one.name: arguments[one.name] for one in positional if one.kind is one.KEYWORD_ONLY}
    return function(octets, *given, **named)


# ---- messages that grow -------------------------------------------------------------------------

_S = Soap.V1_2.value
_WSNT = "http://docs.oasis-open.org/wsn/b-2"
_WSA = "http://www.w3.org/2005/08/addressing"
_CONCRETE = "http://docs.oasis-open.org/wsn/t-1/TopicExpression/Concrete"


def envelope(body: bytes, header: bytes = b"") -> bytes:
    return (
        f'<s:Envelope xmlns:s="{_S}" xmlns:a="{_WSA}" xmlns:p="urn:p" xmlns:n="{_WSNT}">'
        f"<s:Header><a:MessageID>urn:x:1</a:MessageID>"
    ).encode() + header + b"</s:Header><s:Body>" + body + b"</s:Body></s:Envelope>"  # fmt: skip


def notify(message: bytes) -> bytes:
    topic = f'<n:Topic Dialect="{_CONCRETE}">storms</n:Topic>'.encode()
    inside = topic + b"<n:Message>" + message + b"</n:Message>"
    return b"<n:Notify><n:NotificationMessage>%b</n:NotificationMessage></n:Notify>" % inside


def fault(detail: bytes) -> bytes:
    code = b"<s:Code><s:Value>s:Sender</s:Value></s:Code><s:Reason><s:Text>x</s:Text></s:Reason>"
    return b"<s:Fault>" + code + b"<s:Detail>" + detail + b"</s:Detail></s:Fault>"


def json_objects(n: int) -> bytes:
    event = b'{"specversion":"1.0","id":"1","source":"/a","type":"a","data":{"b":[1,2]}}'
    return b"[" + b",".join([event] * n) + b"]"


def json_members(n: int) -> bytes:
    members = b",".join(b'"m%d":"x"' % number for number in range(n))
    return b'{"specversion":"1.0","id":"1","source":"/a","type":"a","data":{%b}}' % members


def multipart(n: int) -> bytes:
    return b"--b\r\nContent-Type: text/xml\r\n\r\n<a/>\r\n" * n + b"--b--\r\n"


def topics(n: int) -> bytes:
    head = (
        b'<t:TopicNamespace xmlns:t="http://docs.oasis-open.org/wsn/t-1" targetNamespace="urn:t">'
    )
    return (
        head + b"".join(b'<t:Topic name="t%d"/>' % one for one in range(n)) + b"</t:TopicNamespace>"
    )


GROWN: dict[str, Grown] = {
    "payload": lambda n: envelope(b"<e>" + b"<b>p:x</b>" * n + b"</e>"),
    "attributes": lambda n: envelope(b"<e>" + b"<b p:a='1' c='2'/>" * n + b"</e>"),
    "body": lambda n: envelope(b"<b p:a='1'/>" * n),
    "headers": lambda n: envelope(b"<e/>", b"<p:b>x</p:b>" * n),
    "parameters": lambda n: envelope(b"<e/>", b'<p:b a:IsReferenceParameter="1"/>' * n),
    "relations": lambda n: envelope(b"<e/>", b"<a:RelatesTo>urn:x</a:RelatesTo>" * n),
    "message": lambda n: envelope(notify(b"<b p:a='1'/>" * n)),
    "message's payload": lambda n: envelope(notify(b"<e>" + b"<b>p:x</b>" * n + b"</e>")),
    "messages": lambda n: envelope(notify(b"<e/>" * 3)[: -len(b"</n:Notify>")] + b"</n:Notify>"),
    "detail": lambda n: envelope(fault(b"<b/>" * n)),
    "comments": lambda n: envelope(b"<e>" + b"<!--c-->" * n + b"</e>"),
    "texts": lambda n: envelope(b"<e>" + b"p:x &lt; &amp;" * n + b"</e>"),
    "names": lambda n: envelope(b"<e>" + b"".join(b"<b%d/>" % one for one in range(n)) + b"</e>"),
    "spaces": lambda n: envelope(b"<e>" + b" \n" * n + b"</e>", b"\n " * n),
    "document": lambda n: b"<e>" + b"<b>p:x</b>" * n + b"</e>",
    "broken": lambda n: b"<e>" + b"<b>" * n,
    "controls": lambda n: b"<e>" + b"&#1;\1" * n + b"</e>",
    "objects": json_objects,
    "members": json_members,
    "multipart": multipart,
    "topics": topics,
    "lines": lambda n: b"name: value\r\n" * n,
    "marks": lambda n: b"<" * n,
    "quotes": lambda n: b"<a b='" + b"\"" * n,
}  # fmt: skip


def samples() -> Iterator[bytes]:
    """Messages that peers sent, and those of the specifications' pages; and of each operation the
    element alone."""
    for path in sorted(ENVELOPES.rglob("*.xml")):
        yield path.read_bytes()
    for page in PAGES.values():
        yield from (text.encode() for text in page())
    for specification in SPECIFICATIONS.values():
        for element in specification.requests.elements:
            yield envelope(etree.tostring(etree.Element(element)))


def places() -> Iterator[tuple[str, bytes, str]]:
    """Each place of the samples where children may stand, once: the sample with a mark there, and
    the name of the children that stand there."""
    seen = set[tuple[str, str]]()
    for sample in samples():
        try:
            root = etree.fromstring(sample)
        except etree.XMLSyntaxError:
            continue
        for element in root.iter(etree.Element):
            above = next(element.iterancestors(), None)
            place = str(element.tag), "" if above is None else str(above.tag)
            if place in seen:
                continue
            seen.add(place)
            last = next(element.iterchildren(etree.Element, reversed=True), None)
            name = "g" if last is None else etree.QName(last).localname
            if last is not None and last.prefix:
                name = f"{last.prefix}:{name}"
            mark = etree.Comment("MARK")
            element.append(mark)
            yield " in ".join(place), etree.tostring(root), name
            element.remove(mark)


def renderings() -> Iterator[tuple[str, Reader]]:
    """Every way to be notified writes an event."""
    for dialect in DIALECTS.values():
        yield f"render {dialect.name}", partial(_render, dialect.shape())


def _render(shape: Shape, payload: bytes) -> object:
    return render(Notification("urn:x:1", "publisher", payload, datetime.now(UTC)), shape, "urn:a")


@functools.cache
def all_readers() -> list[tuple[str, Reader]]:
    return [*readers(), *renderings()]


# ---- the tests ----------------------------------------------------------------------------------


def check(what: str, reader: Reader, grown: Grown) -> str:
    """What is wrong; empty where it is linear. What else the machine does can only make one of the
    two longer: the least of some tries counts, and most need one."""
    large, small = grown(SMALL * TIMES), None
    least, most = float("inf"), float("inf")
    for _ in range(TRIES):
        most = min(most, _seconds(reader, large))
        if most < MEASURABLE:
            return ""
        small = small or grown(SMALL)
        least = min(least, _seconds(reader, small))
        if most < least * TIMES * LINEAR:
            return ""
    return f"{what}: {most / least:.1f} times as long for {TIMES} times as much"


def _seconds(reader: Reader, octets: bytes) -> float:
    # The collector's pauses grow with what all the tests of the process keep in memory.
    gc.disable()
    try:
        began = time.process_time()
        with suppress(Exception):  # A refusal must be quick, too.
            reader(octets)
        return time.process_time() - began
    finally:
        gc.enable()


@pytest.mark.slow
@pytest.mark.parametrize("kind", GROWN)
def test_every_reader_is_linear(kind: str) -> None:
    tried = all_readers()
    assert len(tried) > 80
    found = [check(f"{name} of {kind}", reader, GROWN[kind]) for name, reader in tried]
    assert not any(found), [one for one in found if one]


@pytest.mark.slow
@pytest.mark.parametrize("child", ["its own", pytest.param("another", marks=pytest.mark.nightly)])
def test_every_request_is_read_in_linear_time(child: str) -> None:
    """Children of every element of every request, event, header block and reference."""
    found, tried = list[str](), 0
    for place, octets, name in places():
        one = f"<{name if child == 'its own' else 'g'}/>".encode()
        tried += 1

        def grown(size: int, octets: bytes = octets, one: bytes = one) -> bytes:
            return octets.replace(b"<!--MARK-->", one * size)

        found.append(check(place, lambda octets: read(octets, ARRIVAL), grown))
    assert tried > 300
    assert not any(found), [one for one in found if one]


@pytest.mark.slow
def test_records_of_dime_are_read_in_linear_time() -> None:
    message = DimeMessage(Soap.V1_2, envelope(b"<e/>"))
    octets = Encoder().encode(message)

    def decode(number: int) -> None:
        decoder = Decoder(DimeLimits())
        assert sum(1 for _ in decoder.feed(octets * number)) == number

    assert growth(decode, SMALL, times=TIMES) < 2


@pytest.mark.slow
def test_the_square_is_seen() -> None:
    def count_all(octets: bytes) -> int:
        root = etree.fromstring(octets)
        return sum(len(root) for at, _ in enumerate(root) if at % 8 == 0)

    grown = GROWN["document"]
    assert check("x", count_all, grown)
    assert not check("x", etree.fromstring, grown)
