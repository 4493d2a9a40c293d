"""WS-MakeConnection 1.1 on the wire: the selection of a MakeConnection, and the header block that
tells whether more messages wait. Read by mailboxes and by reliable messaging alike."""

from lxml import etree

from filters import Reason
from mediation import names
from mediation.model.errors import MediationError
from mediation.model.values import checked_dataclass
from mediation.soap.envelopes import elements, text_of
from mediation.soap.splicing import add_header_blocks

MAKE_CONNECTION_ACTION = f"{names.MAKE_CONNECTION_1_1}/MakeConnection"
MAKE_CONNECTION = f"{{{names.MAKE_CONNECTION_1_1}}}MakeConnection"
_ADDRESS = f"{{{names.MAKE_CONNECTION_1_1}}}Address"


@checked_dataclass(frozen=True, slots=True)
class Selection:
    """What a MakeConnection selects by.

    Attributes:
        addresses: The content of each ``wsmc:Address``.
        others: The names of the other elements.
    """

    addresses: tuple[str, ...] = ()
    others: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """The address whose messages are asked for.

        Raises:
            MediationError: ``SELECTION_MISSING``, ``SELECTION_UNSUPPORTED``.
        """
        unknown = (*self.others, *(_ADDRESS for _ in self.addresses[1:]))
        if unknown:
            raise MediationError(
                Reason.SELECTION_UNSUPPORTED, "One wsmc:Address selects.", names=unknown
            )
        address = self.addresses[0] if self.addresses else ""
        if not address:
            raise MediationError(Reason.SELECTION_MISSING, "wsmc:Address is missing.")
        return address


def read_selection(element: etree._Element) -> Selection:
    """Read the selection of a MakeConnection element. It is not judged here: a message is read
    before it is known whether anybody is to answer it."""
    addresses: list[str] = []
    others: list[str] = []
    for child in elements(element):
        if child.tag == _ADDRESS:
            addresses.append(text_of(child))
        else:
            others.append(str(child.tag))
    return Selection(tuple(addresses), tuple(others))


def with_pending(envelope: bytes, pending: bool) -> bytes:
    """Add a header block to *envelope* (UTF-8) that says whether more messages wait for the same
    selection (section 3.3). All else stays as it is, byte for byte: it may be signed."""
    block = b'<wsmc:MessagePending xmlns:wsmc="%b" pending="%b"/>' % (
        names.MAKE_CONNECTION_1_1.encode(),
        b"true" if pending else b"false",
    )
    return add_header_blocks(envelope, block)
