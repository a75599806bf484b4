r"""Any ``torch.nn.Module`` as a differentiable network, by autograd (imported only beside torch).

The module is copied once, to float64, and called through ``torch.func.functional_call`` with its
trainable parameters taken from one vector. Frozen parameters and buffers stay what they are. The
user's module is read and never changed; torch's global generator is put back where it was.

Rows' gradients come by ``vmap(grad)``, products with the Hessian by differentiating the gradient
once more, for :math:`L(θ) = Σ ℓ'_i f_i(θ) + ½ Σ ℓ''_i (f_i(θ) − f_i(θ_0))²`, whose Hessian at
``θ_0`` is that of the losses' sum.
"""

from __future__ import annotations

import copy
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, grad, jacrev, vjp, vmap
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.dropout import _DropoutNd

from holdfast.algebra.rows import Array
from holdfast.errors import HoldfastError, UnsupportedModelError

#: numbers that rows' gradients, or a Hessian's columns, may take up at a time
_AT_ONCE = 16_000_000
#: relative difference between two calls of a module that counts as one
_SAME = 1e-9
#: torch has one generator for all threads
_GENERATOR = threading.Lock()

#: losses by name: scores and labels, as tensors, to one loss a row
LOSSES: dict[str, Callable[[Any, Any], Any]] = {
    "logistic": lambda z, y: nn.functional.binary_cross_entropy_with_logits(z, y, reduction="none"),
    "squared": lambda z, y: 0.5 * (z - y) ** 2,
}


