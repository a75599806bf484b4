"""What is known of the files behind a report, and which remarks about them may be shared."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Note:
    """A remark about the data or the model.

    Attributes
    ----------
    text : str
    shareable : bool
        Whether it may stand in the report that is shared; others are for whoever runs the command.
    warning : bool
        Whether something should be done about it.
    """

    text: str
    shareable: bool = False
    warning: bool = False

    def __str__(self) -> str:
        return self.text


@dataclass
class About:
    """What the report's last section says of where things came from.

    Attributes
    ----------
    reference : str
        By chance: the same in the report and in the case file, so that one finds the other.
    table, table_sha256, model_sha256 : str or None
        The training file's name; hashes of the files, for the case file only: whoever has the rest
        of a table could try guesses at a row against them.
    preprocessing : list of str
        What stands before the model, in words.
    method : str or None
        How recourses were made.
    expired, not_yet_issued : int
        Promises left out for their dates.
    issued_under : dict or None
        Promises by the model they were made under.
    rate, horizon : str or None
        How many erasures are expected, as it was asked.
    settings : dict
        Settings beside the audit's own.
    notes : list of Note
    left_out : list of pairs of str
        Promises that were not audited, by id, and why; for the case file only.
    """

    reference: str = field(default_factory=lambda: secrets.token_hex(8))
    table: str | None = None
    table_sha256: str | None = None
    model_sha256: str | None = None
    preprocessing: list[str] = field(default_factory=list)
    method: str | None = None
    expired: int = 0
    not_yet_issued: int = 0
    issued_under: dict[str, int | None] | None = None
    rate: str | None = None
    horizon: str | None = None
    settings: dict[str, str | int | float | bool | None] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list, repr=False)

    @property
    def shared_notes(self) -> list[str]:
        """The remarks that may be shared."""
        return [note.text for note in self.notes if note.shareable and not note.warning]

    @property
    def warnings(self) -> list[str]:
        """What should be done something about."""
        return [note.text for note in self.notes if note.warning]
