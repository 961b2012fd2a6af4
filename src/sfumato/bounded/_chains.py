"""Plans of networks for exact sums of gradients: where each parameter stands, and the chain of steps that C does in two calls.

A network without a chain is computed layer by layer, as is every network where nothing was compiled; the bits are the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise

from torch import Tensor, nn

from sfumato.bounded._exact import WholeRows
from sfumato.loops._c_chain import LINEAR, NORMALIZE, SELU, Chain, Weights, Whole
from sfumato.loops._products import products
from sfumato.nn._models import MLP, Encoder, Linear, MultiHopClassifier


class Plan:
    """What all steps of a training share.

    ``known`` says that all values of the network, compiled or not, are those of :mod:`sfumato.loops._products`, whose bits no
    processor changes.

    >>> layer = nn.Linear(2, 1)
    >>> Plan(layer, [layer]).size
    3
    """

    def __init__(self, model: nn.Module, layers: Sequence[nn.Linear]) -> None:
        self.layers = layers
        parameters = list(model.parameters())
        ends = list(accumulate((one.numel() for one in parameters), initial=0))
        self.size = ends[-1]
        self._spans = {id(one): span for one, span in zip(parameters, pairwise(ends), strict=True)}
        steps = _steps(model)
        self.known = steps is not None and steps.layers == list(layers)
        self._steps = steps if self.known and products().NAME == "C" else None

    def sums(self, total: Tensor) -> list[tuple[Tensor, Tensor | None]]:
        """Return views of the sums of all parameters: those of each layer's weights and of its bias."""
        found: list[tuple[Tensor, Tensor | None]] = []
        for layer in self.layers:
            weight = total[slice(*self._spans[id(layer.weight)])].view(layer.weight.shape)
            found.append((weight, None if layer.bias is None else total[slice(*self._spans[id(layer.bias)])]))
        return found

    def chain(self, inputs: Sequence[Tensor | WholeRows], total: Tensor) -> tuple[Chain, Tensor] | None:
        """Return a chain that is to add to ``total``, and its scores of these inputs; None where a network has none."""
        if self._steps is None or len(inputs) != 1:
            return None
        (given,), widths = inputs, self._steps.widths
        entering: Tensor | Whole
        if isinstance(given, WholeRows):
            if given.width != widths[0] or not self._steps.reads_rows:
                return None
            entering, count = given.parts, len(given.norms)
        else:
            count = len(given)
            if given.numel() != count * widths[0] or given.shape[1:] not in (widths[:1], self._steps.shape):
                return None
            entering = given.double().contiguous()
        chain = Chain(products().library, self._steps.steps, widths)
        return chain, chain.forward(count, entering, [self._weights(layer) for layer in self.layers], total)

    def _weights(self, layer: nn.Linear) -> Weights:
        bias = None if layer.bias is None else layer.bias.detach()
        return layer.weight.detach(), bias, self._spans[id(layer.weight)][0], self._spans.get(id(layer.bias), (0, 0))[0]


class _Steps:
    """Steps that are being written down: from buffer 0, of rows of a shape, to the last one."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape
        self.widths: tuple[int, ...] = (math.prod(shape),)
        self.steps: list[tuple[int, ...]] = []
        self.layers: list[nn.Linear] = []

    @property
    def reads_rows(self) -> bool:
        """Whether a single layer reads all that enters."""
        return self.steps[0][0] == LINEAR and self.steps[0][3] == self.widths[0]

    def linear(self, *layers: nn.Linear) -> None:
        """Let layers read parts of the last buffer side by side, and write side by side."""
        source, out, at, to = len(self.widths) - 1, sum(layer.out_features for layer in layers), 0, 0
        for layer in layers:
            sizes = at, layer.in_features, source + 1, to, layer.out_features
            self.steps.append((LINEAR, source, *sizes))
            at, to = at + layer.in_features, to + layer.out_features
        self.layers.extend(layers)
        self.widths = (*self.widths, out)

    def each(self, kind: int) -> None:
        """SELU or norms of rows."""
        source, width = len(self.widths) - 1, self.widths[-1]
        self.steps.append((kind, source, 0, width, source + 1, 0, width))
        self.widths = (*self.widths, width)

    def mlp(self, network: MLP) -> None:
        for number, layer in enumerate(network.layers):
            self.linear(layer)  # type: ignore[arg-type]
            if number < network.num_activated:
                self.each(SELU)


def _steps(model: nn.Module) -> _Steps | None:
    """The steps of a network whose forward is known here; none has batch norm, which `linear_layers` refuses."""
    match model:
        case nn.Linear() if type(model) in (nn.Linear, Linear):
            found = _Steps(model.in_features)
            found.linear(model)
        case MLP() if type(model) is MLP:
            found = _Steps(model.layers[0].in_features)  # type: ignore[arg-type]
            found.mlp(model)
        case Encoder() if type(model) is Encoder:
            found = _Steps(model.mlp.layers[0].in_features)  # type: ignore[arg-type]
            found.mlp(model.mlp)
            found.each(NORMALIZE)
            found.linear(model.head)
        case MultiHopClassifier() if type(model) is MultiHopClassifier and model.combine == "cat":
            found = _Steps(len(model.base), model.base[0].in_features)  # type: ignore[arg-type]
            found.linear(*model.base)
            found.each(NORMALIZE)
            found.each(SELU)
            found.linear(model.head)
        case _:
            return None
    return found
