r"""Networks of any layers, as a function of one row that is written down before data is seen: what DP-SGD may run, and what not.

**Formal guarantee** of :class:`RowFunction`: scores and loss of an example are a function of its own row and of the weights.
**Proof.** A copy of the network is exported (:func:`torch.export.export`) for a batch of one made-up row, and the graph of
operations that this gives is all that is ever run. Each operation is one of Torch's own (namespace ``aten``), changes none of its
inputs, reads no memory that was not written, and draws no random number. So nothing is kept from one call to the next, in
buffers or anywhere else: what a ``forward`` keeps in attributes or global names was read once, from the made-up row. Weights and
buffers are plain tensors that are made anew, onto which nothing is hung. Each example runs alone
(:mod:`~sfumato.bounded._example_gradients`), and so does each row of which scores are predicted, so no other row takes part.

Weights that are used several times, and layers that an example meets several times, add to one gradient, which is clipped as
a whole. So both are allowed.

What cannot be written down so is refused: branches that depend on values, random layers, buffers that change, operations of
other packages. So is what can be written down but means another thing for one row than for many: batch norm, and a ``forward``
that mixes rows.
"""

from __future__ import annotations

import logging
import math
import operator
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from copy import deepcopy
from io import StringIO
from typing import Any

import torch
from torch import Tensor, nn

from sfumato._validate import fail
from sfumato.errors import InputError

_ROWS, _TOLERANCE = 3, 1e-6
_SIDE_BY_SIDE = "Use LayerNorm or GroupNorm, which read one row at a time."
_UNDEFINED = ("::empty", "::new_empty", "_unsafe", "segment_reduce", "::set_", "::as_strided")
_DEFINED = ("aten::_unsafe_view",)
"""Parts of names of operations whose values may be those of memory that another row has used."""
_GLOBAL_HOOKS = tuple(
    name for name in vars(nn.modules.module) if name.startswith("_global_") and name.endswith("hooks")
)
_ALONE = (nn.Linear, nn.ReLU, nn.Identity, nn.Flatten)
"""Layers whose values on a row have the same bits beside any other rows, if products are exact."""


class RowFunction(nn.Module):
    """A network as a graph of operations on one row; its parameters are copies of those that are trained, in float64.

    Args:
        network: maps rows to tensors, float64 [n, ...] each; it is copied.
        rows: what one made-up row looks like, each with the first dimension 1; floats are read as float64.

    Raises:
        InputError: the network cannot be shown to be a function of one row and of its weights.

    >>> function = RowFunction(nn.Linear(2, 3), torch.zeros(1, 2))
    >>> function(torch.ones(1, 2).double()).shape, len(list(function.parameters()))
    (torch.Size([1, 3]), 2)
    """

    def __init__(self, network: nn.Module, *rows: Tensor) -> None:
        super().__init__()
        _check_layers(network)
        copy = deepcopy(network).double().train()
        rows = tuple(row.double() if row.is_floating_point() else row for row in rows)
        program = _exported(deepcopy(copy), rows)
        _check_operations(program)
        named = dict(copy.named_parameters(remove_duplicate=False))
        state = {**dict(copy.named_buffers(remove_duplicate=False)), **named, **program.constants}
        made = {id(one): _anew(one) for one in state.values()}  # a weight with two names stays one weight
        kinds = [(one.kind.name, one.target) for one in program.graph_signature.input_specs]
        self._state = [None if kind == "USER_INPUT" else made[id(state[target])] for kind, target in kinds]
        self._run = [program.graph_module]  # in a list: its parameters are not those that are trained
        self.trained = nn.ParameterList(made[id(one)] for one in copy.parameters() if one.requires_grad)

    def forward(self, *rows: Tensor) -> Tensor:
        """Compute the value of one row."""
        given = iter(rows)
        out: Tensor = self._run[0](*(next(given) if one is None else one for one in self._state))[0]
        return out


def _anew(one: Tensor) -> Tensor:
    """The same values in a tensor of its own, without whatever was hung onto the other."""
    values = one.detach().clone()
    return nn.Parameter(values) if one.requires_grad else values


