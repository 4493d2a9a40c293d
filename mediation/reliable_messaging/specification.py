"""WS-ReliableMessaging as specifications among the others, `SPECIFICATION_1_0` and
`SPECIFICATION_1_1`: the requests that make, ask about and end sequences.

What a message says of its own sequence is in header blocks, beside whatever it asks for; of it all
`Context.reliable` tells. The faults are written in `mediation.faults`, of `RmRefused`.
"""

from collections.abc import Mapping

from lxml import etree

from filters import Reason, quoted
from mediation.model.errors import MediationError
from mediation.model.requests import (
    Arrival,
    Context,
    Operation,
    Request,
    Response,
    RunSequence,
    SequenceAnswered,
)
from mediation.model.specification import NOTHING, Answer, Specification
from mediation.model.versions import Family, Version
from mediation.reliable_messaging.versions import Kind, Rm

_WITH_BODY = {
    Kind.CREATE_SEQUENCE: Operation.CREATE_SEQUENCE,
    Kind.CLOSE_SEQUENCE: Operation.CLOSE_SEQUENCE,
    Kind.TERMINATE_SEQUENCE: Operation.TERMINATE_SEQUENCE,
    Kind.CREATE_SEQUENCE_RESPONSE: Operation.ACKNOWLEDGE_SEQUENCE,
    Kind.CLOSE_SEQUENCE_RESPONSE: Operation.ACKNOWLEDGE_SEQUENCE,
    Kind.TERMINATE_SEQUENCE_RESPONSE: Operation.ACKNOWLEDGE_SEQUENCE,
}
"""The responses come where a sequence of ours is acknowledged: what they have is its last word."""
_EMPTY = {
    Kind.LAST_MESSAGE: Operation.LAST_MESSAGE,
    Kind.ACK_REQUESTED: Operation.REQUEST_ACKNOWLEDGEMENT,
    Kind.ACKNOWLEDGEMENT: Operation.ACKNOWLEDGE_SEQUENCE,
}
"""Messages with an empty body, which their actions tell."""


class SequenceRequests:
    """The requests of one version."""

    def __init__(self, rm: Rm) -> None:
        self._rm = rm
        kinds = rm.rules.kinds
        self.namespaces = frozenset({rm.namespace})
        self.elements: Mapping[str, Operation] = {
            f"{{{rm.namespace}}}{kind.value}": operation
            for kind, operation in _WITH_BODY.items()
            if kind in kinds
        }
        self.actions: Mapping[str, Operation] = {
            rm.action(kind): operation for kind, operation in _EMPTY.items() if kind in kinds
        }

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        if context.reliable is None:
            raise MediationError(
                Reason.ACTION_UNSUPPORTED,
                f"WS-ReliableMessaging {self._rm.number} is not offered "
                f"({quoted(operation.value)} was asked for).",
            )
        return RunSequence()

    def write(self, response: Response, context: Context) -> Answer:
        match response:
            case SequenceAnswered(action, envelope):
                return Answer(action, envelope=envelope)
            case _:
                return NOTHING


def _specification(version: Version, rm: Rm) -> Specification:
    return Specification(
        version,
        Family.RELIABLE,
        f"WS-ReliableMessaging {rm.number}",
        requests=SequenceRequests(rm),
    )


SPECIFICATION_1_0 = _specification(Version.WSRM_1_0, Rm.V1_0)
SPECIFICATION_1_1 = _specification(Version.WSRM_1_1, Rm.V1_1)
