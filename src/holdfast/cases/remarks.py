"""Remarks about the data and the model, told as they arise."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.audits.about import Note


class Remarks:
    """What was done to the data, in order; each is told at once.

    Parameters
    ----------
    tell : callable, optional
        Called with every remark when it is made.
    """

    def __init__(self, tell: Callable[[str], None] | None = None):
        self.notes: list[Note] = []
        self._tell = tell or (lambda text: None)

    def add(self, text: str, shareable: bool = False, warning: bool = False) -> None:
        """A remark; ``shareable`` where it says nothing about few people."""
        self.notes.append(Note(text, shareable, warning))
        self._tell(text)