def is_dense(network: nn.Module) -> bool:
    """Return whether a network is a stack of linear layers with ReLU between, each used once: its rows may share products.

    >>> is_dense(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))), is_dense(nn.Sequential(nn.Tanh()))
    (True, False)
    """
    if any(getattr(nn.modules.module, name) for name in _GLOBAL_HOOKS):
        return False
    if type(network) is nn.Linear:
        return _plain(network)
    if type(network) is not nn.Sequential or not _plain(network):
        return False
    layers = list(network)
    distinct = len({id(one) for layer in layers for one in layer.parameters()})
    return (
        all(type(layer) in _ALONE and _plain(layer) for layer in layers)
        and len({id(layer) for layer in layers if isinstance(layer, nn.Linear)}) > 0
        and distinct == sum(len(list(layer.parameters())) for layer in layers)
    )


def _plain(layer: nn.Module) -> bool:
    """Whether nothing was hung onto a layer, and all of it is trained."""
    known = vars(nn.Linear(1, 1) if isinstance(layer, nn.Linear) else type(layer)())
    hung = (
        any(value for name, value in vars(layer).items() if name.endswith("_hooks"))
        or not vars(layer).keys() <= known.keys()
    )
    if isinstance(layer, nn.Flatten) and (layer.start_dim, layer.end_dim) != (1, -1):
        return False
    return not hung and all(type(one) is nn.Parameter and one.requires_grad for one in layer.parameters())


