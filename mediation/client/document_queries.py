"""The query of a subscription to document metadata, as a recipient writes it (IHE DSUB)."""

from collections.abc import Mapping

from filters import Reason, dialects
from filters.compiling import document_query_id
from mediation.model.errors import MediationError
from mediation.soap.envelopes import xml_attribute, xml_text


def document_query(parameters: Mapping[str, str]) -> tuple[str, str]:
    """Write an AdhocQuery: its text, and the dialect of that.

    Args:
        parameters: Values by the names of parameters (``$XDSDocumentEntryPatientId``), which say
            what the subscription is about. A value is one alone, or a list as IHE writes it:
            ``('history^^classes','summary^^classes')``.

    Raises:
        MediationError: ``FILTER_UNKNOWN``: no query of subscriptions has these parameters.
    """
    id_ = document_query_id(parameters)
    if id_ is None:
        text = f"no query of subscriptions has the parameters {', '.join(parameters) or '(none)'}"
        raise MediationError(Reason.FILTER_UNKNOWN, text)
    slots = "".join(
        f"<rim:Slot name={xml_attribute(name)}><rim:ValueList>"
        f"<rim:Value>{_value(value)}</rim:Value></rim:ValueList></rim:Slot>"
        for name, value in parameters.items()
    )
    query = f'<rim:AdhocQuery xmlns:rim="{dialects.EBRIM_QUERY}" id="{id_}">{slots}'
    return f"{query}</rim:AdhocQuery>", dialects.EBRIM_QUERY


def _value(value: str) -> str:
    if value[:1] in ("'", "("):
        return xml_text(value)
    quoted = value.replace("'", "''")
    return xml_text(f"'{quoted}'")
