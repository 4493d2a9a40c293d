"""What the address that a message came to decides."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from filters import Reason
from mediation.model.calling import USUAL_CALLS, CallRules
from mediation.model.requests.operations import Operation
from mediation.model.requests.sequences import Sequences
from mediation.model.versions import Version


@dataclass(frozen=True, slots=True)
class EndpointRules:
    """What the address that a message came to decides, where its peers expect it.

    Attributes:
        answers: The specification in which bare events are answered, whatever their action; None:
            only those with an action that a specification answers are.
        known_events: Bare events are taken with a known action alone.
        event_is_root: The root of what XPath filters see is the event, not the envelope.
        lexical_names: XPath filters compare names as they are written, too.
        fault_texts: What the texts of faults begin with, by reason and operation; a row without an
            operation is for the others.
        sequences: Whether messages may come, or must, in sequences.
        calls: What it decides for calls of Grid SOAP Events.
    """

    answers: Version | None = None
    known_events: bool = False
    event_is_root: bool = False
    lexical_names: bool = False
    fault_texts: Mapping[tuple[Reason, Operation | None], str] = field(
        default_factory=dict, hash=False
    )
    sequences: Sequences = Sequences.OFF
    calls: CallRules = USUAL_CALLS

    def fault_text(self, reason: Reason, operation: Operation | None) -> str:
        """What the text of a fault begins with; empty where nothing is prescribed."""
        texts = self.fault_texts
        return texts.get((reason, operation)) or texts.get((reason, None), "")


ANYWHERE = EndpointRules()