def row_function(network: nn.Module, width: int) -> RowFunction:
    """Return a network as a function of one row of features; refuse what has no proof, or means another thing for many rows.

    Args:
        network: maps float [n, width] to scores [n, k].
        width: number of features.

    Raises:
        InputError: there is no proof for the network, or its scores have another shape.

    >>> row_function(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), 2)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    sfumato.errors.InputError: Expected module to have no layer that reads other rows, got 'BatchNorm1d'. Use LayerNorm or ...
    """
    made_up = torch.randn(_ROWS, width, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    function = RowFunction(network, made_up[:1])
    before = torch.get_rng_state()
    each = torch.cat([function(row[None]) for row in made_up])
    if not torch.equal(before, torch.get_rng_state()):
        raise _refused("a random number is drawn")
    if each.ndim != 2 or len(each) != _ROWS or each.dtype != torch.float64:
        raise fail("module", tuple(each.shape), "to map features [n, d] to scores [n, k]", "Flatten what it returns.")
    try:
        with torch.no_grad():
            copy = deepcopy(network).double().train()
            copy(made_up)
            together = copy(made_up)  # the second time, so that what the first left behind shows
        alike = together.shape == each.shape and torch.allclose(together, each, rtol=_TOLERANCE, atol=_TOLERANCE)
    except Exception as error:  # whatever a network of others raises
        raise InputError(f"Expected module to take a batch of {_ROWS} rows, but it raised: {_short(error)}") from error
    if not alike:
        raise InputError(
            "Expected module to score each row by itself, but rows beside others have other scores than alone. Use no "
            "operation over the first dimension, and nothing that is kept from one call to the next."
        )
    trained = list(function.trained)
    grads = torch.autograd.grad(each.sum(), trained, allow_unused=True) if trained else ()
    if not grads or any(one is None for one in grads):
        raise InputError(
            "Expected every parameter of module to take part in its scores, but one takes none, or there is none. Remove it, or "
            "freeze it with requires_grad_(False)."
        )
    return function


def loss_function(loss: Callable[[Tensor, Tensor], Tensor], num_classes: int) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a loss of one example's scores and class as a graph of operations; refuse what has no proof.

    Args:
        loss: maps scores [1, k] and a class [1] to one number.
        num_classes: k.

    Raises:
        InputError: it is no such function, or has parameters of its own.

    >>> found = loss_function(nn.CrossEntropyLoss(), 2)
    >>> round(found(torch.zeros(1, 2).double(), torch.tensor([1])).item(), 4)
    0.6931
    """
    wrapped = _Loss(loss)
    if any(one.requires_grad for one in wrapped.parameters()):
        raise fail("loss", type(loss).__name__, "to have no parameters to train")
    scores = torch.zeros(1, num_classes, dtype=torch.float64, requires_grad=True)
    classes = torch.zeros(1, dtype=torch.int64)
    function = RowFunction(wrapped, scores, classes)
    found = function(scores, classes)
    if not isinstance(found, Tensor):
        raise fail("loss", type(found).__name__, "to return a tensor")
    if found.numel() != 1 or not math.isfinite(found.item()):
        raise fail("loss", tuple(found.shape), "to return one finite number for scores [1, k] and a class [1]")
    if not found.requires_grad:
        raise fail("loss", "a constant", "to depend on the scores", "Do not detach them.")
    return lambda scores, classes: function(scores, classes).reshape(())


class _Loss(nn.Module):
    def __init__(self, loss: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, scores: Tensor, classes: Tensor) -> Tensor:
        return self.loss(scores, classes)


def _check_layers(network: nn.Module) -> None:
    mixing = sorted(
        {type(one).__name__ for one in network.modules() if isinstance(one, nn.modules.batchnorm._BatchNorm)}
    )
    if mixing:
        raise fail("module", ", ".join(mixing), "to have no layer that reads other rows", _SIDE_BY_SIDE)
    state = [*network.parameters(), *network.buffers()]
    if any(isinstance(one, nn.UninitializedParameter) for one in state):
        raise fail("module", "lazy layers", "to have parameters", "Run it once on made-up rows.")
    other = next((one for one in state if type(one) not in (Tensor, nn.Parameter) or one.is_complex()), None)
    if other is not None:
        kind = "complex numbers" if other.is_complex() else type(other).__name__
        raise fail("module", kind, "to have parameters and buffers that are plain tensors of real numbers")


def _exported(network: nn.Module, rows: tuple[Tensor, ...]) -> Any:
    """The exported network, in functional form: no operation changes its inputs."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)  # the exporter logs and prints what it then raises
    try:
        with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            warnings.simplefilter("ignore")
            return torch.export.export(network, rows, strict=False).run_decompositions({})
    except Exception as error:  # the exporter raises errors of many kinds
        raise InputError(
            f"Expected module to be a fixed sequence of operations that torch.export can write down, but it raised: "
            f"{_short(error)} Branches on values, and code outside Torch, have no proof."
        ) from error
    finally:
        logging.disable(disabled)


def _check_operations(program: Any) -> None:
    signature = program.graph_signature
    if signature.buffers_to_mutate or signature.user_inputs_to_mutate:
        raise _refused("buffers change from one row to the next")
    kinds = {one.kind.name for one in signature.input_specs}
    if not kinds <= {"PARAMETER", "BUFFER", "CONSTANT_TENSOR", "USER_INPUT"} or len(signature.output_specs) != 1:
        raise _refused("it takes or returns other than tensors")
    for node in program.graph.nodes:
        if node.op in ("placeholder", "output") or node.target is operator.getitem:
            continue
        kind = node.target
        if node.op != "call_function" or getattr(kind, "namespace", "") != "aten" or kind._schema.is_mutable:
            raise _refused(f"the operation {kind} is not one of Torch's own, or changes what it reads")
        name = kind._schema.name
        if name not in _DEFINED and any(word in name for word in _UNDEFINED):
            raise _refused(f"{kind} may read memory that holds what was there before")
        if torch.Tag.nondeterministic_seeded in kind.tags and not _without_dropout(node):
            raise _refused(f"{kind} draws random numbers")


def _without_dropout(node: Any) -> bool:
    """Whether the only thing that an operation would draw is a dropout of share 0."""
    schema = node.target._schema.arguments
    given = {one.name: value for one, value in zip(schema, node.args, strict=False)} | dict(node.kwargs)
    shares = [given.get(one.name, one.default_value) for one in schema if one.name in ("dropout", "dropout_p", "p")]
    return shares == [0.0]


def _refused(why: str) -> InputError:
    return InputError(
        f"Expected module to be a function of one row and of its weights, but {why}. Remove dropout and other random layers, "
        "and buffers that forward changes."
    )


def _short(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
