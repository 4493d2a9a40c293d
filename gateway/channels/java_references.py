"""Ports as Java's naming keeps them in LDAP directories (RFC 2713, "Representing JNDI References").

    javaClassName: soaprmi.port.Port
    javaReferenceAddress: #0#soaprmiport#<Port>..</Port>

The first character of an address is the delimiter, whichever it is; position, type and content
follow. A doubled delimiter before the content says that it is a serialized Java object. Nothing is
ever deserialized, and no code is fetched: an entry that asks for either is refused whole.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from filters import Reason, Refused
from mediation.grid_events import read_port, write_port
from mediation.model.messages import EndpointReference

CLASS: Final = "soaprmi.port.Port"
TYPE: Final = "soaprmiport"
OBJECT_CLASSES: Final = ("javaObject", "javaNamingReference")
CLASS_NAME: Final = "javaClassName"
ADDRESS: Final = "javaReferenceAddress"
HOSTILE: Final = ("javaSerializedData", "javaFactory", "javaCodebase", "javaRemoteLocation")
"""Attributes that have a reader make an object, or fetch code."""
MOST = 16
"""Addresses of one entry that are looked at."""
LONGEST = 16 * 1024
_DELIMITERS = "#|!^~$%;,:*+"


def write_attributes(reference: EndpointReference) -> dict[str, list[str]]:
    """The attributes of an entry for *reference*, without its object classes."""
    port = write_port(reference).decode()
    mark = next((one for one in _DELIMITERS if one not in port), None)
    # Readers take what follows the third delimiter whole; other software may not.
    mark = mark or _DELIMITERS[0]
    return {CLASS_NAME: [CLASS], ADDRESS: [f"{mark}0{mark}{TYPE}{mark}{port}"]}


def read_attributes(attributes: Mapping[str, Iterable[bytes]]) -> EndpointReference:
    """The reference that an entry has.

    Args:
        attributes: Those of the entry, as they came, by names in whatever case.

    Raises:
        Refused: It has none that may be read; the text says why.
    """
    by_name = {name.lower(): list(values) for name, values in attributes.items()}
    for name in HOSTILE:
        if by_name.get(name.lower()):
            raise _unusable(f"The entry has {name}, which nobody may follow.")
    names = {value.decode(errors="replace") for value in by_name.get(CLASS_NAME.lower(), [])}
    if names != {CLASS}:
        raise _unusable(f"The entry is not of the class {CLASS}.")
    why = ""
    for address in by_name.get(ADDRESS.lower(), [])[:MOST]:
        try:
            return read_port(_content(address))
        except Refused as refused:
            why = why or refused.text
    raise _unusable(why or "The entry has no address.")


def _content(address: bytes) -> bytes:
    """The content of a reference address that is a port.

    Raises:
        Refused: It is none, or a serialized object.
    """
    if len(address) > LONGEST:
        raise _unusable("An address is too long.")
    mark, rest = address[:1], address[1:]
    position, first, rest = rest.partition(mark) if mark else (b"", b"", b"")
    kind, second, content = rest.partition(mark) if first else (b"", b"", b"")
    if not second or not position.isdigit():
        raise _unusable("An address is not of the form #0#type#content.")
    if content.startswith(mark):
        raise _unusable("An address is a serialized object, which nobody may read.")
    if kind.decode(errors="replace") != TYPE:
        raise _unusable(f"An address is not of the type {TYPE}.")
    return content


def _unusable(text: str) -> Refused:
    return Refused(Reason.EPR_INVALID, text)
