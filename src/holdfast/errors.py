"""Everything Holdfast raises or warns about.

::

    HoldfastError (ValueError)
    ├── UnsupportedModelError (TypeError)   this estimator, or this use of it, is not covered
    ├── DataMismatchError                   X and y are not what the model was fitted on
    └── SingularDeletionError               without these rows there is no unique fit
    DriftWarning (UserWarning)              fitted and optimal scores differ, or digits are lost
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

_SETTING = re.compile(r"⟦(\w+)⟧")


class HoldfastError(ValueError):
    """Bad input: the message says what was seen, where, and what is wanted.

    A message may name a setting as ``⟦max_deletions⟧``: whoever shows it says how it is set there,
    as an argument, an option or a field of a form.
    """

    def __str__(self) -> str:
        return self.worded(lambda name: name)

    def worded(self, setting: Callable[[str], str]) -> str:
        """The message with settings named as ``setting`` names them.

        Examples
        --------
        >>> from holdfast.errors import HoldfastError
        >>> error = HoldfastError("say which column names people with ⟦subject⟧")
        >>> error.worded(lambda name: f"--{name}")
        'say which column names people with --subject'
        """
        return _SETTING.sub(lambda found: setting(found[1]), super().__str__())


class UnsupportedModelError(HoldfastError, TypeError):
    """The estimator, or what was asked of it, is outside what the algebra covers."""


class DataMismatchError(HoldfastError):
    """The training data given are not the data the estimator was fitted on."""


class SingularDeletionError(HoldfastError):
    """Without these rows the fit is singular, a class is gone, or nothing is left.

    Attributes
    ----------
    rows : tuple of int
        The positions of the training rows that cannot go.
    """

    def __init__(self, message: str, rows: Iterable[int]):
        super().__init__(message)
        self.rows = tuple(int(i) for i in rows)


class DriftWarning(UserWarning):
    """Scores here are not quite those of the fitted estimator.

    It had stopped short of its optimum and its scores moved when it was polished, or its kernel
    matrix is so badly conditioned that predicted and refitted scores agree to fewer digits.
    """
