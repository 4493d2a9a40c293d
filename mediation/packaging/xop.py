"""XML-binary Optimized Packaging (XOP 1.0): elements whose base64 text stands in a part of a
package, named by an ``xop:Include`` that is all they hold."""

import binascii
from collections.abc import Iterable
from dataclasses import replace
from urllib.parse import unquote

from lxml import etree

from filters import DocumentLimits, Reason, parse_document
from filters.documents import DEFAULT_LIMITS
from mediation import names
from mediation.model.errors import MediationError
from mediation.model.messages import Attachment

_INCLUDE = f"{{{names.XOP}}}Include"


def resolve(
    root: bytes,
    attachments: dict[str, Attachment],
    *,
    most: int,
    documents: DocumentLimits = DEFAULT_LIMITS,
    learnt: set[str] | None = None,
) -> bytes | None:
    """Put the base64 of the included parts into *root*, and return it in UTF-8 ("Interpreting XOP
    Packages"); None where it includes none.

    Args:
        attachments: By Content-ID; those that are included are taken out.
        most: Octets that the result may have, but for what lxml writes differently.
        documents: Its other limits.
        learnt: Collects the names in it; see `parse_document`.

    Raises:
        FilterError: What is wrong with it as a document.
        MediationError: ``MESSAGE_INVALID``: an ``xop:Include`` is not alone in its element, or
            names what is not a part, or one that another has named. ``TOO_LARGE``.
    """
    document = parse_document(root, limits=replace(documents, octets=most), names=learnt)
    includes = list(document.iter(_INCLUDE))
    if not includes:
        return None
    size = len(root)
    for include in includes:
        parent = include.getparent()
        if parent is None or len(parent) != 1 or len(include) or _text_in(parent, include):
            raise _invalid("An xop:Include is not all that its element holds.")
        href = (include.get("href") or "").strip()
        if href[:4].lower() != "cid:":
            raise _invalid("An xop:Include refers to something that is not a part of the package.")
        part = _take(attachments, (href[4:], unquote(href[4:])))
        size += 4 * len(part.content) // 3
        if size > most:
            raise MediationError(Reason.TOO_LARGE, "The envelope is too large.")
        parent.remove(include)
        parent.text = binascii.b2a_base64(part.content, newline=False).decode()
    return etree.tostring(document, encoding="UTF-8")


def _text_in(parent: etree._Element, include: etree._Element) -> bool:
    texts = (parent.text, include.text, include.tail)
    return any(text and not text.isspace() for text in texts)


def _take(attachments: dict[str, Attachment], ids: Iterable[str]) -> Attachment:
    for id_ in ids:
        if id_ in attachments:
            return attachments.pop(id_)
    raise _invalid("An xop:Include names no part of the package, or one that another has named.")


def _invalid(text: str) -> MediationError:
    return MediationError(Reason.MESSAGE_INVALID, text)
