"""For tests of models: "no three erasures may break 20 %" as an assertion.

The fixture is there wherever holdfast is installed::

    def test_promises_hold(survives_erasures, model, promised):
        survives_erasures(model, promised, erasures=3, at_most=0.2)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture(scope="session")
def survives_erasures() -> Callable[..., Any]:
    """A function that fails where erasures break more promises than allowed."""
    return _survives


def _survives(
    model: Any,
    given: Any,
    erasures: int = 3,
    at_most: float = 0.2,
    proven: bool = False,
    **options: Any,
) -> Any:
    """Audit, and fail with the headline where more than a share of the promises breaks.

    Parameters
    ----------
    model, given
        As :func:`holdfast.audit` takes them.
    erasures : int
    at_most : float
        The share of promises that so many erasures may break, confirmed by refitting.
    proven : bool
        Whether it must be proven, not only not found.
    **options
        Of :func:`holdfast.audit`.

    Returns
    -------
    Audit
    """
    import holdfast as hf

    __tracebackhide__ = True
    result = hf.audit(model, given, max_deletions=erasures, at=erasures, **options)
    share = result.share_broken(erasures)
    if not share <= at_most:
        pytest.fail(f"{share:.1%} broken, at most {at_most:.1%} allowed. {result.headline}")
    if proven:
        ceiling = result.ceiling(erasures)
        if ceiling is None or ceiling > at_most:
            said = "nothing is proven" if ceiling is None else f"proven: at most {ceiling:.1%}"
            pytest.fail(f"{said}, at most {at_most:.1%} wanted. {result.headline}")
    return result
