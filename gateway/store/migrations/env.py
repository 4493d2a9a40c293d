"""Alembic runs this for every command; `upgrade` hands in the connection."""

from alembic import context

from gateway.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transaction_per_migration=False,
)
context.run_migrations()
