"""What a family of models says of a fitted estimator, and what it can do: read this to add one.

A family is one file with one class, its *core*, and one line in a registry
(:data:`holdfast.models.families.FAMILIES`, or :func:`holdfast.register` from a package of your
own). A core is made from an estimator and its :class:`Training` data, and answers the questions of
:class:`Core`. What it can do beyond scoring is written down once, in its :class:`Capabilities`, and
asked for by name everywhere else (``model.can.predicts``), never by class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from holdfast.algebra.deletions import Deletions
from holdfast.algebra.reweighting import Reweighted
from holdfast.algebra.rows import Array, Positions, TrainingRows
from holdfast.errors import UnsupportedModelError


@dataclass(frozen=True)
class Training:
    """What a core is made from, beside its estimator.

    Attributes
    ----------
    X : ndarray of shape (n, d)
        The features the last step of the estimator sees: plain finite floats.
    y : ndarray of shape (n,)
        Labels with the good outcome up: numbers for regressors, 0 and 1 for classifiers.
    weights : ndarray of shape (n,)
    rows : TrainingRows
    sign : {1, -1}
        −1 where the estimator's own scores are higher for the bad outcome.
    """

    X: Array
    y: Array
    weights: Array
    rows: TrainingRows
    sign: int


@dataclass(frozen=True)
class Capabilities:
    """What a core can do beyond scoring.

    Attributes
    ----------
    predictions : tuple of str
        Ways of predicting deletions, the best first: ``"exact"``, ``"newton"``, ``"jackknife"``,
        ``"jackknife by conjugate gradients"``.
        Empty: they are known by refitting only, and ``why_not`` says why.
    why_not : str or None
    gradients : bool
        Whether scores have gradients in the features.
    solves : bool
        Whether ``scores_without``, ``own_scores_without``, ``without`` and ``solved_on`` find the
        optimum without some rows, or on other data, by the family's own solver: cheap and exact.
    certificate : {"exact", "newton", "parts"} or None
        Which proof there is: by the exact algebra, by a Newton step and its remainder, or because
        few of the parts that are averaged know a row.
    uncertified : str
        Why there is none, though deletions are predicted.
    refit : {"cheap", "cubic", "training"}
        What a refit costs: next to nothing, the cube of the rows, or a training run.
    chooses : {"", "cheaply", "dearly"}
        Whether a refit chooses a hyperparameter again, which the algebra keeps, and at what cost.
    draws : bool
        Whether a refit with nobody erased but another seed is another model.
    form : {"linear", "smooth", "kernel", "network", "parts"} or None
        Whose closed form :meth:`holdfast.ErasableModel.form` gives to those who need more than
        the triple: least squares, a linear score under a smooth loss, a kernel expansion, a
        differentiable network, or a mean of parts.
    linear : bool
        Whether the score is linear in the features.
    rounding : float
        The relative error that rounding leaves in a score or an effect.
    leaves : bool
        Whether ``leaf_pulls`` says what rows do to points through the leaves they share.
    keeps : str
        What a refit keeps though it remembers the erased rows, as a clause; empty: nothing, it is
        a full refit. Said wherever numbers of the model are shown.
    """

    predictions: tuple[str, ...] = ()
    why_not: str | None = None
    gradients: bool = True
    solves: bool = False
    certificate: Literal["exact", "newton", "parts"] | None = None
    uncertified: str = ""
    refit: Literal["cheap", "cubic", "training"] = "training"
    chooses: Literal["", "cheaply", "dearly"] = ""
    draws: bool = False
    form: Literal["linear", "smooth", "kernel", "network", "parts"] | None = None
    linear: bool = False
    rounding: float = 1e-11
    leaves: bool = False
    keeps: str = ""

    @property
    def predicts(self) -> bool:
        """Whether effects of deletions can be predicted at all."""
        return bool(self.predictions)

    @property
    def exact(self) -> bool:
        """Whether predicted deletions are exact."""
        return "exact" in self.predictions


class Core(Protocol):
    """A fitted estimator of one family, seen through its features.

    A core subclasses this class. It inherits the answers of a model that is only scored; it
    overrides what it can do, and says so in ``can``.
    """

    #: how far the fitted scores were from the optimum's, in score deviations; NaN: there is none
    drift: float = float("nan")
    rows: TrainingRows

    @property
    def can(self) -> Capabilities:
        """What it can do beyond scoring."""
        ...

    def scores(self, X: Array) -> Array:
        """Scores (q,) of features (q, d), at the optimum; higher is better for the person."""
        ...

    def score_gradients(self, X: Array) -> Array:
        """``∂f/∂x`` of shape (q, d), where ``can.gradients``."""
        raise UnsupportedModelError("this family has no gradients")

    def deletions(self, X: Array, of: str, method: str | None) -> Deletions:
        """The triple of ``holdfast.algebra.deletions``, where ``can.predicts``.

        ``of`` is ``"scores"`` or ``"gradients"``; ``method`` one of ``can.predictions``.
        """
        raise UnsupportedModelError("this family does not predict deletions")

    def reweighted(self, omega: Array) -> Reweighted:
        """The fit as a function of row weights, where ``can.predicts``."""
        raise UnsupportedModelError("this family does not predict deletions")

    def verify(self, fitted: Array, again: Array) -> str | None:
        """Refuse data the estimator was not fitted on; word a drift that matters.

        ``fitted`` and ``again`` are scores of the training rows by the estimator and by a fresh
        fit of it, for cores whose ``needs_refit`` is true; empty for others.
        """
        return None

    def label_score(self, label: float) -> float:
        """A regressor's label as a score, before orientation: its logarithm, say."""
        return label

    #: whether :meth:`verify` compares with a fresh fit, which then is made
    needs_refit: bool = False

    def training_scores(self) -> Array | None:
        """The scores of the training rows, where they are known without scoring them."""
        return None

    def resemble(self, other: Any) -> None:
        """Take over what the core of another fit found out, of which this one's is a refit."""
        return

    def polished(self) -> Any:
        """A copy of the estimator at the optimum, where a refit is to start; ``None``: anywhere."""
        return None


class Solver(Core, Protocol):
    """A core that ``can.solves``: it finds other optima of its own problem by itself."""

    def scores_without(
        self,
        X: Array,
        sets: Sequence[Positions],
        factors: Array | None = None,
        nearly: bool = False,
    ) -> Array:
        """Scores of all of ``X`` without each set of rows, (sets, q).

        ``factors`` (sets, d), for linear scores: what each feature's penalty is multiplied by.
        ``nearly``: as well as a prediction needs them, where that is cheaper.
        """
        ...

    def own_scores_without(self, X: Array, sets: Sequence[Positions]) -> Array:
        """The score of each row of ``X`` without its own set of rows, (q,)."""
        ...

    def without(self, rows: Positions) -> Core:
        """The core of the same problem without some rows."""
        ...

    def solved_on(self, data: Training) -> Core:
        """The core of the same problem on other data: what a refit would lead to."""
        ...


@dataclass(frozen=True)
class Family:
    """One family of estimators.

    Attributes
    ----------
    estimators : tuple of type
        Exactly these classes; a subclass may fit something else.
    make : callable
        ``(estimator, training)`` → :class:`Core`: the class of the core, usually.
    unsupported : callable
        ``estimator`` → why this one has no algebra, or ``None``.
    raw : bool
        Whether its core takes rows and labels as the estimator itself does, and is made from all
        of a pipeline.
    """

    estimators: tuple[type, ...]
    make: Callable[[Any, Training], Core]
    unsupported: Callable[[Any], str | None] = lambda estimator: None
    raw: bool = False
