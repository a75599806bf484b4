"""How large a reproduction is, and what one cell of it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

#: how far recourses go past the target, in standard deviations of the training scores; fixed
#: before anything was measured
OVERSHOOTS = (0.001, 0.01, 0.05, 0.2)
#: stands for no overshoot at all: a method ends where its published implementation does
AS_IS = -1.0
METHODS = ("scfe", "dice", "cem", "growing-spheres")
REGRESSIONS = ("admission", "heloc")
CLASSIFICATIONS = ("admission", "heloc", "compas", "diabetes")
#: models whose refit is a training: methods beside SCFE are measured at ``Scale.beside`` only
TRAINED = ("ann",)
DELETIONS = 14
FOLDS = 5


@dataclass(frozen=True)
class Encoding:
    """How the regression is written down, where the paper leaves it open.

    Attributes
    ----------
    intercept : bool
        Whether OLS has one (the paper prints ``f = wᵀx``; the NTK has none).
    centred : bool
        Whether labels are relative to the training median, which is the target.
    flags : bool
        Whether columns say which values were missing.
    """

    intercept: bool = False
    centred: bool = True
    flags: bool = True

    @property
    def name(self) -> str:
        """What differs from the one behind the main curves, which is *as printed*."""
        parts = {
            "intercept": self.intercept,
            "raw labels": not self.centred,
            "no flags": not self.flags,
        }
        return ", ".join(part for part, there in parts.items() if there) or "as printed"


PRINTED = Encoding()
#: those a reader could choose, by data and model; with an intercept, centring changes nothing
ENCODINGS: dict[tuple[str, str], tuple[Encoding, ...]] = {
    ("admission", "linear"): (Encoding(intercept=True), Encoding(centred=False)),
    ("admission", "ntk"): (Encoding(centred=False),),
    ("heloc", "linear"): (
        Encoding(intercept=True),
        Encoding(centred=False),
        Encoding(flags=False),
        Encoding(intercept=True, flags=False),
        Encoding(centred=False, flags=False),
    ),
    ("heloc", "ntk"): (
        Encoding(centred=False),
        Encoding(flags=False),
        Encoding(centred=False, flags=False),
    ),
}
BY_NAME = {one.name: one for some in ENCODINGS.values() for one in (*some, PRINTED)}


@dataclass(frozen=True)
class Scale:
    """How much is done.

    Attributes
    ----------
    train : int or None
        Most rows to train on; ``None``: all.
    people : int or None
        Most people below the target, of the test part; ``None``: all.
    sampled, bisected : int or None
        Most people for kernel models where methods stop by themselves: DICE and Growing Spheres
        draw a thousand points for each, CEM takes 900 steps.
    methods : tuple of str
        Recourse methods.
    beside : tuple of float
        At which stops methods beside SCFE are measured for networks, and gates for what is not SCFE
        on a linear model; a stop of one's own counts. ``None``: all, and nothing else is left out
        either.
    splits, split_people : int
        Splits of the held-out protocol, and people in each: half are searched on.
    draws : int
        Random deletions averaged in the baseline; ``network_draws`` for networks.
    refit_at : tuple of int
        Deletions at which networks are refitted; for ``best``, ``refit_best_at``.
    refit_kernel_at : tuple of int
        Deletions at which kernel models are refitted in full.
    action_people, bound_people : int or None
        People whose recourse is found again after every deletion; people of the bounds.
    action_at : tuple of int
        The deletions it is found again after, for kernel models.
    gate_steps : int
        Descent steps of the gates.
    width : int
        Units of the wide network.
    """

    train: int | None = None
    people: int | None = None
    sampled: int | None = 40
    bisected: int | None = 30
    methods: tuple[str, ...] = METHODS
    beside: tuple[float, ...] | None = (0.001, AS_IS)
    splits: int = 5
    split_people: int = 200
    draws: int = 10
    network_draws: int = 2
    refit_at: tuple[int, ...] = (1, 2, 5, 14)
    refit_best_at: tuple[int, ...] = (2, 5)
    refit_kernel_at: tuple[int, ...] = (5,)
    action_people: int | None = None
    action_at: tuple[int, ...] = (1, 2, 5, 9, 14)
    bound_people: int = 100
    gate_steps: int = 1000
    width: int = 10_000

    def moved_at(self, method: str) -> tuple[int, ...]:
        """The deletions recourse is found again after, for kernel models; fewer for ``best``."""
        return self.action_at if method == "gates" else self.action_at[2::2]

    def grid(self, model: str, method: str, overshoots: Iterable[float]) -> list[float]:
        """Where a method stops for a model: on the overshoots, and by itself."""
        every = [*overshoots, AS_IS]
        if model not in TRAINED or method == "scfe" or self.beside is None:
            return every
        return [stop for stop in every if stop in self.beside or stop not in OVERSHOOTS]


FULL = Scale()
#: nobody left out, and nothing measured in part
EVERYONE = Scale(
    sampled=None,
    bisected=None,
    beside=None,
    refit_at=tuple(range(1, DELETIONS + 1)),
    refit_best_at=tuple(range(1, DELETIONS + 1)),
    refit_kernel_at=(1, 5, 14),
    action_at=tuple(range(1, DELETIONS + 1)),
)
QUICK = Scale(
    train=800,
    people=120,
    sampled=20,
    bisected=10,
    methods=("scfe", "growing-spheres"),
    splits=2,
    split_people=60,
    draws=5,
    network_draws=1,
    refit_at=(1, 2, 5, 14),
    action_people=25,
    bound_people=20,
    gate_steps=150,
    width=200,
)


@dataclass(frozen=True, order=True)
class Cell:
    """One measurement: a figure's question about one model and one kind of recourse.

    ``overshoot`` is :data:`AS_IS` where the method stops by itself.
    """

    figure: str
    data: str
    model: str
    method: str
    overshoot: float
    split: int = 0
    encoding: str = PRINTED.name

    @property
    def case(self) -> tuple[str, str, int, str]:
        """What must be set up for it: data, model, split and encoding."""
        return self.data, self.model, self.split, self.encoding

    @property
    def stop(self) -> str:
        """Where the recourses stop, in words."""
        return "as published" if self.overshoot == AS_IS else f"{self.overshoot:g}"

    @property
    def key(self) -> str:
        """A name for its file."""
        told = (self.figure, self.data, self.model, self.method, repr(self.overshoot), self.split)
        coded = "" if self.encoding == PRINTED.name else f"-{self.encoding.replace(', ', '+')}"
        return "-".join(map(str, told)) + coded.replace(" ", "_")

    def record(self, **measured: Any) -> dict[str, Any]:
        """A row of the results: the cell, and what was measured."""
        return {**asdict(self), "stop": self.stop, **measured}


def scfe_cells(
    figure: str, overshoots: Iterable[float], models: tuple[str, ...] = ("ntk", "linear")
) -> list[Cell]:
    """Admission and HELOC × linear and NTK × overshoots, with SCFE's recourses."""
    return [
        Cell(figure, data, model, "scfe", overshoot)
        for data in REGRESSIONS
        for model in models
        for overshoot in overshoots
    ]
