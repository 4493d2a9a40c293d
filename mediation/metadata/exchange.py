"""WS-MetadataExchange of September 2004, with WS-Transfer's Get by which clients of DPWS ask for
the same, and of March 2011 (W3C Recommendation): `SPECIFICATION_2004_09`, `SPECIFICATION_2011_03`.

An unknown dialect is not an error in either: there is no section in it.
"""

import re
from collections.abc import Mapping

from lxml import etree

from filters import Reason
from mediation import names
from mediation.metadata.documents import CHOSEN, DIALECTS
from mediation.model.errors import MediationError
from mediation.model.requests import (
    Arrival,
    Context,
    GetMetadata,
    Metadata,
    MetadataSection,
    Operation,
    Request,
    Response,
)
from mediation.model.specification import Answer, Specification
from mediation.model.versions import Family, Version
from mediation.soap.envelopes import elements, local_name, text_of, xml_attribute

MAX_DIALECTS = 16
"""The most dialects that one request asks for."""
_OLD, _NEW, _TRANSFER = names.MEX_2004_09, names.MEX_2011_03, names.TRANSFER_2004_09
_CLARK = re.compile(r"\{([^{}]*)\}[^{}]+")
_EVERYTHING = tuple((dialect, "") for dialect in DIALECTS)
_CHOSEN = tuple((dialect, "") for dialect in CHOSEN)


class Requests200409:
    """GetMetadata, and WS-Transfer's Get, whose body is empty."""

    namespaces = frozenset({_OLD, _TRANSFER})
    elements: Mapping[str, Operation] = {
        f"{{{_OLD}}}GetMetadata": Operation.GET_METADATA,
        f"{{{_TRANSFER}}}Get": Operation.TRANSFER_GET,
    }
    actions: Mapping[str, Operation] = {
        f"{_OLD}/GetMetadata/Request": Operation.GET_METADATA,
        f"{_TRANSFER}/Get": Operation.TRANSFER_GET,
    }

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        if names.WSMAN in context.header_namespaces:
            raise MediationError(
                Reason.ACTION_UNSUPPORTED,
                "Get of WS-Management is not offered: there are no resources here.",
            )
        said = {local_name(child): text_of(child) for child in elements(element)}
        dialect = said.get("Dialect", "")
        if operation is Operation.TRANSFER_GET or not dialect:
            return GetMetadata(_CHOSEN)
        if dialect == _OLD:
            return GetMetadata(_EVERYTHING)
        return GetMetadata(((dialect, said.get("Identifier", "")),))

    def write(self, response: Response, context: Context) -> Answer:
        sections = response.sections if isinstance(response, Metadata) else ()
        body = _metadata(_OLD, [_section(each, each.dialect) for each in sections])
        if context.operation is Operation.TRANSFER_GET:
            return Answer(f"{_TRANSFER}/GetResponse", body)
        return Answer(f"{_OLD}/GetMetadata/Response", body)


class Requests201103:
    """GetMetadata, whose dialects are the names of root elements, and GetWSDL."""

    namespaces = frozenset({_NEW})
    elements: Mapping[str, Operation] = {
        f"{{{_NEW}}}{operation.value}": operation
        for operation in (Operation.GET_METADATA, Operation.GET_WSDL)
    }
    actions: Mapping[str, Operation] = {
        f"{_NEW}/{operation.value}": operation
        for operation in (Operation.GET_METADATA, Operation.GET_WSDL)
    }

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        if operation is Operation.GET_WSDL:
            return GetMetadata(((names.WSDL, ""),))
        asked = [child for child in elements(element) if local_name(child) == "Dialect"]
        if len(asked) > MAX_DIALECTS:
            raise MediationError(
                Reason.MESSAGE_INVALID, f"GetMetadata has more than {MAX_DIALECTS} dialects."
            )
        if not asked:
            return GetMetadata(_CHOSEN)
        wanted: dict[tuple[str, str], None] = {}
        for each in asked:
            dialect = _namespace_of_type(each)
            if dialect == _NEW:
                wanted |= dict.fromkeys(_EVERYTHING)
            else:
                wanted[dialect, (each.get("Identifier") or "").strip()] = None
        return GetMetadata(tuple(wanted))

    def write(self, response: Response, context: Context) -> Answer:
        sections = response.sections if isinstance(response, Metadata) else ()
        if context.operation is Operation.GET_WSDL:
            inner = b"".join(each.content for each in sections).decode()
        else:
            inner = _metadata(_NEW, [_section(each, each.name) for each in sections])
        name = f"{(context.operation or Operation.GET_METADATA).value}Response"
        return Answer(f"{_NEW}/{name}", f'<mex:{name} xmlns:mex="{_NEW}">{inner}</mex:{name}>')


def _namespace_of_type(dialect: etree._Element) -> str:
    """The namespace of the root element that ``Type`` names: ``{uri}local``, or a QName."""
    name = (dialect.get("Type") or "").strip()
    found = _CLARK.fullmatch(name)
    if found:
        return found[1]
    return dialect.nsmap.get(name.rpartition(":")[0] or None, "")


def _metadata(namespace: str, sections: list[str]) -> str:
    return f'<mex:Metadata xmlns:mex="{namespace}">{"".join(sections)}</mex:Metadata>'


def _section(section: MetadataSection, dialect: str) -> str:
    return (
        f"<mex:MetadataSection Dialect={xml_attribute(dialect)} "
        f"Identifier={xml_attribute(section.identifier)}>{section.content.decode()}"
        "</mex:MetadataSection>"
    )


SPECIFICATION_2004_09 = Specification(
    Version.METADATA_2004_09,
    Family.METADATA,
    "WS-MetadataExchange 2004/09",
    requests=Requests200409(),
)
SPECIFICATION_2011_03 = Specification(
    Version.METADATA_2011_03,
    Family.METADATA,
    "WS-MetadataExchange 2011/03",
    requests=Requests201103(),
)
