"""``nats:``, an adapter for NATS JetStream, in a package of its own: a model for one of yours.

settings.py     the URL and the settings
subjects.py     interests as the subjects of a stream
messages.py     a notification as a message, and back
connection.py   one connection, and the acknowledgements that wait for it
adapter.py      all of it as an `adapters.Adapter`: begin here
"""

from dragoman_nats.adapter import NatsAdapter

__all__ = ["NatsAdapter"]
