"""Events of the Windows event log (MS-EVEN6, "Event")."""

import re

from lxml import etree

from filters import Step, Topic
from mediation import names
from mediation.soap.envelopes import text_of

_EVENT = f"{{{names.WINDOWS_EVENTS}}}Event"
_CHANNEL = f"{{{names.WINDOWS_EVENTS}}}System/{{{names.WINDOWS_EVENTS}}}Channel"
_NO_NAME = re.compile(r"[^\w.-]")
_MOST_STEPS = 8


def channel_topic(event: etree._Element) -> Topic | None:
    """The topic of an event that names its channel: the channel's path, in which every character
    that no name of a topic has is an underscore. None for an event of somebody else."""
    if event.tag != _EVENT:
        return None
    channel = event.find(_CHANNEL)
    pieces = text_of(channel).split("/")[:_MOST_STEPS] if channel is not None else []
    steps = [_NO_NAME.sub("_", piece).lstrip(".") for piece in pieces]
    if not steps or not all(steps):
        return None
    return Topic(tuple(Step(None, step) for step in steps))
