r"""The worst start and data sets for DP-GNN: each term that a record reaches turns from a clipped gradient to its opposite.

A claim holds for all first weights that were made without private data, so it holds for these. One hidden unit counts. It reads
in the last average how far a node's sub-graph leans along a second feature, and much more strongly the node's own third feature:
nodes near the record lean one way, and without it the other way. With outgoing weights (0, A, -A), A large, the first class is
sure to be missed for the second or for the third. So the gradient of the unit is A times the node's row or -A times it, and all
other gradients are small beside it. Rows differ little: their first feature is nearly all of their norm.

A record that *leaves* takes its own term away. One that is *replaced* leans the other way, and those that it reaches do so too:
without a message they have the opposite sign of those that the first record reaches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import nn

from sfumato.central._dpgnn import DPGNN
from sfumato.graph._graph import Graph

if TYPE_CHECKING:
    from sfumato.graph._graph import PublicFacts
    from sfumato.nn._models import MLP
    from sfumato.privacy.units import Unit

_LEAN, _OWN, _STILL = 0.1, 0.1, 0.01  # features beside the first one, and what the unit holds without a message
_LOUD = 1e6
_TRAIN, _TEST, _FREE_ARCS = 0, 2, 4


class WorstStart(DPGNN):
    """DP-GNN whose network starts where one unit tells all."""

    @classmethod
    def of(cls, method: Any) -> WorstStart:
        """Return a method with the settings of another one."""
        return cls(**method.settings)

    def _network(self, public: PublicFacts, unit: Unit) -> MLP:
        network = super()._network(public, unit)
        first, second = cast("list[nn.Linear]", network.layers)
        with torch.no_grad():
            for weights in network.parameters():
                weights.zero_()
            lean: Any = first.weight[0]
            lean[1 - public.num_features] = 2 * _STILL * 2**self.num_layers / _LEAN
            lean[2] = 100 * _STILL / _OWN
            first.bias[0] = -_STILL
            second.weight[1:3, 0] = torch.tensor([_LOUD, -_LOUD])
        return network


def worst_subgraphs(method: DPGNN, unit: Unit) -> tuple[Graph, Graph]:
    """Return a graph in which a record reaches as many roots as it may, and its neighbor without it, or with another record.

    Node 0 is the record. The nodes of the first tree below it are those that one record reaches, and those of the second tree
    those that the other record reaches.
    """
    arcs = unit.max_out_degree or max(_FREE_ARCS, method.max_arcs)
    first, below = _tree(arcs, min(method.max_arcs, arcs), method.num_layers)
    size = len(first) + len(below)
    second, last = [target + size for target in first], 2 * size + 1
    others = [*below, *((owner + size, target + size) for owner, target in below)]
    x = np.zeros((last + 1, 3), np.float32)
    x[:, 0], x[size + 1 : last, 2] = 1, 2 * _OWN / 100  # the second tree leans the other way without a message
    roles = np.where(np.arange(last + 1) < last, _TRAIN, _TEST).astype(np.uint8)
    replaced = unit.relation == "replace"

    def world(record: tuple[float, ...], label: int, targets: list[int]) -> Graph:
        sources, sinks = np.array([*((0, target) for target in targets), *others], np.int64).reshape(-1, 2).T
        rows, labels = np.vstack([np.array(record, np.float32), x[1:]]), np.r_[label, np.zeros(last, np.int64)]
        return Graph.from_arcs(
            sources, sinks, last + 1, directed=True, x=rows, y=labels, classes=("0", "1", "2"), roles=roles
        )

    full = world((1, _LEAN, _OWN * replaced), 0, first)
    return full, world((1, -_LEAN, -_OWN), 0, second) if replaced else world((0, 0, 0), -1, [])


def _tree(arcs: int, kept: int, layers: int) -> tuple[list[int], list[tuple[int, int]]]:
    """Nodes that a record sends to, and the arcs below them: each node owns ``kept``, down to the last layer."""
    first = level = list(range(1, arcs + 1))
    below: list[tuple[int, int]] = []
    for _ in range(layers - 1):
        start = level[-1] + 1
        further = [(owner, start + kept * k + i) for k, owner in enumerate(level) for i in range(kept)]
        below, level = below + further, [target for _, target in further]
    return first, below
