"""The errors of this floor."""

from filters import Refused


class MediationError(Refused):
    """A message that cannot be read, or that asks for what the specification refuses."""
