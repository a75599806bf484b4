"""What a search is, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Found:
    """What a search found.

    Attributes
    ----------
    sets : sequence of sequences of int
        The units to delete at budgets 0, 1, … M, or fewer; the last is then repeated.
    upper : sequence of float, optional
        A proven upper bound on the value at every budget.
    draws : sequence of sequences of int, optional
        Several orders of units in place of one; what they do is averaged.
    notes : dict
    """

    sets: Sequence[Sequence[int]]
    upper: Any = None
    draws: Sequence[Sequence[int]] | None = None
    notes: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, returned: Any) -> Found:
        """Sets alone, or a pair of sets and upper bounds."""
        if isinstance(returned, tuple):
            return cls(*returned)
        return cls(returned)


@dataclass(frozen=True)
class Method:
    """A search by name.

    Attributes
    ----------
    run : callable
        ``(attack, budget, rng, **options)`` → :class:`Found`, or sets, or sets and upper bounds.
    attack : {"model", "algebra", "refits"}
        Which attack it wants: what the model allows; the algebra alone; every choice refitted.
    needs_algebra : bool
        Whether it makes sense only where deletions can be predicted.
    needs_triple : bool
        Whether it goes through ``C``, ``P`` and ``r`` themselves.
    otherwise : str, optional
        The search that stands in for it where they cannot.
    """

    run: Callable[..., Any]
    attack: Literal["model", "algebra", "refits"] = "model"
    needs_algebra: bool = True
    needs_triple: bool = False
    otherwise: str | None = None

    @property
    def of_attack(self) -> tuple[str, ...]:
        """Options that are the attack's."""
        return ("surrogate", "leaders", "max_refits") if self.attack == "refits" else ()
