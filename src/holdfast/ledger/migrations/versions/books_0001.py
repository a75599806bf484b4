"""The first books, with a log that nobody can change afterwards."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

#: the log grows and does nothing else
_SQLITE = """
CREATE TRIGGER log_{when} BEFORE {when} ON log
BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END
"""
_POSTGRES = (
    """
CREATE FUNCTION log_is_append_only() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'the log is append-only'; END $$
""",
    """
CREATE TRIGGER log_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON log
FOR EACH STATEMENT EXECUTE FUNCTION log_is_append_only()
""",
)


def upgrade() -> None:
    """From nothing."""
    op.create_table(
        "books",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("opened", sa.Text(), nullable=False),
        sa.Column("files", sa.Text(), nullable=False),
        sa.Column("settings", sa.JSON(none_as_null=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_books")),
    )
    op.create_table(
        "chores",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_chores")),
    )
    op.create_table(
        "files",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("made", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_files")),
        sa.UniqueConstraint("path", name=op.f("uq_files_path")),
    )
    op.create_table(
        "log",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("at", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("before", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_log")),
    )
    op.create_table(
        "models",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("settings", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("target", sa.Double(), nullable=False),
        sa.Column("rows", sa.Integer(), nullable=False),
        sa.Column("lineage", sa.Integer(), nullable=False),
        sa.Column("erased", sa.Integer(), nullable=False),
        sa.Column("registered", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("path", sa.Text(), nullable=True),
        sa.Column("table_path", sa.Text(), nullable=True),
        sa.Column("table_sha256", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_models")),
    )
    op.create_table(
        "people",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("salt", sa.Text(), nullable=False),
        sa.Column("token", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_people")),
        sa.UniqueConstraint("name", name=op.f("uq_people_name")),
        sa.UniqueConstraint("token", name=op.f("uq_people_token")),
    )
    op.create_table(
        "promises",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("person_id", sa.Integer(), nullable=True),
        sa.Column("reference", sa.Text(), nullable=True),
        sa.Column("factual", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("point", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("model_id", sa.Integer(), nullable=False),
        sa.Column("target", sa.Double(), nullable=False),
        sa.Column("margin", sa.Double(), nullable=True),
        sa.Column("certified", sa.Integer(), nullable=True),
        sa.Column("certified_under", sa.Integer(), nullable=True),
        sa.Column("issued", sa.Date(), nullable=False),
        sa.Column("expires", sa.Date(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("since", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("mends", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(
            ["certified_under"], ["models.id"], name=op.f("fk_promises_certified_under")
        ),
        sa.ForeignKeyConstraint(["mends"], ["promises.id"], name=op.f("fk_promises_mends")),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name=op.f("fk_promises_model_id")),
        sa.ForeignKeyConstraint(["person_id"], ["people.id"], name=op.f("fk_promises_person_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_promises")),
    )
    op.create_index(op.f("ix_promises_mends"), "promises", ["mends"], unique=False)
    op.create_index(op.f("ix_promises_model_id"), "promises", ["model_id"], unique=False)
    op.create_index(op.f("ix_promises_person_id"), "promises", ["person_id"], unique=False)
    op.create_index(op.f("ix_promises_state"), "promises", ["state"], unique=False)
    op.create_index("ix_promises_state_certified", "promises", ["state", "certified"], unique=False)
    op.create_table(
        "requests",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("reference", sa.Text(), nullable=False),
        sa.Column("person_id", sa.Integer(), nullable=True),
        sa.Column("received", sa.Date(), nullable=False),
        sa.Column("due", sa.Date(), nullable=False),
        sa.Column("extension", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("since", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("model_id", sa.Integer(), nullable=True),
        sa.Column("told", sa.JSON(none_as_null=True), nullable=False),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name=op.f("fk_requests_model_id")),
        sa.ForeignKeyConstraint(["person_id"], ["people.id"], name=op.f("fk_requests_person_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_requests")),
        sa.UniqueConstraint("reference", name=op.f("uq_requests_reference")),
    )
    op.create_index(op.f("ix_requests_due"), "requests", ["due"], unique=False)
    op.create_index(op.f("ix_requests_model_id"), "requests", ["model_id"], unique=False)
    op.create_index(op.f("ix_requests_person_id"), "requests", ["person_id"], unique=False)
    op.create_index(op.f("ix_requests_state"), "requests", ["state"], unique=False)
    op.create_table(
        "breaks",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("model_id", sa.Integer(), nullable=False),
        sa.Column("promise_id", sa.Integer(), nullable=False),
        sa.Column("before", sa.Double(), nullable=True),
        sa.Column("after", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name=op.f("fk_breaks_model_id")),
        sa.ForeignKeyConstraint(["promise_id"], ["promises.id"], name=op.f("fk_breaks_promise_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_breaks")),
    )
    op.create_index(op.f("ix_breaks_model_id"), "breaks", ["model_id"], unique=False)
    op.create_index(op.f("ix_breaks_promise_id"), "breaks", ["promise_id"], unique=False)
    op.create_table(
        "letters",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("promise_id", sa.Integer(), nullable=False),
        sa.Column("content", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("due", sa.Text(), nullable=False),
        sa.Column("written", sa.Text(), nullable=True),
        sa.Column("told", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["promise_id"], ["promises.id"], name=op.f("fk_letters_promise_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_letters")),
    )
    op.create_index(op.f("ix_letters_promise_id"), "letters", ["promise_id"], unique=False)
    if op.get_bind().dialect.name == "sqlite":
        for when in ("UPDATE", "DELETE"):
            op.execute(_SQLITE.format(when=when))
    else:
        for statement in _POSTGRES:
            op.execute(statement)
