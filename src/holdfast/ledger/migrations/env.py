"""Alembic's way in: the connection is ours, and so is the transaction around it."""

from alembic import context

from holdfast.ledger.tables import Base

if hasattr(context, "config"):  # else nobody migrates: the module was only looked at
    context.configure(
        connection=context.config.attributes["connection"],
        target_metadata=Base.metadata,
        render_as_batch=True,
    )
    context.run_migrations()
