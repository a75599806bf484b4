"""A linear score fitted on all rows of a table in files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import linalg

from holdfast.algebra.rows import Array
from holdfast.errors import HoldfastError
from holdfast.models.ids import IdIndex
from holdfast.models.passes import Batch, Gathered, Gathering, Linearised
from holdfast.models.posed import Posed
from holdfast.models.recipe import Blocks, Recipe
from holdfast.models.scanned import ScannedModel, Tell
from holdfast.models.shortlist import SAMPLED
from holdfast.scale.engines import Engine

#: steps of Newton's method, each a pass
_STEPS = 60

#: scores stand still when a step moves none by more, relative to the largest
_STANDSTILL = 1e-9


def fit_blocks(
    recipe: Recipe, engine: Engine, problem: Posed, index: IdIndex | None, tell: Tell, seed: int
) -> ScannedModel:
    """Fit a linear score on all rows: one pass for squared loss, one for every Newton step else."""
    here = np.setdiff1d(np.arange(recipe.scan.rows), recipe.gone) if recipe.gone.size else None
    many = recipe.rows
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(many, min(SAMPLED, many), replace=False))
    names = chosen if here is None else here[chosen]
    source = Blocks(replace(recipe, carry=True), engine, tell)
    width = recipe.width
    penalty = problem.penalty(width, many)

    def solved(found: Gathered, at: Linearised) -> Array:
        batch = Batch(0, found.phi, found.y, None, found.gaps)
        root, b = at(batch)
        a = np.vstack(
            [found.triangle[:, :width], found.phi * root[:, None], np.diag(np.sqrt(penalty))]
        )
        right = np.concatenate([found.triangle[:, -1], b, np.zeros(width)])
        scale = np.linalg.norm(a, axis=0)
        scale[scale == 0] = 1.0
        theta: Array = linalg.lstsq(a / scale, right, cond=1e-13)[0] / scale
        return theta

    if problem.squared:
        found = Gathering(names, Linearised()).over(source, "fitting the model")
        theta = solved(found, Linearised())
        made = ScannedModel(recipe, engine, problem, theta, names, found, index)
        core: Any = made.core
        made.theta = core.theta  # of least norm, where several are as good
        made.estimator.steps[-1] = ("estimator", made._fitted())
        made.passes = source.passes
        return made
    theta, before, value = np.zeros(width), np.zeros(width), np.inf
    for _ in range(_STEPS):
        at = Linearised(problem.loss, theta)
        found = Gathering(names, at, None, theta).over(source, "fitting the model")
        now = found.value + 0.5 * float(penalty @ theta**2)
        if now > value + 1e-11 * abs(value) or not np.isfinite(now):
            theta = 0.5 * (theta + before)  # too far
            continue
        step = solved(found, at) - theta
        z = found.phi @ theta
        if np.abs(found.phi @ step).max() <= _STANDSTILL * (1.0 + np.abs(z).max()):
            made = ScannedModel(recipe, engine, problem, theta, names, found, index)
            made.passes = source.passes
            return made
        before, value, theta = theta, now, theta + step
        if np.abs(found.phi @ theta).max() > 1e3 and problem.strength == 0:
            break
    raise HoldfastError(
        f"no optimum of this {type(problem.estimator).__name__} was found: fit it with a penalty"
    )
