"""Models fitted on files that are read by blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import GammaRegressor, PoissonRegressor, TweedieRegressor

from holdfast.algebra.rows import Positions, TrainingRows
from holdfast.cases.fitting import COUNTS, KINDS, Labels, labels_for, unfitted
from holdfast.errors import HoldfastError
from holdfast.models.fitting_blocks import fit_blocks
from holdfast.models.ids import IdIndex
from holdfast.models.looking import LABELS, first_look
from holdfast.models.losses import Squared
from holdfast.models.posed import Posed, as_if_fitted
from holdfast.models.readings import Reading
from holdfast.models.recipe import Labelled, recipe_for
from holdfast.models.scanned import ScannedModel, silent
from holdfast.scale.engines import engine_of
from holdfast.scale.scan import Scan

#: kinds of models that are fitted by blocks
BY_BLOCKS = ("linear", "ridge", "logistic", "poisson", "gamma", "tweedie")


def fit(
    kind: str,
    table: Scan,
    engine: Any = None,
    *,
    random_state: int = 0,
    progress: Callable[[str, int, int], None] | None = None,
    without: Positions | None = None,
    index: IdIndex | None = None,
    **parameters: Any,
) -> ScannedModel:
    """Fit a model on files that need not fit into memory.

    Missing numbers become the median, numbers are scaled to mean 0 and deviation 1; missing text
    becomes a category of its own, text becomes one-hot columns of its commoner values (those of 50
    rows or more, 200 at most).

    Parameters
    ----------
    kind : {"linear", "ridge", "logistic", "poisson", "gamma", "tweedie"}
    table : Scan
        What :func:`holdfast.scan` returns.
    engine : {"threads", "dask"}, address or distributed.Client, optional
        Where blocks are worked on: threads of this process, workers on this machine, or those of a
        scheduler. The result is the same to the last bit.
    random_state : int
        For the sample of rows that is kept in memory.
    progress : callable, optional
        Called with ``(stage, done, total)``.
    without : positions, optional
        Rows that are left out.
    index : IdIndex, optional
        Of the ids, where it is there already.
    **parameters
        Of the estimator.

    Returns
    -------
    ScannedModel
        An :class:`~holdfast.ErasableModel`: rows are named by their positions in the whole table,
        or by id.

    Examples
    --------
    >>> import tempfile, numpy as np, pandas as pd, holdfast as hf
    >>> folder = tempfile.TemporaryDirectory()
    >>> rng = np.random.default_rng(0)
    >>> loans = pd.DataFrame(rng.standard_normal((5000, 2)), columns=["income", "savings"])
    >>> loans["paid"] = loans["income"] + rng.standard_normal(5000)
    >>> loans.to_parquet(f"{folder.name}/loans.parquet", row_group_size=1000)
    >>> model = hf.fit("ridge", hf.scan(folder.name, label="paid"))
    >>> applicants = pd.DataFrame({"income": [-1.0, 0.2], "savings": [0.5, 0.1]})
    >>> model.scores(applicants).round(1)
    array([-1. ,  0.2])
    >>> effect = model.deletions(applicants).effect([17, 4711])
    >>> refitted = model.without([17, 4711]).scores(applicants)
    >>> bool(abs(model.scores(applicants) - effect - refitted).max() < 1e-12)
    True
    >>> folder.cleanup()
    """
    if not isinstance(table, Scan):
        raise HoldfastError(
            f"table must be what hf.scan(paths, label=…) returns, got {type(table).__name__}; a "
            "fitted estimator and its data go to hf.erasable"
        )
    if kind not in BY_BLOCKS:
        raise HoldfastError(
            f"a {kind!r} model is not fitted by blocks: {', '.join(BY_BLOCKS)} are"
            if kind in KINDS
            else f"kind must be one of {', '.join(BY_BLOCKS)}, got {kind!r}"
        )
    tell = progress or silent
    gone = np.zeros(0, dtype=np.intp)
    if without is not None and len(without):
        gone = np.sort(TrainingRows(table.rows).positions(np.unique(without)))
    if gone.size >= table.rows:
        raise HoldfastError("every row of the training table is left out: nothing to fit on")
    runs = engine_of(engine)
    looked = first_look(table, gone, runs, tell)
    labels = _labels(kind, table, looked, table.rows - gone.size)
    problem = _posed(kind, labels, parameters)
    coded = _coded(table, labels, looked[2])
    if table.key is not None and index is None:
        index = index_of(table, runs, tell)
    recipe = recipe_for(table, coded, looked, True, gone, runs, tell)
    model = fit_blocks(recipe, runs, problem, index, tell, random_state)
    model.label_moments = looked[3].rounded()
    return model


def index_of(table: Scan, runs: Any, tell: Any) -> IdIndex:
    """Where the ids are; one that appears twice is refused."""
    if table.id is not None and table.subject is not None:
        IdIndex.of(table, table.id, True, runs, tell)
    return IdIndex.of(table, str(table.key), table.subject is None, runs, tell)


def _labels(kind: str, scan: Scan, looked: Any, rows: int) -> Labels:
    """How the labels are to be taken, by the different ones there are."""
    different, numbers = looked[2], looked[3]
    values: Any = list(different)
    column = pd.Series(values, name=scan.label)
    if len(different) > LABELS and KINDS[kind].regressor is None:
        raise HoldfastError(
            f"a {kind} model tells two classes apart, and the label {scan.label!r} has more than "
            f"{LABELS:,} different values"
        )
    if (len(different) > 2 and numbers.count[0] == rows) or len(different) > LABELS:
        column = pd.to_numeric(column, errors="coerce")
        if column.isna().any():
            raise HoldfastError(
                f"the label {scan.label!r} has texts and numbers: two classes or numbers are wanted"
            )
    found = labels_for(kind, column, scan.favourable)
    if kind in COUNTS and (numbers.least[0] < 0 or (kind == "gamma" and numbers.least[0] <= 0)):
        wanted = "above 0" if kind == "gamma" else "0 or more"
        raise HoldfastError(
            f"a {kind} model predicts amounts, and the label {scan.label!r} has some that are not "
            f"{wanted}"
        )
    return found


def _coded(scan: Scan, labels: Labels, different: Any) -> Labelled:
    if labels.classes or labels.indicator:
        flags = labels.values.astype(bool)
        good = [value for value, flag in zip(different, flags, strict=True) if flag]
        return Labelled(scan.label, frozenset(good))
    return Labelled(scan.label, sign=-1 if labels.favourable == "low" else 1)


def _posed(kind: str, labels: Labels, parameters: Mapping[str, Any]) -> Posed:
    """What is minimised, refusing what is not fitted by blocks."""
    estimator = unfitted(kind, labels.classes, parameters, 0)
    given = estimator.get_params()
    for name, fine in (("fit_intercept", True), ("class_weight", None), ("positive", False)):
        if name in given and given[name] != fine:
            raise HoldfastError(f"a {kind} model is fitted by blocks with {name}={fine!r} only")
    if kind in ("linear", "ridge"):
        return Posed(estimator, Squared(), float(given.get("alpha", 0.0)), False)
    made = as_if_fitted(estimator, labels.classes)
    reading = Reading.of(made)
    if reading.lasso or reading.intercept_penalty or reading.kinks:
        raise HoldfastError(f"a {kind} model is fitted by blocks with an L2 penalty only")
    if isinstance(estimator, TweedieRegressor) and float(estimator.power) in (0.0,):
        return Posed(estimator, reading.loss, reading.ridge, False, True)
    average = isinstance(estimator, PoissonRegressor | GammaRegressor | TweedieRegressor)
    if average and labels.favourable == "low":
        raise HoldfastError(f"a {kind} model is fitted by blocks with favourable='high' only")
    return Posed(estimator, reading.loss, reading.ridge, labels.classes, average)
