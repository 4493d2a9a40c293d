"""Documents of others, changed in one to three places: most of what comes out is still XML."""

import random
import re
from collections.abc import Callable

_TEXTS = re.compile(rb">([^<>]+)<")
_TAGS = re.compile(rb"<[A-Za-z_][^<>]*?/?>")
_LEAVES = re.compile(rb"<([A-Za-z_][\w.:-]*)(?: [^<>]*)?>[^<>]*</\1>")
_VALUES = re.compile(rb"=(?:\"[^\"<>]*\"|'[^'<>]*')")
_PLAIN = (
    *(
        b"",
        b" ",
        b"0",
        b"1",
        b"-1",
        b"1.0",
        b"01",
        b"1e3",
        b".5",
        b"+1",
        b" 1 ",
        b"NaN",
        b"Infinity",
    ),
    *(
        b"true",
        b"x",
        b"x y",
        b"  x",
        b"\n",
        b"\xc3\xa4",
        b"99999999999999999999",
        b"0.1",
        b"A",
        b"5",
    ),
)
_DOCTYPE = (
    b'<!DOCTYPE r [<!ENTITY e "v"><!ENTITY f "&e;&e;">]>',
    b"<!DOCTYPE r>",
    b'<!DOCTYPE r SYSTEM "file:///etc/passwd">',
    b'<!DOCTYPE r [<!ENTITY e SYSTEM "file:///etc/passwd">]>',
    b'<!DOCTYPE r [<!ATTLIST r d CDATA "v">]>',
    b"<!doctype r>",
    b"<!-- <!DOCTYPE r> -->",
)
_DECLARATIONS = (
    b'<?xml version="1.0"?>',
    b'<?xml version="1.0" encoding="UTF-8"?>\n',
    b"<?xml version='1.0' encoding='utf-8' standalone='yes'?>",
    b'<?xml version="1.1"?>',
    b'<?xml version="1.0" encoding="ISO-8859-1"?>',
    b'<?xml version="1.0" encoding="UTF-16"?>',
    b'<?xml version="1.0" encoding="US-ASCII"?>',
    b'<?xml version="1.0" encoding="nothing"?>',
    b"<?xml ?>",
    b"\xef\xbb\xbf",
    b" ",
)
_REFERENCES = (
    *(b"&amp;", b"&lt;", b"&gt;", b"&quot;", b"&apos;", b"&#65;", b"&#x1F600;", b"&#xA;"),
    *(b"&#0;", b"&#x1;", b"&#xFFFE;", b"&#x110000;", b"&e;", b"&e", b"&", b"&;", b"&#;", b"&#x;"),
)
_PIECES = (
    *(b"<![CDATA[x<y&z]]>", b"<![CDATA[]]>", b"<![CDATA[", b"]]>", b"<!-- c -->", b"<!-- -- -->"),
    *(b"<?p i?>", b"<?xml p?>", b"<n/>", b"<n>", b"</n>", b"<p:n/>", b'<n xmlns="urn:n"/>'),
    *(b'<p:n xmlns:p="urn:p"/>', b'<n xmlns=""/>', b'<n xmlns:xml="urn:p"/>', b"<n><m></n></m>"),
    *(b"\0", b"\x01", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbf\xbf", b"\xf0\x9f\x98\x80"),
    *(b"\r\n", b"\r", b"\t", b"  ", b"<", b">", b"<!", b"<!D", b"<?", b"=", b"\xc2\x85"),
)
_ATTRIBUTES = (
    *(b' a="1"', b" a='1'", b' a="1" a="2"', b" a", b" a=1", b' a="<"', b' a="&lt;"', b' a="&e;"'),
    *(
        b' xml:id="i"',
        b' xml:id="1 2"',
        b' xml:space="preserve"',
        b' xml:space="x"',
        b' xmlns:p=""',
    ),
    *(b' p:a="1"', b' xmlns:p="urn:p" p:a="1"', b' xmlns:p="urn:q" xmlns:q="urn:q" p:a="" q:a=""'),
    *(b' xmlns="urn:x"', b' xmlns=""', b' xmlns="x y"', b' xmlns:xmlns="urn:x"', b' a="\n\t x"'),
    *(b' xml:lang="de"', b' :a="1"', b' a:="1"', b' a:b:c="1"', b' xmlns:p="%"'),
)


def mutated(chance: random.Random, octets: bytes) -> bytes:
    """Change *octets* in some places."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        octets = chance.choices(_MUTATIONS, _WEIGHTS)[0](chance, octets)
    return octets


def _cut(chance: random.Random, octets: bytes) -> bytes:
    return octets[: chance.randrange(len(octets) + 1)]


def _without(chance: random.Random, octets: bytes) -> bytes:
    at = chance.randrange(len(octets) + 1)
    return octets[:at] + octets[at + chance.choice((1, 1, 2, 10, 100)) :]


def _flipped(chance: random.Random, octets: bytes) -> bytes:
    if not octets:
        return octets
    at = chance.randrange(len(octets))
    return octets[:at] + bytes((chance.randrange(256),)) + octets[at + 1 :]


def _inserted(chance: random.Random, octets: bytes) -> bytes:
    at = chance.randrange(len(octets) + 1)
    return octets[:at] + chance.choice(_PIECES + _REFERENCES) + octets[at:]


def _in_text(chance: random.Random, octets: bytes) -> bytes:
    return _within(chance, octets, _TEXTS, chance.choice(_PIECES + _REFERENCES))


def _as_section(chance: random.Random, octets: bytes) -> bytes:
    return _replaced(chance, octets, _TEXTS, 1, lambda text: b"<![CDATA[" + text + b"]]>")


def _in_tag(chance: random.Random, octets: bytes) -> bytes:
    found = list(_TAGS.finditer(octets))
    if not found:
        return octets
    tag = chance.choice(found)
    at = tag.end() - (2 if tag[0].endswith(b"/>") else 1)
    return octets[:at] + chance.choice(_ATTRIBUTES) + octets[at:]


def _repeated(chance: random.Random, octets: bytes) -> bytes:
    """An element without children somewhere else: beside itself, or beside or within another."""
    found = list(_LEAVES.finditer(octets))
    if not found:
        return octets
    at = chance.choice(found).start()
    return octets[:at] + chance.choice(found)[0] + octets[at:]


def _dropped(chance: random.Random, octets: bytes) -> bytes:
    return _replaced(chance, octets, _LEAVES, 0, lambda _: b"")


def _as_child(chance: random.Random, octets: bytes) -> bytes:
    return _replaced(chance, octets, _LEAVES, 0, lambda leaf: b"<n>" + leaf + b"</n>")


def _other_text(chance: random.Random, octets: bytes) -> bytes:
    """A text that is another of this document, or plain."""
    texts = [found[1] for found in _TEXTS.finditer(octets)]
    other = chance.choice(chance.choice((texts, _PLAIN)) or _PLAIN)
    return _replaced(chance, octets, _TEXTS, 1, lambda _: other)


def _other_value(chance: random.Random, octets: bytes) -> bytes:
    values = [found[0] for found in _VALUES.finditer(octets)]
    plain = b'="' + chance.choice(_PLAIN) + b'"'
    other = chance.choice((chance.choice(values or [plain]), plain))
    return _replaced(chance, octets, _VALUES, 0, lambda _: other)


def _replaced(
    chance: random.Random,
    octets: bytes,
    place: re.Pattern[bytes],
    group: int,
    change: Callable[[bytes], bytes],
) -> bytes:
    found = list(place.finditer(octets))
    if not found:
        return octets
    start, end = chance.choice(found).span(group)
    return octets[:start] + change(octets[start:end]) + octets[end:]


def _in_front(chance: random.Random, octets: bytes) -> bytes:
    return chance.choice(_DECLARATIONS + _DOCTYPE) + octets


def _behind(chance: random.Random, octets: bytes) -> bytes:
    return octets + chance.choice((b"\n", b"<!-- c -->", b"<?p i?>", b"<r/>", b"x", b"\0", octets))


def _encoded(chance: random.Random, octets: bytes) -> bytes:
    text = octets.decode("utf-8", "replace")
    charset = chance.choice(("utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1", "cp1252"))
    return text.encode(charset, "xmlcharrefreplace")


def _large(chance: random.Random, octets: bytes) -> bytes:
    """Something that is just within a limit, or just exceeds it."""
    more = chance.choice((-1, 0, 1))
    name = b"n" * chance.choice((1024 + more, 1023, 2100, 50_001))
    many = range(128 + more)
    large: tuple[Callable[[], bytes], ...] = (
        lambda: b"<t>" + b"x" * chance.choice((70_000, 400_000)) + b"</t>",
        lambda: (
            b"<t>" + b"x" * (10_000_000 + more) + b"</t>" if chance.random() < 0.01 else b"<t/>"
        ),
        lambda: b"<n>" * (250 + chance.randrange(10)) + b"</n>" * (250 + chance.randrange(10)),
        lambda: b"<n>" * (deep := 246 + chance.randrange(12)) + b"</n>" * deep,
        lambda: b"<n" + b"".join(b' a%d="x"' % at for at in many) + b"/>",
        lambda: b"<n" + b"".join(b' xmlns:a%d="urn:x"' % at for at in many) + b"/>",
        lambda: b"<n>" + b"".join(b'<n xmlns:a="urn:%d"/>' % at for at in many) + b"</n>",
        lambda: b"<n>" + b"".join(b'<n a="%d"/>' % at for at in range(200)) + b"</n>",
        lambda: b"<" + name + b"/>",
        lambda: b"<n " + name + b'="1"/>',
        lambda: b"<n xmlns:" + name + b'="urn:x"/>',
        lambda: b'<n a="' + b"x" * (65_536 + more) + b'"/>',
        lambda: b'<n xmlns="urn:' + b"x" * (2_044 + more) + b'"/>',
        lambda: b"<n>" + b'<n xmlns:p="urn:x"><!--' * 20 + b"-->" + b"</n>" * 21,
        lambda: b"<n " + b"\n" * chance.choice((600, 1_100)) + b'a="1"/>',
        lambda: b"<n>" + b"".join(b"<n>%d</n>" % at for at in range(700)) + b"</n>",
        lambda: b"<n/>" * (50_000 + more) if chance.random() < 0.02 else b"<n/>",
        lambda: b"<n>x</n>" * 34_000 if chance.random() < 0.02 else b"<n/>",
    )
    return _within(chance, octets, _TEXTS, chance.choice(large)())


def _within(chance: random.Random, octets: bytes, place: re.Pattern[bytes], piece: bytes) -> bytes:
    found = list(place.finditer(octets))
    if not found:
        return octets
    start, end = chance.choice(found).span(1)
    at = chance.randint(start, end)
    return octets[:at] + piece + octets[at:]


_MUTATIONS: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    *(_cut, _without, _flipped, _inserted, _in_text, _as_section, _in_tag, _in_front),
    *(_behind, _encoded, _large),
    *(_repeated, _dropped, _as_child, _other_text, _other_value),
)
_WEIGHTS = (1, 1, 2, 2, 6, 4, 6, 4, 2, 1, 4, 7, 3, 3, 10, 7)
