"""One face for every model that can forget: :func:`erasable` and what it returns."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from holdfast.algebra.deletions import Deletions, LowRankDeletions
from holdfast.algebra.reweighting import Reweighted
from holdfast.algebra.rows import Array, Positions, TrainingRows, as_text, ids_as_text, take
from holdfast.cards import card
from holdfast.errors import DriftWarning, HoldfastError, UnsupportedModelError
from holdfast.estimators.from_optbinning import is_scorecard, of_scorecard
from holdfast.estimators.from_statsmodels import is_result, of_result
from holdfast.estimators.from_torch import estimator_of, is_module
from holdfast.estimators.policies import under_policy
from holdfast.models.core import Capabilities, Core, Training
from holdfast.models.cutoffs import Cutoff
from holdfast.models.drift import spread_of
from holdfast.models.families import core_maker, family_of
from holdfast.models.pipelines import (
    final_step,
    fitted_names,
    flattened,
    raw_scores,
    refitted,
    wants_frames,
)
from holdfast.models.preprocessing import Preprocessing
from holdfast.models.refit import RefitCore
from holdfast.models.scaled_columns import scales_of, undetermined
from holdfast.models.scales import Scales
from holdfast.models.solving import rescaled, whole_effect
from holdfast.models.training import in_order, numbers, oriented_target, subject_ids
from holdfast.models.training import table as checked_table
from holdfast.models.training import weights as checked_weights
from holdfast.shared_state import quiet


def erasable(
    fitted: Any,
    X: Any,
    y: Any,
    subjects: Any = None,
    sample_weight: Any = None,
    favourable: Any = 1,
    *,
    update: str = "refit",
    loss: Any = None,
    l2: float | None = None,
    preprocessing: Any = None,
) -> ErasableModel:
    """A fitted estimator as a model that can forget its training rows.

    Parameters
    ----------
    fitted : estimator
        A fitted scikit-learn estimator, one of ours, a ``Pipeline`` ending in one, or a trained
        ``torch.nn.Module``. ``LinearRegression``, ``Ridge``, ``KernelRidge``, ``NTKRegressor``,
        ``LSSVMClassifier``: exact. ``LogisticRegression``, ``MLPClassifier``, ``MLPRegressor``,
        modules: approximate, confirmed by refitting. Any other regressor or binary classifier
        that can be cloned and refitted: scores and refits only.
    X : frame or array of shape (n, d)
        The data it was fitted on, in the same order.
    y : array-like of shape (n,)
        The labels it was fitted on.
    subjects : array-like of shape (n,), optional
        Whose row each is: an erasure request removes all rows of a subject.
    sample_weight : array-like of shape (n,), optional
        The sample weights of the fit.
    favourable : label, default=1
        The good outcome of a classifier; ``"high"`` or ``"low"`` for a regressor (1 means high).
        Scores are oriented so that higher is better for the person.
    update : {"refit", "leaves", "bins"}
        What is done to the model when rows are erased. By default it is refitted, and nothing of
        them is left. For boosting models, two policies that keep something, and say so wherever
        their numbers are shown: ``"leaves"`` keeps the structure of the trees (and preprocessing
        before them) and computes the leaf values again; ``"bins"`` (LightGBM, XGBoost) grows new
        trees in the bins of the first fit.
    loss : {"logistic", "squared"} or callable
        Of a module, and needed there: logistic for labels 0 and 1 (the module gives log-odds),
        ``½ (f − y)²`` for numbers, or a function of scores and labels (float64 tensors of shape
        (n,)) that gives one loss per row.
    l2 : float, optional
        Of a module: its training minimised the sum of ``sample_weight`` times the rows' losses,
        plus ``l2/2`` times the squares of all trainable parameters. Beside a mean of the losses,
        torch's ``weight_decay=λ`` is ``l2 = n λ``.
    preprocessing : transformer, optional
        Of a module: what turned ``X`` into what it was trained on. Fitted, it is taken as it is;
        else it is fitted on ``X``. Refits fit it again, as those of a ``Pipeline`` do.

    Returns
    -------
    ErasableModel

    Raises
    ------
    HoldfastError
        For bad input; see ``holdfast.errors``.

    Examples
    --------
    >>> import holdfast as hf
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LinearRegression
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = hf.erasable(LinearRegression().fit(X, y), X, y)
    >>> predicted = model.deletions(X[:3]).effect([7, 11])
    >>> refitted = model.scores(X[:3]) - model.without([7, 11]).scores(X[:3])
    >>> bool(abs(predicted - refitted).max() < 1e-9)
    True
    """
    if is_module(fitted):
        fitted = estimator_of(fitted, checked_table(X, "X"), y, loss, l2, preprocessing)
    elif not (loss is None and l2 is None and preprocessing is None):
        raise HoldfastError(
            "loss, l2 and preprocessing are for a torch.nn.Module; "
            f"{type(fitted).__name__} has its own: leave them out (preprocessing goes into a "
            "Pipeline)"
        )
    model, warning = erasable_and_warning(fitted, X, y, subjects, sample_weight, favourable, update)
    if warning is not None:
        warnings.warn(warning, DriftWarning, stacklevel=2)
    return model


def erasable_and_warning(
    fitted: Any,
    X: Any,
    y: Any,
    subjects: Any = None,
    sample_weight: Any = None,
    favourable: Any = 1,
    update: str = "refit",
) -> tuple[ErasableModel, str | None]:
    """What :func:`erasable` makes, and what it would warn of, for those who say so themselves."""
    model = ErasableModel(fitted, X, y, subjects, sample_weight, favourable)
    if update != "refit":
        table = model.queries(model.X, "X")
        kept = under_policy(model.estimator, table, model.y, model.sample_weight, update)
        model = ErasableModel(kept, X, y, subjects, sample_weight, favourable)
    return model, model._verified()


def refuse_other_models(model: Any) -> None:
    """Refuse what :func:`erasable` did not return."""
    if not isinstance(model, ErasableModel):
        raise HoldfastError(
            f"model must be what hf.erasable(fitted, X, y) returns, got {type(model).__name__}"
        )


class ErasableModel:
    """What :func:`erasable` returns: a model that knows what its scores would be without a row.

    Attributes
    ----------
    estimator : the fitted estimator
    rows : TrainingRows
        Which rows there are, whose they are.
    drift : float
        How far the fitted scores were from those at the optimum, at most, in standard
        deviations of the training scores; NaN where there is no optimum to compare with.
    exact : bool
        Whether predicted deletions are exact for this family.
    """

    def __init__(
        self,
        fitted: Any,
        X: Any,
        y: Any,
        subjects: Any = None,
        sample_weight: Any = None,
        favourable: Any = 1,
        like: ErasableModel | None = None,
    ):
        if is_result(fitted):
            fitted = of_result(fitted, y, sample_weight is not None)
        elif is_scorecard(fitted):
            fitted = of_scorecard(fitted)
        fitted = flattened(fitted)
        final = final_step(fitted)
        self.estimator, self.favourable = fitted, favourable
        self.X = checked_table(X, "X").copy()  # what the caller does with X later is no news to us
        n = len(self.X)
        self.feature_names = fitted_names(fitted)
        self._takes_frames = wants_frames(fitted, self.X)
        if self.feature_names is None and isinstance(self.X, pd.DataFrame):
            self.feature_names = list(self.X.columns)
        self.y, oriented, codes, sign = oriented_target(final, y, n, favourable)
        self.sample_weight = checked_weights(sample_weight, n)
        weights = np.ones(n) if self.sample_weight is None else self.sample_weight
        self.rows = TrainingRows(n, subject_ids(subjects, n), codes, self.sample_weight)
        self.preprocessing: Preprocessing | None = None
        if isinstance(fitted, Pipeline) and len(fitted.steps) > 1:
            before = None if like is None else like.preprocessing
            self.preprocessing = Preprocessing(fitted[:-1], before)
        self.sign, self._oriented = sign, oriented
        #: a target that moves with the rows, and how far it has moved from where it was
        self.cutoff: Cutoff | None = None
        self.shift = 0.0
        make_core, reason = core_maker(final, self.preprocessing)
        self._scores_raw = make_core is None
        if make_core is None:
            family, queries = family_of(final), self.queries(self.X, "X")
            self.core: Core = (
                RefitCore(fitted, self.rows, sign, reason)
                if family is None or not family.raw
                else family.make(fitted, Training(queries, self.y, weights, self.rows, sign))
            )
            if like is not None and type(like.core) is type(self.core):
                self.core.resemble(like.core)
            self.core.scores(take(self.queries(self.X, "X"), slice(0, 2)))
            return
        bare = copy.copy(final)
        bare.__dict__.pop("feature_names_in_", None)  # features reach it as plain arrays
        Z = self.features(self.queries(self.X, "X"))
        if Z.shape[1] != bare.n_features_in_:
            raise HoldfastError(
                f"the {type(final).__name__} was fitted on {bare.n_features_in_} features, but X "
                f"gives {Z.shape[1]}"
            )
        self.core = make_core(bare, Training(Z, oriented, weights, self.rows, sign))
        if Core not in type(self.core).__mro__:  # asking the protocol would work out all it can
            raise UnsupportedModelError(
                f"the family of {type(final).__name__} gave a {type(self.core).__name__}, which is "
                "no holdfast.models.core.Core"
            )

    def _verified(self) -> str | None:
        """Refuse data the estimator was not fitted on; word a drift that matters."""
        fitted = again = np.zeros(0)
        if self.core.needs_refit:
            X = self.queries(self.X, "X")
            refit = self._refitted(np.arange(self.rows.n), refit_preprocessing=False)[0]
            fitted, again = (
                self.sign * np.ravel(raw_scores(e, X.copy())) for e in (self.estimator, refit)
            )
        return self.core.verify(fitted, again)

    def _refitted(
        self, rows: Positions, refit_preprocessing: bool, warm: Any = None
    ) -> tuple[Any, Any, Any, Any]:
        """Some rows, and a fresh fit on them; its complaints were heard at the first fit."""
        X, y = take(self.X, rows), self.y[rows]
        weights = None if self.sample_weight is None else self.sample_weight[rows]
        table = self.queries(X, "X").copy()
        try:
            with quiet:
                fresh = refitted(self.estimator, table, y, weights, refit_preprocessing, warm, rows)
        except Exception as failure:  # whatever the estimator does
            raise HoldfastError(
                f"{self.name} cannot be refitted {self.rows.without(rows)}: {failure}"
            ) from failure
        return fresh, X, y, weights

    @property
    def drift(self) -> float:
        """Largest change of a training score by polishing, in score standard deviations."""
        return float(self.core.drift)

    #: scores without each of many sets, worked out by passes over files; ``None``: in memory
    in_passes: Any = None

    @property
    def many(self) -> int:
        """How many training rows there are, looked at or not."""
        return self.rows.n

    @property
    def of_all(self) -> ErasableModel:
        """The model of all rows: itself, but for one that is a list of some of them."""
        return self

    @property
    def people(self) -> int:
        """How many people own training rows that are not all here; 0 where they are."""
        return 0

    @property
    def can(self) -> Capabilities:
        """What can be asked of it beyond scores and refits, decided when it was made."""
        return self.core.can

    @property
    def exact(self) -> bool:
        """Whether predicted deletions are exact, with the preprocessing frozen."""
        return self.can.exact

    @property
    def algebra(self) -> str:
        """How deletions are predicted, in a word or two: "exact", "newton/jackknife" …"""
        if self.can.form == "parts":
            return "exact, part by part"
        return "exact" if self.exact else "/".join(self.can.predictions) or "refit only"

    @property
    def kept(self) -> str:
        """What a refit keeps though it remembers the erased rows, as a sentence; or nothing."""
        return f"Not a full refit: {self.can.keeps}." if self.can.keeps else ""

    @property
    def name(self) -> str:
        """The class of the estimator, or of its last step."""
        return type(self.inside).__name__

    @property
    def inside(self) -> Any:
        """The estimator, or the last step of its pipeline; of a policy, what it is about."""
        return getattr(self._final, "inside", self._final)

    @property
    def classes(self) -> list[Any] | None:
        """The two labels of a classifier; ``None`` for a regressor."""
        if self.rows.classes is None:
            return None
        found: list[Any] = np.asarray(self._final.classes_).tolist()
        return found

    def __repr__(self) -> str:
        kept = f", {self.can.keeps}" if self.can.keeps else ""
        return f"<ErasableModel {self.name}, n={self.rows.n}, {self.algebra}{kept}>"

    def _repr_html_(self) -> str:
        facts = {
            "rows": f"{self.rows.n:,}",
            "features": self.frame.shape[1],
            "deletions": self.algebra,
            "before it": "" if self.preprocessing is None else "preprocessing, refitted with it",
            "update": self.can.keeps,
        }
        return card(f"{self.name} that can forget", facts)

    def form(self, kind: str) -> Any:
        """The closed form behind the triple, for what needs more of it (``can.form``).

        Raises
        ------
        UnsupportedModelError
            If this model has another, or none.
        """
        if self.can.form != kind:
            raise UnsupportedModelError(f"this is about {kind} models, not {self!r}")
        return self.core

    def _refuse(self, what: str) -> UnsupportedModelError:
        works = "scores, score_gradients" if self.can.gradients else "scores"
        works += ", deletions" if self.can.predicts else ""
        return UnsupportedModelError(
            f"{self.name} has no {what}: {self.can.why_not}. What works: {works} and "
            "without(rows). Models with the algebra: least squares, kernel models, linear scores "
            "under a smooth loss, networks (docs/supported.md)"
        )

    # the four things a model says ---------------------------------------------------------

    def scores(self, Q: Any) -> Array:
        """Real-valued scores (q,), higher is better for the person.

        The score of a classifier is its log-odds or decision value, that of a regressor its
        prediction (negated for ``favourable="low"``), at the optimum of the training problem.

        Examples
        --------
        >>> import holdfast as hf
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.linear_model import LogisticRegression
        >>> from sklearn.preprocessing import scale
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> model = hf.erasable(LogisticRegression(tol=1e-8).fit(scale(X), y), scale(X), y)
        >>> model.scores(scale(X)[:2]).round(1)
        array([-20.5, -10.3])
        """
        queries = self.queries(Q)
        if len(queries) == 0:
            return np.zeros(0)
        scores: Array = self.core.scores(self.features(queries))
        return scores - self.shift if self.shift else scores

    def score_gradients(self, Q: Any) -> Any:
        """``∂f/∂x`` of shape (q, d) in the columns of ``Q``; a frame if ``Q`` is one.

        A category has no derivative: the entry of a one-hot encoded column is 0.
        """
        queries = self.queries(Q)
        if not self.can.gradients:
            raise self._refuse("score_gradients")
        if len(queries) == 0:
            gradients: Array = np.zeros(queries.shape)
        else:
            gradients = self.core.score_gradients(self.features(queries))
            if self.preprocessing is not None:
                gradients = self.preprocessing.pullback(queries, gradients)
        if isinstance(Q, pd.DataFrame):
            return pd.DataFrame(gradients, index=Q.index, columns=self.feature_names or Q.columns)
        return gradients

    def deletions(
        self,
        Q: Any,
        of: str = "scores",
        method: str | None = None,
        preprocessing: str = "refitted",
    ) -> Deletions:
        """What deletions do to the scores of ``Q``, as factors of ``C P⁻¹ r``.

        Parameters
        ----------
        Q : frame or array of shape (q, d)
            The points whose scores matter, usually recourses.
        of : {"scores", "gradients"}
            What drops: the scores (q,), or their input gradients (q, d).
        method : {"exact", "newton", "jackknife"}, optional
            By default the best the family has: exact for squared loss, one Newton step for
            logistic regression, the infinitesimal jackknife for networks.
        preprocessing : {"refitted", "kept"}
            Whether effects include what refitting a pipeline's transformers does, as an erasure
            does, and what choosing a penalty again does (``RidgeCV``). The triple itself, which
            searches and proofs go through, keeps them. With a ``method`` they are always kept.

        Returns
        -------
        Deletions
            Its :meth:`~holdfast.algebra.deletions.Deletions.effect` takes rows or subjects; a
            score that is gone altogether (nobody is left of its category) drops by infinity.
        """
        if preprocessing not in ("refitted", "kept"):
            raise HoldfastError(
                f"preprocessing must be 'refitted' or 'kept', got {preprocessing!r}"
            )
        if of not in ("scores", "gradients"):
            raise HoldfastError(f"of must be 'scores' or 'gradients', got {of!r}")
        queries = self.queries(Q)
        if not self.can.predicts:
            raise self._refuse("deletions")
        offered = self.can.predictions
        if method is not None and method not in offered:
            raise HoldfastError(
                f"method must be one of {', '.join(map(repr, offered))} for {self.name}, got "
                f"{method!r}"
            )
        if len(queries) == 0:
            raise HoldfastError("deletions of no queries: Q has no rows")
        found: Any = self.core.deletions(self.features(queries), of, method)
        if self.can.form == "parts":
            if self.cutoff is not None:
                found.whole = whole_effect(self, queries)
            return cast(Deletions, found)
        if self.cutoff is not None and of == "scores" and preprocessing == "refitted":
            return self._against_the_cutoff(found, queries)
        whole = preprocessing == "refitted" and method is None
        if self.preprocessing is None and self.can.chooses != "cheaply":
            return cast(Deletions, found)
        if of == "gradients":
            found = found if self.preprocessing is None else self._pulled_back(found, queries)
            return replace(found, whole=self._gradients_moved(Q)) if whole else found
        if not whole:
            return cast(Deletions, found)
        changes: dict[str, Any] = {"whole": whole_effect(self, queries)}
        if self.scales is not None:
            more = rescaled(self.scales, self.form(str(self.can.form)), found)
            changes["also"] = found.also if more is None else more.plus(found.also)
        return cast(Deletions, replace(found, **changes))

    def _against_the_cutoff(self, found: Deletions, queries: Any) -> Deletions:
        """The same of scores less the cutoff, which goes along with those of one or two rows."""
        assert self.cutoff is not None
        near = self.cutoff.nearest(self.training_scores)
        if near:
            places, weights = [row for row, _ in near], np.array([share for _, share in near])
            anchors: Any = self.core.deletions(self.features(take(self.X, places)), "scores", None)
            found = found.less(anchors, weights)
        changed: Any = found
        return cast(Deletions, replace(changed, whole=whole_effect(self, queries)))

    def _gradients_moved(self, Q: Any) -> Callable[[Positions], Array]:
        before = np.asarray(self.score_gradients(Q))
        return lambda rows: before - np.asarray(self.without(rows).score_gradients(Q))

    @cached_property
    def scales(self) -> Scales | None:
        """How refitting the preprocessing re-weights the penalty, where it does nothing more."""
        if self.preprocessing is None or self.can.form not in ("linear", "smooth"):
            return None
        table = self.queries(self.X, "X")
        form = self.form(str(self.can.form))
        intercept = form.intercept and form.penalty[0] == 0.0  # which absorbs any centre
        transformer, Z = self.preprocessing.transformer, self.features(self.X)
        found = scales_of(transformer, table, Z, bool(intercept))
        if found is None or form.penalised:
            return found
        return None if undetermined(Z, found.moving, bool(intercept)) else found

    def without(
        self,
        rows: Any = None,
        *,
        subjects: Any = None,
        refit_preprocessing: bool = True,
        start: str = "fitted",
    ) -> ErasableModel:
        """The same model honestly refitted without some rows: the ground truth.

        Parameters
        ----------
        rows : int or sequence of int
            Positions of the rows to leave out.
        subjects : id or sequence of ids
            Instead of ``rows``: everybody whose rows go.
        refit_preprocessing : bool, default=True
            Whether a pipeline's transformers are refitted too. A frozen scaler can hold an
            erased person's value, so the default is to refit.
        start : {"fitted", "scratch"}
            Networks have many optima: refit from the fitted weights (the same optimum, moved)
            or from a fresh start. Other families have one optimum and ignore this.

        Returns
        -------
        ErasableModel
        """
        if start not in ("fitted", "scratch"):
            raise HoldfastError(f"start must be 'fitted' or 'scratch', got {start!r}")
        gone = self.rows.positions(rows, subjects)
        keep = np.delete(np.arange(self.rows.n), gone)
        return self.refitted_on(keep, refit_preprocessing=refit_preprocessing, start=start)

    # beyond the four ----------------------------------------------------------------------

    def refitted_on(
        self, rows: Positions, *, refit_preprocessing: bool = True, start: str = "fitted"
    ) -> ErasableModel:
        """The same model fitted on these rows, each as often as named: a bootstrap sample, say."""
        warm = self.core.polished() if start == "fitted" else None
        if warm is not None and hasattr(self._final, "feature_names_in_"):
            warm.feature_names_in_ = self._final.feature_names_in_
        fresh, X, y, weights = self._refitted(rows, refit_preprocessing, warm)
        ids = None if self.rows.subjects is None else self.rows.subjects[rows]
        made = ErasableModel(fresh, X, y, ids, weights, self.favourable, like=self)
        if self.cutoff is not None:
            made.cutoff = self.cutoff
            made.shift = self.cutoff.moved(made.training_scores, made._oriented)
        return made

    def with_target_rule(self, rule: str, target: float) -> ErasableModel:
        """The same model, whose refits give scores relative to how far the cutoff has moved.

        Parameters
        ----------
        rule : {"fixed", "quantile", "label-quantile"}
            Whether the target stays what it is when rows go, or stays the quantile of the training
            rows' scores (or labels) that it is now.
        target : float
        """
        labels = self._oriented if self.rows.classes is None else None
        cutoff = Cutoff.at(rule, target, self.training_scores, labels)
        if cutoff == self.cutoff:
            return self
        made = copy.copy(self)
        made.cutoff, made.shift = cutoff, 0.0
        return made

    @cached_property
    def row_ids(self) -> list[str]:
        """The name of every training row, as text: the index of the frame."""
        if not isinstance(self.X, pd.DataFrame):
            raise HoldfastError(
                "the training rows have no ids: X was an array. Pass a frame whose index names "
                "them, or name rows by positions="
            )
        return ids_as_text(self.X.index, "the training rows' index")

    def positions(self, rows: Any = None, subjects: Any = None) -> Positions:
        """Positions of training rows, checked."""
        return self.rows.positions(rows, subjects)

    def positions_of(self, ids: Any) -> Positions:
        """The rows people mean by ids: subjects where there are subjects, else row ids."""
        if self.rows.subjects is not None:
            return self.rows.positions(subjects=ids)
        if isinstance(ids, str) or not isinstance(ids, Iterable):
            ids = [ids]
        wanted = [as_text(name) for name in ids]
        meant = set(wanted)
        where: dict[str, list[int]] = {}
        for place, name in enumerate(self.row_ids):
            if name in meant:
                where.setdefault(name, []).append(place)
        unknown = [name for name in wanted if name not in where]
        if unknown:
            raise HoldfastError(
                f"unknown id {unknown[0]!r} ({len(unknown)} of {len(wanted)} unknown); "
                f"the training data have {self.rows.n} rows"
            )
        if len(set(wanted)) < len(wanted):
            raise HoldfastError("an id is named twice")
        shared = [name for name in wanted if len(where[name]) > 1]
        if shared:
            raise HoldfastError(
                f"the id {shared[0]!r} is that of {len(where[shared[0]])} training rows: whose are "
                "they? Say so with subjects=, or name rows by positions="
            )
        return self.rows.positions([place for name in wanted for place in where[name]])

    def values_of(self, rows: Positions) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The raw cells of some training rows, and of the others."""
        left = np.ones(self.rows.n, dtype=bool)
        left[rows] = False
        return self.frame.iloc[rows], self.frame[left]

    def owners_of(self, rows: Positions) -> list[str]:
        """Whose some training rows are: people by id; each row by itself where none are known."""
        subjects = self.rows.subjects
        return [as_text(row if subjects is None else subjects[row]) for row in rows]

    def reweighted(self, omega: Any) -> Reweighted:
        """The fit as a function of row weights: ``w(ω)`` and the scores' derivatives in ω.

        Parameters
        ----------
        omega : array-like of shape (n,)
            Non-negative; multiplies the sample weights of the fit. All ones: the model itself.

        Returns
        -------
        Reweighted
            Its ``scores``, ``derivatives`` and ``pullback`` take queries like this model's.
        """
        weights = checked_weights(omega, self.rows.n, "omega")
        if weights is None:
            raise HoldfastError("omega is missing: one weight per training row")
        self.rows.refuse_if_too_much(np.flatnonzero(weights == 0))
        if not self.can.predicts:
            raise self._refuse("closed form in the row weights")
        inner: Reweighted = self.core.reweighted(weights)

        def z(Q: Any) -> Array:
            return self.features(Q)

        def pullback(Q: Any, v: Any) -> Array:
            queries, v = z(Q), np.asarray(v, dtype=float)
            if v.shape != (len(queries),) or not np.all(np.isfinite(v)):
                raise HoldfastError(
                    f"v must be one finite number for each of {len(queries)} queries"
                )
            return inner.pullback(queries, v)

        return Reweighted(
            scores=lambda Q: inner.scores(z(Q)),
            pullback=pullback,
            derivatives=lambda Q: inner.derivatives(z(Q)),
            exact=inner.exact,
        )

    def leaf_pulls(self, Q: Any) -> Array:
        """How far each training row alone lifts the score of each point, (q, n), by shared leaves.

        For boosting models (``can.leaves``): the trees' structure kept, later trees left as they
        are. An order of candidates to begin with, no prediction of what a refit does.
        """
        if not self.can.leaves:
            raise self._refuse("leaves that are known")
        weights = np.ones(self.rows.n) if self.sample_weight is None else self.sample_weight
        core: Any = self.core
        lifts: Array = core.leaf_pulls(self.queries(Q), self.queries(self.X, "X"), self.y, weights)
        return lifts

    def leave_one_out_scores(self) -> Array:
        """Each training row's score by the model fitted without it, in closed form (n,).

        NaN for a row that cannot be deleted. Exact families only.
        """
        if not self.exact:
            raise UnsupportedModelError(
                f"{self.name} has no closed-form leave-one-out; linear and kernel models do"
            )
        left_out: Array = self.form(str(self.can.form)).leave_one_out()
        left_out[self.rows.undeletable()] = np.nan
        return left_out

    @cached_property
    def last_step(self) -> ErasableModel:
        """The same model behind its preprocessing: its last step alone, on the features it sees.

        Its refits keep the preprocessing as it is, and cost nothing for it.
        """
        if self.preprocessing is None:
            return self
        bare = copy.copy(self._final)
        bare.__dict__.pop("feature_names_in_", None)
        Z = self.features(self.X)
        if self._scores_raw:
            return ErasableModel(
                bare, Z, self.y, self.rows.subjects, self.sample_weight, self.favourable
            )
        made = copy.copy(self)  # the core knows nothing of the preprocessing: it is shared
        for known in (
            *("last_step", "training_scores", "training_cells", "frame", "row_ids", "scales"),
        ):
            made.__dict__.pop(known, None)
        made.estimator, made.X, made.preprocessing = bare, Z, None
        made.feature_names, made._takes_frames = None, False
        return made

    def with_core(self, core: Core) -> ErasableModel:
        """The same model with the scores and gradients of another fit, and nothing else of it."""
        made = copy.copy(self)
        made.core = core
        for known in ("last_step", "training_scores"):
            made.__dict__.pop(known, None)
        return made

    def core_without(self, rows: Positions | tuple[()] = ()) -> Core:
        """What a family says of the same problem without some rows, preprocessing kept.

        Solved by the family itself where it can, else by a refit.
        """
        if len(rows) == 0:
            return self.core
        if self.can.solves and self.can.refit == "cheap":
            self.rows.refuse_if_too_much(np.asarray(rows, dtype=np.intp))
            core: Any = self.core
            found: Core = core.without(rows)
            return found
        return self.last_step.without(rows).core

    def training(self, Z: Array, rows: Positions) -> Training:
        """What a core is made from, for some of the rows with other features."""
        weights = np.ones(len(rows)) if self.sample_weight is None else self.sample_weight[rows]
        return Training(Z, self._oriented[rows], weights, self.rows.only(rows), self.sign)

    # inside -------------------------------------------------------------------------------

    @property
    def _final(self) -> Any:
        return final_step(self.estimator)

    @cached_property
    def training_scores(self) -> Array:
        """The scores of the training rows themselves (n,)."""
        known = self.core.training_scores()
        return self.scores(self.X) if known is None else known

    @cached_property
    def training_cells(self) -> Any:
        """The training table as arrays, where its preprocessing is plain arithmetic; else None."""
        if self.preprocessing is None or self.preprocessing.fast is None:
            return None
        table = self.queries(self.X, "X")
        return self.preprocessing.fast.cells(table) if isinstance(table, pd.DataFrame) else None

    @property
    def score_unit(self) -> float:
        """The standard deviation of the training scores: the unit of overshoots.

        Where the scores hardly vary, that of the labels.
        """
        labels = np.zeros(1) if self.rows.classes is not None else self.y.astype(float)
        return spread_of(self.training_scores, labels)

    @property
    def median_label(self) -> float:
        """The median training label of a regressor, higher is better: its natural target."""
        return self.sign * self.core.label_score(float(np.median(self.y.astype(float))))

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The training table as a frame, in the order of the model's columns."""
        if isinstance(self.X, pd.DataFrame):
            return self.in_columns(self.X, "X")
        return pd.DataFrame(self.X, columns=self.feature_names).infer_objects()

    def in_columns(self, table: pd.DataFrame, what: str) -> pd.DataFrame:
        """A frame's columns in the model's order; others are refused by name."""
        return table if self.feature_names is None else in_order(table, self.feature_names, what)

    def queries(self, Q: Any, what: str = "the queries") -> Any:
        """``Q`` as the estimator takes it: a frame with its columns in order, or an array."""
        table = checked_table(Q, what)
        if isinstance(table, pd.DataFrame) and self.feature_names is not None:
            table = in_order(table, self.feature_names, what)
        if table.shape[1] != self.X.shape[1]:
            raise HoldfastError(
                f"{what} have {table.shape[1]} columns, the model was fitted on {self.X.shape[1]}"
            )
        if self._takes_frames and not isinstance(table, pd.DataFrame):
            return pd.DataFrame(table, columns=self.feature_names).infer_objects()
        if not self._takes_frames and isinstance(table, pd.DataFrame):
            return table.to_numpy()
        return table

    def features(self, Q: Any) -> Any:
        """What the last step of the estimator sees: floats, or raw rows if it is only refitted."""
        queries = self.queries(Q)
        if self._scores_raw:
            return queries
        if self.preprocessing is None:
            return numbers(queries)
        if len(queries) == 0:
            return np.zeros((0, self._final.n_features_in_))
        return self.preprocessing.transform(queries)

    def _pulled_back(self, found: Any, queries: Any) -> Deletions:
        """Gradient functionals in the features, turned into ones in the raw columns."""
        assert self.preprocessing is not None
        pull = self.preprocessing.pullback
        q, width = found.shape
        stacked = np.moveaxis(found.queries.reshape(q, width, -1), 2, 0)
        back = np.moveaxis(pull(queries, stacked), 0, 2)
        shape = back.shape[:2]
        changes: dict[str, Any] = {"queries": back.reshape(q * shape[1], -1), "shape": shape}
        if isinstance(found, LowRankDeletions) and found.move is not None:
            inner = found.move
            changes["move"] = lambda change, rows: pull(
                queries, inner(change, rows).reshape(q, width)
            )
        return replace(found, **changes)
