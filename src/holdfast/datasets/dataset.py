"""A data set: a table of people, what is to be predicted, and what a person can change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

from holdfast.algebra.rows import Positions
from holdfast.errors import HoldfastError
from holdfast.recourse.actionability import Actionability


@dataclass(frozen=True)
class Dataset:
    """A cleaned table for one task.

    Attributes
    ----------
    name, task : str
    X : frame
        Features as people know them: numbers and text, the index being ``ids``. Missing numbers
        are NaN.
    y : ndarray of shape (n,)
        Numbers where high is good (regression), or 1 for the favourable outcome and 0.
    ids : ndarray of str
    subjects : ndarray or None
        Whose row each is, where a person may have several.
    actionability : Actionability
        Which features a person can change, and in which direction.
    favourable : int or str
        The good outcome: 1, or ``"high"`` for a regression.
    about : mapping
        Where it came from (file, hash), rows before duplicates were dropped, what is predicted.

    Examples
    --------
    >>> import holdfast as hf
    >>> data = hf.load_dataset("diabetes-progression")
    >>> data
    <Dataset diabetes-progression, regression: 442 rows, 10 features>
    >>> train, test = data.split(random_state=0)
    >>> len(train), len(test)
    (353, 89)
    """

    name: str
    task: str
    X: pd.DataFrame = field(repr=False)
    y: npt.NDArray[Any] = field(repr=False)
    actionability: Actionability = field(repr=False)
    favourable: int | str
    subjects: npt.NDArray[Any] | None = field(default=None, repr=False)
    about: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def ids(self) -> npt.NDArray[Any]:
        """The name of every row, as text."""
        return self.X.index.to_numpy(dtype=object)

    def split(self, random_state: int = 0, share: float = 0.8) -> tuple[Positions, Positions]:
        """Positions of the rows to train on and of those to test on, both in random order.

        The first 80 % of ``numpy.random.default_rng(random_state).permutation(n)``, and the rest.
        """
        if not 0 < share < 1:
            raise HoldfastError(f"share must lie between 0 and 1, got {share!r}")
        order = np.random.default_rng(random_state).permutation(len(self.X))
        cut = int(share * len(order))
        return order[:cut], order[cut:]

    def encoder(self, flags: bool = True) -> ColumnTransformer:
        """Preprocessing to be fitted on the training part: what the paper's tooling does.

        Numbers are scaled to [0, 1] by the smallest and largest training value (missing ones are
        first filled with the training median, and with ``flags`` a 0/1 column says which were);
        text is one-hot encoded, every category kept. Gives frames.
        """
        text = [c for c in self.X if not pd.api.types.is_numeric_dtype(self.X[c])]
        numbers = [c for c in self.X if c not in text]
        scaled = make_pipeline(
            SimpleImputer(strategy="median", add_indicator=flags), MinMaxScaler()
        )
        one_hot = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
        made = ColumnTransformer(
            [("numbers", scaled, numbers), ("text", one_hot, text)],
            verbose_feature_names_out=False,
        )
        return made.set_output(transform="pandas")

    def __repr__(self) -> str:
        return (
            f"<Dataset {self.name}, {self.task}: {len(self.X):,} rows, {self.X.shape[1]} features>"
        )
