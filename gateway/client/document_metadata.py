"""A client of IHE's document metadata subscriptions (DSUB), for recipients and registries."""

from filters.dialects import EBRIM_QUERY
from gateway.client.errors import UnsupportedOperation
from gateway.client.messaging import Client, Selector
from mediation.client import document_query
from mediation.model.errors import MediationError


class DocumentClient(Client):
    """A client whose selectors are queries for document metadata: the parameters of one, with their
    values, or the text of an AdhocQuery."""

    def _content_filter(self, selector: Selector) -> tuple[str, str]:
        if isinstance(selector, str):
            return selector, EBRIM_QUERY
        try:
            return document_query(selector)
        except MediationError as refused:
            raise UnsupportedOperation(refused.text) from refused
