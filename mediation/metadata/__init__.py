"""WS-MetadataExchange: what the gateway tells of its endpoint, and how it is asked.

Public are the names below: the documents that this room makes. The gateway puts them together with
the WSDL description, which is above the specifications.
"""

from mediation.metadata.documents import (
    DIALECTS,
    write_event_descriptions,
    write_policy,
)

__all__ = ["DIALECTS", "write_event_descriptions", "write_policy"]
