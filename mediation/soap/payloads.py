"""Payloads, cut out of their envelopes as their publishers wrote them.

    <s:Envelope xmlns:s=".." xmlns:t="..">      an envelope declares for everybody

      <t:speed unit="7">t:knots</t:speed>       the payload uses t, but not s
                       |
    <t:speed xmlns:t=".." unit="7">t:knots</t:speed>

Of what the envelope declares a payload takes along what it uses: in names of elements and
attributes, and in texts and values that may be QNames (``t:knots``), for only an application knows
which are. What the payload declares itself stays as it is, used or not.
"""

import re
from copy import copy
from functools import lru_cache

from lxml import etree

from mediation.model.versions import Soap, Wsa
from mediation.soap.envelopes import envelope_start, octets_of, xml_attribute

_OUR_STARTS = tuple(envelope_start(soap, wsa).encode() for soap in Soap for wsa in (*Wsa, None))

_START_TAG = re.compile(rb"<[^\s/>]++([^>\"']*+(?:(?:\"[^\"]*+\"|'[^']*+')[^>\"']*+)*)>")
_ATTRIBUTE = re.compile(rb"\s([^\s=]+)=(?:\"[^\"]*\"|'[^']*')")
_UNPREFIXED = re.compile(rb"<[^\s/>:!?<]++[\s/>]")
"""The start of an element without a prefix. In a comment anything may stand: what begins there is
read to the next beginning, and no further."""


def payload_of(element: etree._Element, *, in_ours: bool = False) -> bytes:
    """Write *element* as a document of its own, with the declarations of its ancestors that it
    uses.

    Args:
        in_ours: Its envelope is one that we rendered (`is_ours`). There a payload was whole before,
            so that a text which looks like a prefix of ours means something else.
    """
    parent = element.getparent()
    if parent is None:
        return octets_of(element)
    # Not by its length, for which lxml would count all children, for each of them.
    alone = element.getprevious() is None and element.getnext() is None
    octets = _only_child(parent) if alone else octets_of(copy(element))
    prefixed = b":" in octets
    if prefixed and b"PrefixList" in octets:
        return octets_of(element)
    used = [
        (prefix, uri)
        for prefix, uri in parent.nsmap.items()
        if uri and (prefixed or not prefix) and uses(octets, prefix, names_alone=in_ours)
    ]
    if not used:
        return octets
    start = _start_tag(octets)
    # By their names: in a value " xmlns:t=" is but text.
    own = {found[1].decode() for found in _ATTRIBUTE.finditer(start[1])}
    missing = "".join(
        f" {name}={xml_attribute(uri)}"
        for name, uri in ((f"xmlns:{prefix}" if prefix else "xmlns", uri) for prefix, uri in used)
        if name not in own
    )
    behind_name = start.start(1)
    return octets[:behind_name] + missing.encode() + octets[behind_name:]


def is_ours(envelope: bytes) -> bool:
    """Return whether *envelope* begins like the envelopes that we render."""
    return envelope.startswith(_OUR_STARTS)


def _only_child(parent: etree._Element) -> bytes:
    """The only child of *parent*, without the declarations of its ancestors, which lxml writes on
    the element that it is asked for."""
    octets = octets_of(parent)
    # In texts and values "<" and ">" are written "&lt;" and "&gt;", so these begin and end a tag.
    begin = octets.index(b"<", 1)
    end = octets.rindex(b">", begin, octets.rindex(b"</")) + 1
    return octets[begin:end]


def _start_tag(octets: bytes) -> re.Match[bytes]:
    found = _START_TAG.match(octets)
    assert found is not None, "lxml writes an element"
    return found


def uses(octets: bytes, prefix: str | None, *, names_alone: bool = False) -> bool:
    """Return whether a name of *octets*, an element as lxml writes it, or something that may be
    one, has *prefix*; None: has none."""
    if prefix is None:
        # An unprefixed xsi:type is in the default namespace; other values are not looked at.
        return _UNPREFIXED.search(octets) is not None or b':type="' in octets
    plain, name, text = _patterns(prefix)
    return plain in octets and (name if names_alone else text).search(octets) is not None


def declares(octets: bytes, prefix: str | None) -> bool:
    """Return whether the root of *octets*, as in `uses`, declares *prefix* itself: then nothing
    within means that of the ancestors."""
    name = f"xmlns:{prefix}".encode() if prefix else b"xmlns"
    return any(found[1] == name for found in _ATTRIBUTE.finditer(_start_tag(octets)[1]))


@lru_cache(maxsize=1024)
def _patterns(prefix: str) -> tuple[bytes, re.Pattern[bytes], re.Pattern[bytes]]:
    """The *prefix* with its colon; what finds a name with *prefix*, and what may be one: not the
    end of a longer word (``xmlns:`` for ``s:``), nor in the middle of ``urn:s:a``, but after
    ``child::`` and ``-``."""
    # Each begins with the text that it looks for, and looks behind it later: that is much quicker.
    this = re.escape(f"{prefix}:".encode())
    name = re.compile(rb"%b(?:(?<=<%b)|(?<=\s%b)[^\s=<>\"]+=\")" % (this, this, this))
    text = re.compile(
        rb"%b(?=[A-Za-z_*\x80-\xff])(?<![\w\x80-\xff]%b)(?<![^:]:%b)" % (this, this, this)
    )
    return f"{prefix}:".encode(), name, text
