"""Sagas: steps with compensations, each in a transaction of the program's database."""

from gateway.client.outbox.message import Fault
from gateway.client.outbox.saga import Saga, SagaRun, Wait

__all__ = ["Fault", "Saga", "SagaRun", "Wait"]
