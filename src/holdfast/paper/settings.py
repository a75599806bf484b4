"""How large a reproduction is, and what one cell of it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

#: how far recourses go past the target, in standard deviations of the training scores; fixed
#: before anything was measured
OVERSHOOTS = (0.001, 0.01, 0.05, 0.2)
METHODS = ("scfe", "dice", "cem", "growing-spheres")
REGRESSIONS = ("admission", "heloc")
CLASSIFICATIONS = ("admission", "heloc", "compas", "diabetes")
DELETIONS = 14
FOLDS = 5


@dataclass(frozen=True)
class Scale:
    """How much is done.

    Attributes
    ----------
    train : int or None
        Most rows to train on; ``None``: all.
    people : int
        Most people below the target, of the test part.
    methods : tuple of str
        Recourse methods.
    splits, split_people : int
        Splits of the held-out protocol, and people in each: half are searched on.
    draws : int
        Random deletions averaged in the baseline; ``network_draws`` for networks.
    refit_at : tuple of int
        Deletions at which kernel models are refitted in full and networks at all.
    action_people, bound_people : int
        People whose recourse is found again after every deletion; people of the bounds.
    gate_steps : int
        Descent steps of the gates.
    width : int
        Units of the wide network.
    """

    train: int | None = None
    people: int = 500
    methods: tuple[str, ...] = METHODS
    splits: int = 5
    split_people: int = 200
    draws: int = 10
    network_draws: int = 2
    refit_at: tuple[int, ...] = (1, 5, 14)
    action_people: int = 120
    bound_people: int = 100
    gate_steps: int = 1000
    width: int = 10_000


FULL = Scale()
QUICK = Scale(
    train=800,
    people=120,
    methods=("scfe", "growing-spheres"),
    splits=2,
    split_people=60,
    draws=5,
    network_draws=1,
    action_people=25,
    bound_people=20,
    gate_steps=150,
    width=200,
)


@dataclass(frozen=True, order=True)
class Cell:
    """One measurement: a figure's question about one model and one kind of recourse."""

    figure: str
    data: str
    model: str
    method: str
    overshoot: float
    split: int = 0

    @property
    def case(self) -> tuple[str, str, int]:
        """What must be set up for it: data, model and split."""
        return self.data, self.model, self.split

    @property
    def key(self) -> str:
        """A name for its file."""
        return (
            f"{self.figure}-{self.data}-{self.model}-{self.method}-{self.overshoot!r}-{self.split}"
        )

    def record(self, **measured: Any) -> dict[str, Any]:
        """A row of the results: the cell, and what was measured."""
        return {**asdict(self), **measured}


def scfe_cells(figure: str, overshoots: Iterable[float]) -> list[Cell]:
    """Admission and HELOC × linear and NTK × overshoots, with SCFE's recourses."""
    return [
        Cell(figure, data, model, "scfe", overshoot)
        for data in REGRESSIONS
        for model in ("ntk", "linear")
        for overshoot in overshoots
    ]
