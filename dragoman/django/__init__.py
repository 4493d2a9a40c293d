"""Outbox and inbox in a database of Django: ``Outbox(DjangoDatabase("default"), ...)``."""

from gateway.client.outbox.django_database import DjangoDatabase

__all__ = ["DjangoDatabase"]
