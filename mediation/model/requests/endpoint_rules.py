"""Rules of the address that a message came to."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from filters import Reason, Refused, one_line
from mediation.model.calling import USUAL_CALLS, CallRules
from mediation.model.requests.operations import Operation
from mediation.model.requests.sequences import Sequences
from mediation.model.versions import Version

FaultTexts: TypeAlias = Mapping[tuple[Reason, Operation | None, str], str]
"""What the texts of faults begin with, as `EndpointRules.fault_texts`."""


@dataclass(frozen=True, slots=True)
class EndpointRules:
    """Rules of the address that a message came to, where its peers expect them.

    Attributes:
        answers: The specification in which bare events are answered, whatever their action; None:
            only those with an action that a specification answers are.
        known_events: Bare events are taken with a known action alone.
        event_is_root: The root of what XPath filters see is the event, not the envelope.
        lexical_names: XPath filters compare names as they are written, too.
        actions: Actions that only messages with an element of their operation may have.
        own: The specification of these actions.
        topics: The dialect of the topic in the URL for a Subscribe, and of a topic expression of
            WS-BaseNotification whose dialect is not known; None: as everywhere.
        one_addressing: The consumer's endpoint reference counts as written in the version of the
            addressing headers.
        modes: The delivery modes that Subscribe may ask for; None: all.
        fault_texts: What the texts of faults begin with, by reason, operation, and what is missing;
            a row without an operation, or with nothing missing, is for the others. ``{}`` is where
            the identifier stands that the request names.
        sequences: Whether messages may come, or must, in sequences.
        calls: What it decides for calls of Grid SOAP Events.
    """

    answers: Version | None = None
    known_events: bool = False
    event_is_root: bool = False
    lexical_names: bool = False
    actions: Mapping[str, Operation] = field(default_factory=dict, hash=False)
    own: Version | None = None
    topics: str | None = None
    one_addressing: bool = False
    modes: frozenset[str] | None = None
    fault_texts: FaultTexts = field(default_factory=dict, hash=False)
    sequences: Sequences = Sequences.OFF
    calls: CallRules = USUAL_CALLS

    def operation_of(self, *actions: str | None) -> Operation | None:
        """The operation that the first of the *actions* asks for which is a row of ours."""
        rows = self.actions
        return next((rows[each] for each in actions if each is not None and each in rows), None)

    def fault_text(
        self, refused: Refused, operation: Operation | None, identifiers: Iterable[str] = ()
    ) -> str:
        """The prescribed beginning of a fault's text; empty if none is prescribed.

        Args:
            identifiers: Those by which the request names a subscription.
        """
        texts = self.fault_texts
        for missing in (refused.missing, ""):
            for asked in (operation, None):
                if (text := texts.get((refused.reason, asked, missing))) is not None:
                    return text.replace("{}", one_line(next(filter(None, identifiers), "")))
        return ""


ANYWHERE = EndpointRules()
