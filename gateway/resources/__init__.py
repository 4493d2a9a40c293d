"""WS-Resources: what WSRF may ask of anything with properties and a lifetime, whichever room has it
(`resource`), and the handlers of those requests (`operations`)."""

from gateway.resources.resource import Resource, Resources, ResourceUnknown, end_if_over

__all__ = ["Resource", "ResourceUnknown", "Resources", "end_if_over"]
