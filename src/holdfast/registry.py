"""Families, losses, recourse methods, searches and mitigations of your own, beside ours."""

from __future__ import annotations

from typing import Any

from holdfast.errors import HoldfastError

KINDS = ("family", "loss", "method", "search", "mitigation")


def register(kind: str, thing: Any, name: str | None = None) -> None:
    """Add something of your own to what Holdfast knows, as ours are added.

    Parameters
    ----------
    kind : {"family", "loss", "method", "search", "mitigation"}
        A :class:`~holdfast.models.core.Family` of estimators; a
        :class:`~holdfast.models.losses.Loss`; a recourse method ``(problem, rng, **options)``; a
        search ``(attack, budget, rng, **options)``, or a
        ``holdfast.searches.found.Method``; a mitigation ``(comparison, **options)``.
    thing : object
    name : str, optional
        What it is called; by default its own name, with dashes. Families need none.

    Examples
    --------
    >>> import holdfast as hf
    >>> def first_rows(attack, budget, rng):
    ...     return [list(range(k)) for k in range(budget + 1)]
    >>> hf.register("search", first_rows)
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import LinearRegression
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = hf.erasable(LinearRegression().fit(X, y), X, y)
    >>> hf.search(model, X, target=150, max_deletions=3, method="first-rows").rows
    array([0, 1, 2])
    """
    if kind not in KINDS:
        raise HoldfastError(f"kind must be one of {', '.join(map(repr, KINDS))}, got {kind!r}")
    if kind == "family":
        _register_family(thing)
        return
    if kind == "loss":
        from holdfast.models.losses import LOSSES

        _add(LOSSES, name or getattr(thing, "name", None), thing, kind)
        return
    if not callable(thing) and not (kind == "search" and hasattr(thing, "run")):
        raise HoldfastError(f"a {kind} must be callable, got {type(thing).__name__}")
    called = name or getattr(thing, "__name__", "").replace("_", "-")
    if kind == "method":
        from holdfast.recourse import METHODS

        _add(METHODS, called, thing, kind)
    elif kind == "search":
        from holdfast.searches import METHODS as SEARCHES
        from holdfast.searches.found import Method

        _add(SEARCHES, called, thing if isinstance(thing, Method) else Method(thing), kind)
    else:
        from holdfast.audits.hardening import MITIGATIONS

        _add(MITIGATIONS, called, thing, kind)


def _register_family(family: Any) -> None:
    from holdfast.models.core import Family
    from holdfast.models.families import FAMILIES

    if not isinstance(family, Family):
        raise HoldfastError(
            f"a family is a holdfast.models.core.Family, got {type(family).__name__}"
        )
    classes = family.estimators
    if not isinstance(classes, tuple) or not all(isinstance(kind, type) for kind in classes):
        raise HoldfastError(f"a family's estimators are a tuple of classes, got {classes!r}")
    if not callable(family.make) or not callable(family.unsupported):
        raise HoldfastError("a family's make and unsupported must be callable")
    FAMILIES[:] = [known for known in FAMILIES if known.estimators != family.estimators]
    FAMILIES.append(family)  # the newest counts


def _add(known: dict[str, Any], name: str | None, thing: Any, kind: str) -> None:
    if not name or not isinstance(name, str):
        raise HoldfastError(f"a {kind} needs a name: pass name=")
    known[name] = thing