class TorchNetwork:
    """A module as a network (see :mod:`holdfast.models.networks.contract`).

    Parameters
    ----------
    module : nn.Module
        From (n, d) to (n,) or (n, 1), in rows that know nothing of each other.
    l2 : float
        The penalty on every trainable parameter.
    X : ndarray of shape (n, d)
        Rows to try it on.
    """

    def __init__(self, module: Any, l2: float, X: Array, name: str = "module", advice: str = ""):
        refuse_unusable(module)
        self.name, self.advice = name, advice
        self._module = copy.deepcopy(module).double()
        self._lock = threading.RLock()
        trainable = [(n, p) for n, p in self._module.named_parameters() if p.requires_grad]
        self._names = [name for name, _ in trainable]
        self._shapes = [parameter.shape for _, parameter in trainable]
        self._sizes = [parameter.numel() for _, parameter in trainable]
        self.fitted = torch.cat([p.detach().reshape(-1) for _, p in trainable]).numpy().copy()
        self.penalty = np.full(self.fitted.size, float(l2))
        self._refuse_strange_outputs(X)
        self.last = self._last_layer(X)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.RLock())

    # the module as a function ---------------------------------------------------------------

    def _output(self, theta: Any, x: Any) -> Any:
        """Whatever the module answers, its trainable parameters taken from a vector."""
        parts = torch.split(theta, self._sizes)
        named = {
            name: part.view(shape)
            for name, part, shape in zip(self._names, parts, self._shapes, strict=True)
        }
        with self._lock:  # the call puts other parameters into the module while it lasts
            return functional_call(self._module, named, (x,))

    def _scores(self, theta: Any, x: Any) -> Any:
        return self._output(theta, x).reshape(-1)

    def _score(self, theta: Any, row: Any) -> Any:
        return self._output(theta, row[None]).reshape(())

    def _refuse_strange_outputs(self, X: Array) -> None:
        """Try the module on some rows: shape, type, and that a row's score is its own."""
        some, theta = _tensor(X[:7]), _tensor(self.fitted)
        n = len(some)
        # what is random draws from a generator that is put back, also where it is refused
        with torch.no_grad(), _GENERATOR, torch.random.fork_rng(devices=[]):
            try:
                out = self._output(theta, some)
            except (RuntimeError, TypeError, ValueError, IndexError) as failure:
                raise HoldfastError(
                    f"the module cannot be called with {n} rows of {X.shape[1]} features in "
                    f"float64: {_first_line(failure)}"
                ) from failure
            if not isinstance(out, torch.Tensor) or out.shape not in ((n,), (n, 1)):
                seen = tuple(out.shape) if isinstance(out, torch.Tensor) else type(out).__name__
                raise HoldfastError(
                    f"the module gives {seen} for {n} rows; one score per row is wanted, of shape "
                    f"({n},) or ({n}, 1)"
                )
            if out.dtype != torch.float64:
                raise HoldfastError(
                    f"the module's scores are {_plain(out.dtype)} though it and its input are "
                    "float64: it converts them inside (.float(), .half() or a constant of that "
                    "type); derivatives need float64 throughout"
                )
            if not bool(torch.isfinite(out).all()):
                row = int(torch.nonzero(~torch.isfinite(out.reshape(-1)))[0])
                raise HoldfastError(f"the module gives {out.reshape(-1)[row]:g} for row {row} of X")
            scale = _SAME * (1.0 + float(out.abs().max()))
            again = self._output(theta, some)
            if float((again - out).abs().max()) > scale:
                raise HoldfastError(
                    "the module gives other scores when it is called again with the same rows: "
                    "something in it is random (dropout left on?); call module.eval() first"
                )
            try:
                alone = torch.cat([self._scores(theta, row[None]) for row in some])
            except (RuntimeError, ValueError) as failure:
                raise HoldfastError(
                    "the module cannot score one row by itself (batch statistics?): "
                    f"{_first_line(failure)}. Call module.eval(), or use LayerNorm"
                ) from failure
            if float((alone - out.reshape(-1)).abs().max()) > scale:
                raise HoldfastError(
                    "a row's score depends on the rows beside it (batch statistics?); derivatives "
                    "of deletions need every row to be scored by itself: call module.eval(), or "
                    "use LayerNorm"
                )
        two = X[:2]
        try:
            self.parameter_gradients(self.fitted, two)
            products = self.hessian_products(self.fitted, two, np.ones(len(two)), np.ones(len(two)))
            products(np.ones((self.fitted.size, 1)))
        except RuntimeError as failure:
            raise UnsupportedModelError(
                "torch.func cannot differentiate this module twice, row by row: "
                f"{_first_line(failure)}"
            ) from failure

    def _last_layer(self, X: Array) -> slice:
        """Where the last layer's parameters are: of the last part the scores are linear in."""
        parts: list[slice] = []
        start, owner = 0, None
        for name, size in zip(self._names, self._sizes, strict=True):
            mine = name.rpartition(".")[0]
            if parts and mine == owner:
                parts[-1] = slice(parts[-1].start, start + size)
            else:
                parts.append(slice(start, start + size))
            start, owner = start + size, mine
        some = X[:7]
        before = self.scores(self.fitted, some)
        for part in parts[::-1]:
            moved = self.fitted.copy()
            moved[part] += 1.0
            linear = self.parameter_gradients(self.fitted, some, part).sum(axis=1)
            after = self.scores(moved, some)
            if np.allclose(after - before, linear, rtol=1e-9, atol=1e-9):
                return part
        return parts[-1]

    # what the contract asks -----------------------------------------------------------------

    def scores(self, theta: Array, X: Array) -> Array:
        with torch.no_grad():
            return _array(self._scores(_tensor(theta), _tensor(X)))

    def pullback(self, theta: Array, X: Array, v: Array) -> Array:
        at = _tensor(theta).requires_grad_(True)
        total = self._scores(at, _tensor(X)) @ _tensor(v)
        return _array(torch.autograd.grad(total, at)[0])

    def along(self, theta: Array, X: Array, direction: Array) -> Array:
        # twice backwards, which more modules support than forwards
        x = _tensor(X)
        still = torch.zeros(len(x), dtype=torch.float64, requires_grad=True)
        at = _tensor(theta).requires_grad_(True)
        gradient = torch.autograd.grad(self._scores(at, x) @ still, at, create_graph=True)[0]
        return _array(torch.autograd.grad(gradient @ _tensor(direction), still)[0])

    def parameter_gradients(self, theta: Array, X: Array, part: slice = slice(None)) -> Array:
        whole = _tensor(theta)
        rows = vmap(grad(self._in_part(whole, part)), in_dims=(None, 0))
        size = whole[part].numel()
        return _in_pieces(lambda some: rows(whole[part], some), X, size)

    def _in_part(self, whole: Any, part: slice) -> Callable[[Any, Any], Any]:
        """A row's score as a function of some of the parameters."""
        start, stop, _ = part.indices(len(whole))

        def score(some: Any, row: Any) -> Any:
            return self._score(torch.cat([whole[:start], some, whole[stop:]]), row)

        return score

    def hessian(self, theta: Array, X: Array, first: Array, second: Array) -> Array:
        found = self.hessian_products(theta, X, first, second)(np.eye(theta.size))
        return 0.5 * (found + found.T)

    def hessian_products(
        self, theta: Array, X: Array, first: Array, second: Array
    ) -> Callable[[Array], Array]:
        x, slopes, curvatures = _tensor(X), _tensor(first), _tensor(second)
        at = _tensor(theta)
        with torch.no_grad():
            here = self._scores(at, x)

        def total(moved: Any) -> Any:
            f = self._scores(moved, x)
            return f @ slopes + 0.5 * (curvatures @ (f - here) ** 2)

        _, backward = vjp(grad(total), at)
        together = max(1, min(32, _AT_ONCE // (64 * max(len(X), 1))))

        def products(vectors: Array) -> Array:
            columns = _tensor(vectors.T)
            if len(columns) == 1:
                return _array(backward(columns[0])[0])[:, None]
            (found,) = vmap(backward, chunk_size=together)(columns)
            return np.ascontiguousarray(_array(found).T)

        return products

    def input_gradients(self, theta: Array, X: Array) -> Array:
        with torch.enable_grad():
            x = _tensor(X).requires_grad_(True)
            found = _array(torch.autograd.grad(self._scores(_tensor(theta), x).sum(), x)[0])
        bad = np.argwhere(~np.isfinite(found))
        if len(bad):
            row, column = (int(v) for v in bad[0])
            raise HoldfastError(
                f"the module's score has no finite derivative in feature {column} at row {row} "
                f"(value {X[row, column]:g}): something like a square root at 0. Smooth it, as in "
                "(x ** 2 + 1e-12).sqrt()"
            )
        return found

    def input_jacobian(self, theta: Array, X: Array, part: slice = slice(None)) -> Array:
        whole = _tensor(theta)
        rows = vmap(jacrev(grad(self._in_part(whole, part), argnums=1)), in_dims=(None, 0))
        size = whole[part].numel() * X.shape[1]
        found = _in_pieces(lambda some: rows(whole[part], some), X, size)
        return found.reshape(len(X) * X.shape[1], -1)

    def module(self, theta: Array) -> Any:
        """A copy of the module, in float64, with these parameters."""
        made = copy.deepcopy(self._module)
        parts = torch.split(_tensor(theta), self._sizes)
        held = dict(made.named_parameters())
        with torch.no_grad():
            for name, part, shape in zip(self._names, parts, self._shapes, strict=True):
                held[name].copy_(part.view(shape))
        return made

    def as_module(self) -> Any:
        """A copy of the module."""
        return self.module(self.fitted)

    def objective(
        self, loss: Callable[[Any, Any], Any], X: Array, y: Array, weights: Array
    ) -> Callable[[Array], tuple[float, Array]]:
        """``Σ ω ℓ + l2/2 ‖θ‖²`` and its gradient, as a function of the parameters."""
        x, labels, shares = _tensor(X), _tensor(y), _tensor(weights)

        def value(theta: Array) -> tuple[float, Array]:
            at = _tensor(theta).requires_grad_(True)
            total = shares @ loss(self._scores(at, x), labels)
            gradient = _array(torch.autograd.grad(total, at)[0]) + self.penalty * theta
            return float(total.detach()) + 0.5 * float((self.penalty * theta) @ theta), gradient

        return value

    def refuse_strange_gradients(self, gradient: Array) -> None:
        """Refuse NaN and infinity in a gradient, naming the first parameter that has them."""
        bad = np.flatnonzero(~np.isfinite(gradient))
        if bad.size == 0:
            return
        place = int(np.searchsorted(np.cumsum(self._sizes), bad[0], side="right"))
        raise HoldfastError(
            f"the gradient of the loss in the module's parameter {self._names[place]!r} is "
            f"{gradient[bad[0]]:g} ({bad.size} of {gradient.size} entries are not finite): a root, "
            "a norm or a logarithm at 0, or a value that overflows; finite gradients are wanted"
        )


class TorchLoss:
    """A loss given as a function of scores and labels, with its derivatives row by row."""

    name = "callable"

    def __init__(self, loss: Callable[[Any, Any], Any]):
        self._loss = loss

    def values(self, z: Array, y: Array) -> Array:
        with torch.no_grad():
            return _array(self._loss(_tensor(z), _tensor(y)))

    def slopes(self, z: Array, y: Array) -> Array:
        return _array(self._derivatives(z, y)[0])

    def curvatures(self, z: Array, y: Array) -> Array:
        slopes, at = self._derivatives(z, y)
        if not slopes.requires_grad:  # linear in the score
            return np.zeros_like(z)
        found = torch.autograd.grad(slopes.sum(), at, allow_unused=True)[0]
        return np.zeros_like(z) if found is None else _array(found)

    def _derivatives(self, z: Array, y: Array) -> tuple[Any, Any]:
        with torch.enable_grad():
            at = _tensor(z).requires_grad_(True)
            total = self._loss(at, _tensor(y)).sum()
            return torch.autograd.grad(total, at, create_graph=True)[0], at


def refuse_strange_losses(loss: Callable[[Any, Any], Any], z: Array, y: Array) -> None:
    """Refuse a loss that is not one finite number a row, of that row alone."""
    with torch.enable_grad():
        _refuse_strange_values(loss, z, y)
    _refuse_wrong_derivatives(loss, z, y)


def _refuse_strange_values(loss: Callable[[Any, Any], Any], z: Array, y: Array) -> None:
    scores, labels = _tensor(z).requires_grad_(True), _tensor(y)
    try:
        found = loss(scores, labels)
    except Exception as failure:  # whatever somebody's loss does
        raise HoldfastError(
            f"the loss cannot be called with {len(z)} scores and labels (float64 tensors): "
            f"{_first_line(failure)}"
        ) from failure
    if isinstance(found, torch.Tensor) and found.dtype != torch.float64:
        raise HoldfastError(
            f"the loss gives {_plain(found.dtype)}; float64, as it is given, is wanted"
        )
    if not isinstance(found, torch.Tensor) or found.shape != scores.shape:
        seen = tuple(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
        raise HoldfastError(
            f"the loss gives {seen} for {len(z)} rows; one loss per row is wanted, of shape "
            f"({len(z)},): leave out the mean or sum (reduction='none')"
        )
    if not found.requires_grad:
        raise HoldfastError(
            "the loss has no derivative in the scores: work with the tensor it is given (no "
            ".detach(), no .numpy())"
        )
    bad = torch.nonzero(~torch.isfinite(found))
    if len(bad):
        row = int(bad[0])
        raise HoldfastError(
            f"the loss of row {row} is {float(found[row].detach()):g} (score {z[row]:g}, label "
            f"{y[row]:g}; {len(bad)} such rows): finite losses are wanted"
        )
    half = len(z) // 2
    for some in (slice(0, max(1, half)), slice(half, None), slice(0, None, 2), slice(0, 1)):
        try:
            part = loss(scores[some], labels[some])
            same = part.shape == scores[some].shape
        except Exception as failure:  # it was written for all rows
            raise HoldfastError(
                f"the loss can be called with {len(z)} rows, and not with {len(z[some])} of them: "
                f"{_first_line(failure)}. A loss of one row's score and label alone is wanted; "
                "weights of the rows are given as sample_weight="
            ) from failure
        if not same or not torch.allclose(part, found[some], rtol=1e-9):
            raise HoldfastError(
                "the loss of a row changes with the rows beside it; one loss per row, of that "
                "row's score and label alone, is wanted"
            )


def _refuse_wrong_derivatives(loss: Callable[[Any, Any], Any], z: Array, y: Array) -> None:
    """Refuse a loss whose curvature is not the change of its slope: one it hides from autograd."""
    made = TorchLoss(loss)
    step = 1e-4 * (1.0 + np.abs(z))
    curved = made.curvatures(z, y)
    found = (made.slopes(z + step, y) - made.slopes(z - step, y)) / (2.0 * step)
    nearer = (made.slopes(z + step / 2, y) - made.slopes(z - step / 2, y)) / step
    smooth = np.abs(found - nearer) <= 0.1 * np.abs(found) + 1e-6  # no kink within the step
    wrong = smooth & ~(np.abs(curved - nearer) <= 0.01 * np.abs(nearer) + 1e-5)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise HoldfastError(
            f"the loss's second derivative is {curved[row]:.3g} at score {z[row]:.3g} and label "
            f"{y[row]:g}, and its slope changes by {nearer[row]:.3g}: something in it cannot be "
            "differentiated twice (an autograd.Function with once_differentiable, a detach)"
        )


def refuse_unusable(module: Any) -> None:
    """Refuse a module that cannot be copied to float64 on the processor, or that is not at rest."""
    tensors = [*module.named_parameters(), *module.named_buffers()]
    for name, tensor in tensors:
        if isinstance(tensor, nn.parameter.UninitializedTensorMixin):
            raise HoldfastError(
                f"the module's parameter {name!r} has no shape yet: call the module once with data"
            )
        if tensor.device.type != "cpu":
            raise HoldfastError(
                f"the module's {name!r} is on {tensor.device.type!r}; the algebra works on the "
                "processor: pass module.cpu() or a copy there (copy.deepcopy(module).cpu())"
            )
    for name, parameter in module.named_parameters():
        if parameter.dtype not in (torch.float32, torch.float64):
            raise HoldfastError(
                f"the module's parameter {name!r} is {_plain(parameter.dtype)}; float32 or float64 "
                "is wanted: pass module.float()"
            )
    if not any(p.requires_grad for p in module.parameters()):
        raise HoldfastError(
            "the module has no trainable parameter (requires_grad=False everywhere): nothing in "
            "it depends on the rows"
        )
    for name, part in module.named_modules():
        if part.training and isinstance(part, _DropoutNd) and part.p > 0:
            raise HoldfastError(
                f"dropout is left on in the module's {name!r} ({type(part).__name__}): its scores "
                "are random and have no derivative in the rows; call module.eval() first"
            )
        if part.training and isinstance(part, _NormBase):
            raise HoldfastError(
                f"the module's {name!r} ({type(part).__name__}) is in training mode, where a row's "
                "score depends on the rows beside it; call module.eval() first, or use LayerNorm"
            )


def sequential(widths: Sequence[int], activation: str) -> Any:
    """A module of linear layers with one of scikit-learn's activations between them."""
    between = {"logistic": nn.Sigmoid, "tanh": nn.Tanh, "relu": nn.ReLU, "identity": nn.Identity}
    parts: list[Any] = []
    for wide, narrow in itertools.pairwise(widths):
        parts += [nn.Linear(wide, narrow), between[activation]()]
    return nn.Sequential(*parts[:-1])


def kept_statistics(module: Any) -> str:
    """What in a module is made of the rows but stays when they go, in words; empty: nothing."""
    names = [name for name, part in module.named_modules() if isinstance(part, _NormBase)]
    if not names:
        return ""
    return (
        f"The running means and variances of {names[0]!r} were made of all rows and stay as they "
        "are in every refit, also of erased ones: use LayerNorm, or fold them into the layer "
        "before and train that"
    )


def without_a_start(module: Any) -> str | None:
    """The first part with parameters but no ``reset_parameters``, by which it could start anew."""
    for name, part in module.named_modules():
        own = any(p.requires_grad for p in part.parameters(recurse=False))
        if own and not hasattr(part, "reset_parameters"):
            return name or type(part).__name__
    return None


def started_anew(module: Any, seed: int) -> Any:
    """A copy of a module with parameters drawn afresh by its parts' ``reset_parameters``.

    What is frozen (``requires_grad=False``) stays as it is, and so do buffers.
    """
    stuck = without_a_start(module)
    if stuck is not None:
        raise HoldfastError(
            f"the module's {stuck!r} has parameters but no reset_parameters(): it is not known how "
            "they are drawn at the start of a training. Give its class that method"
        )
    made = copy.deepcopy(module)
    with _GENERATOR, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for part in made.modules():
            if hasattr(part, "reset_parameters"):
                part.reset_parameters()
    kept = dict(module.named_buffers())
    kept |= {name: p for name, p in module.named_parameters() if not p.requires_grad}
    with torch.no_grad():
        for name, tensor in [*made.named_parameters(), *made.named_buffers()]:
            if name in kept:
                tensor.copy_(kept[name])
    return made


def _in_pieces(function: Callable[[Any], Any], X: Array, width: int) -> Array:
    """A function of rows, some rows at a time."""
    step = max(1, _AT_ONCE // max(width, 1))
    if len(X) == 0:
        return np.zeros((0, width))
    pieces = [_array(function(_tensor(X[i : i + step]))) for i in range(0, len(X), step)]
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _tensor(array: Array) -> Any:
    return torch.tensor(np.asarray(array, dtype=np.float64))


def _array(tensor: Any) -> Array:
    found: Array = tensor.detach().numpy()
    return found


def _plain(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


def _first_line(failure: Exception) -> str:
    return str(failure).strip().split("\n")[0][:300]
