r"""Rows that can go but are not looked at one by one: what any of them can do, bounded together.

Of a table of millions, a few thousand rows are searched and looked at pairwise: those that do most.
The others hardly couple. With :math:`ũ = u/\sqrt D` and :math:`|e_{ij}| ≤ ‖ũ_i‖‖ũ_j‖`, a row
outside that goes as one of ``k`` does

.. math:: c̃_i x_i ≤ \frac{c_i r_i}{P_{ii}} + ‖w‖\, ‖ũ_i‖^2\, R_k ,

where :math:`R_k` bounds the :math:`k−1` largest :math:`‖ũ_j‖ |x_j|` of all rows: what it does
alone, and a little.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from holdfast.algebra.rows import Array


@dataclass(frozen=True)
class Outside:
    """The rows that are not among those of a triple.

    Attributes
    ----------
    rows : int
        How many there are.
    leverage : float
        The largest ``u·u``.
    residual : float
        The largest ``|r|``.
    step : float
        The largest ``‖u‖ |r| / P``: how far one of them moves the parameters alone.
    ceilings : ndarray of shape (functionals,) or None
        The most one of them does alone to each functional, where that was looked at.
    """

    rows: int
    leverage: float
    residual: float
    step: float
    ceilings: Array | None = field(default=None, repr=False)

    @property
    def spread(self) -> float:
        """The largest ``‖ũ‖²``."""
        return self.leverage / max(1.0 - self.leverage, 1e-300)

    def alone(self, lengths: Array) -> Array:
        """The most one of them does alone to functionals of these lengths."""
        by_lengths: Array = lengths * self.step
        if self.ceilings is None:
            return by_lengths
        return np.minimum(np.maximum(self.ceilings, 0.0), by_lengths)

    def together(self, lengths: Array, reach: float) -> Array:
        """The most one of them does as one of several, ``reach`` bounding the others."""
        return (self.alone(lengths) + lengths * self.spread * reach) * (1.0 + 1e-9)

    def after(self, lengths: Array, gone: Array, moved: float) -> Array:
        """The most one of them does once some rows went.

        Parameters
        ----------
        lengths : (functionals,)
        gone : (rows gone, p)
            ``U_T``.
        moved : float
            How far their going moved the parameters, ``‖U_Tᵀ P_TT⁻¹ r_T‖``.
        """
        taken = float(np.linalg.norm(gone, 2)) ** 2 if len(gone) else 0.0
        if taken >= 1.0 or self.leverage >= 1.0:
            return np.full(len(lengths), np.inf)
        more, left = taken / (1.0 - taken), 1.0 - self.leverage
        thinner = 1.0 - self.leverage * more / left
        if thinner <= 0:
            return np.full(len(lengths), np.inf)
        shift = more * self.step + (1.0 + more) * self.leverage * moved / left
        return np.asarray((self.alone(lengths) + lengths * shift) / thinner * (1.0 + 1e-9))
