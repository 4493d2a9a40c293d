"""Packages: an envelope and the attachments that travel beside it."""

from mediation.model import Packaging

__all__ = ["Packaging"]
