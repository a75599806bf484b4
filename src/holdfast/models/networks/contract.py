r"""What a network says of itself, so that deletions can be worked out: read this to add one.

A network is a score ``f(θ, x)`` with ``p`` parameters in one vector and a penalty
``½ Σ penalty · θ²`` on them. It knows nothing of labels, losses or rows that go: those are
:class:`~holdfast.models.networks.core.NetworkCore`'s. Where a loss comes in, it does so by two
numbers a row, its first and second derivative in the score, from which every derivative of a sum
of losses follows:

.. math::

   ∇ Σ ℓ_i = Σ ℓ'_i ∇f_i, \qquad ∇² Σ ℓ_i = Σ ℓ''_i ∇f_i ∇f_iᵀ + ℓ'_i ∇²f_i.

Two implementations: :mod:`holdfast.models.networks.perceptron` (scikit-learn's, by numpy) and
:mod:`holdfast.estimators.torch_network` (any ``torch.nn.Module``, by autograd).
"""

from __future__ import annotations

from typing import Any, Protocol

from holdfast.algebra.rows import Array


class Network(Protocol):
    """A differentiable score of ``p`` parameters; everything in float64.

    Attributes
    ----------
    fitted : ndarray of shape (p,)
        The parameters as they were given.
    penalty : ndarray of shape (p,)
        What multiplies half of every parameter's square in the objective.
    last : slice
        Where the parameters of the last layer are.
    name : str
        Of the estimator.
    advice : str
        What to do about a fit that stopped early.
    """

    fitted: Array
    penalty: Array
    last: slice
    name: str
    advice: str

    def scores(self, theta: Array, X: Array) -> Array:
        """``f`` of every row, (n,)."""
        ...

    def along(self, theta: Array, X: Array, direction: Array) -> Array:
        """``∇_θ f · direction`` of every row, (n,)."""
        ...

    def pullback(self, theta: Array, X: Array, v: Array) -> Array:
        """``Σ v_i ∇_θ f_i``, (p,), without the rows' gradients."""
        ...

    def parameter_gradients(self, theta: Array, X: Array, part: slice = slice(None)) -> Array:
        """``∇_θ f`` of every row in some of the parameters, (n, p)."""
        ...

    def hessian(self, theta: Array, X: Array, first: Array, second: Array) -> Array:
        """``Σ second ∇f ∇fᵀ + first ∇²f`` of shape (p, p)."""
        ...

    def hessian_products(
        self, theta: Array, X: Array, first: Array, second: Array
    ) -> HessianProducts:
        """The same as a function of vectors, (p, k) → (p, k), with what can be done once done."""
        ...

    def input_gradients(self, theta: Array, X: Array) -> Array:
        """``∇_x f`` of every row, (n, d)."""
        ...

    def as_module(self) -> Any:
        """A torch module of the same shape, for those who train it otherwise."""
        ...

    def input_jacobian(self, theta: Array, X: Array, part: slice = slice(None)) -> Array:
        """``∂(∇_x f)/∂θ`` of shape (n·d, p), in some of the parameters."""
        ...


class HessianProducts(Protocol):
    """A Hessian, as a function."""

    def __call__(self, vectors: Array) -> Array:
        """Its products with some vectors, (p, k) → (p, k)."""
        ...
