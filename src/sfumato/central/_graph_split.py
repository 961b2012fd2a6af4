r"""Graph convolutions on a graph that is split into groups: DP-SGD in which an example is a whole group.

1. *Split.* Groups come from public ids and a public seed; every arc between two groups is deleted
   (:mod:`~sfumato.bounded._splits`).
2. *Train.* A graph convolution of two layers. Each group gives the gradient of its mean loss, clipped over all parameters
   jointly; groups are Poisson-sampled (:mod:`~sfumato.bounded._split_gradients`).
3. *Predict.* Each node by **its own features alone**: the convolution of a node without neighbors, :math:`\hat A = 1`. Inside
   the group it would read other nodes' raw features, which no noise covers.

More groups are more examples, so less noise, and fewer arcs: of K groups one arc in K is left. With one node a group
this is DP-SGD of a plain network. ``docs/results/graph-split.md`` has what that is worth: the graph-free ``linear`` is better at
the same budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import AT_LEAST_1, PRIVATE, check_fields, flag, integer, one_of, real, setting
from sfumato.bounded._clip_kernel import LEAST_CLIP, MOST_CLIP, MOST_ROWS
from sfumato.bounded._split_gradients import SplitNetwork
from sfumato.bounded._splits import check_groups, split_graph
from sfumato.central._two_layers import check_features, layers, num_weights, own_scores, train_split
from sfumato.method.card import Audience, Card
from sfumato.method.contract import Arrays, Outcome, Planned, Session
from sfumato.method.curator import CuratorMethod
from sfumato.nn._training import SGD, Adam
from sfumato.privacy.events import PoissonGaussianEvent
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.privacy.units import Unit

_OPTIMIZERS = {"adam": Adam, "sgd": SGD}


@dataclass(frozen=True)
class GraphSplit(CuratorMethod):
    r"""Graph convolutions on groups of nodes that have no arc between them, trained by DP-SGD with a group as the example.

    The scores of node v are :math:`W_2 \, \mathrm{ReLU}(W_1 \hat x_v + b_1) + b_2`, float32 [num_nodes, num_classes], with
    :math:`\hat x_v` its own features scaled to norm 1. Under unit none they are those of the whole convolution inside groups.

    **Formal guarantee.** At node level one DP-SGD run over groups
    (:func:`~sfumato.bounded._split_gradients.split_steps`), for any number of arcs, incident or owned. Under relation
    ``remove`` a group that holds an absent node is left out.

    Errors: ``calibrate`` raises UnsupportedUnitError under every unit but node and none.

    Args:
        num_groups: K, how many groups the nodes are split into; at most 2^29.
        batch_size: expected number of groups in a Poisson sample; at most all of them.
        steps: number of steps.
        learning_rate: step size, in (0, 100].
        optimizer: "adam" or "sgd".
        width: number of hidden units.
        dropout: share of hidden units that are dropped at each step, by public words, in [0, 1).
        second_hop: whether the second layer reads neighbors as well; else features alone are summed over neighbors, once.
        l2_clip_norm: largest L2 norm of a group's gradient.
        group_seed: public seed of the groups.

    Raises:
        InputError: a setting is out of range.

    >>> from sfumato.graph._graph import PublicFacts
    >>> from sfumato.privacy.budget import Budget
    >>> from sfumato.privacy.units import NodeLevel
    >>> facts = PublicFacts(num_nodes=1000, num_train=750, num_features=10, num_classes=3, directed=False)
    >>> plan = GraphSplit().calibrate(Budget(4.0, 1e-5), NodeLevel(arcs="incident"), facts)
    >>> [release.name for release in plan.releases], round(plan.epsilon, 2)
    (['network'], 4.0)

    Source: Igamberdiev and Habernal (2022), section 4.4. Their accounting holds for no unit: their code clips nothing and sends
    messages across groups. Groups, clipping and sampling here are those that DP-SGD needs.
    """

    num_groups: int = 1000
    batch_size: int = setting(1000, PRIVATE)
    steps: int = 100
    learning_rate: float = 0.03
    optimizer: str = "adam"
    width: int = 32
    dropout: float = 0.0
    second_hop: bool = True
    l2_clip_norm: float = setting(0.01, PRIVATE)
    group_seed: int = 0
    card: ClassVar[Card] = Card(
        name="graph-split",
        summary="graph convolutions on groups without arcs between them",
        units=("node",),
        candidates=({"num_groups": 300}, {"num_groups": 1000}, {"num_groups": 3000}),
        citations=("igamberdiev2022privacy",),
        audience=Audience(("weights",), never_of_nodes=("predictions that read neighbors",)),
        notes=(
            "An example of DP-SGD is a group of nodes here. Its gradient is computed by compiled code in a fixed order, "
            "not by exact products; sums over groups are exact.",
            "Constants of the method were chosen on Cora-ML and UCSC68.",
        ),
    )

    def __post_init__(self) -> None:
        check_fields(self, num_groups=integer(1, MOST_ROWS), batch_size=AT_LEAST_1, steps=AT_LEAST_1)
        check_fields(self, learning_rate=real(0, 100, above=True), optimizer=one_of(*tuple(_OPTIMIZERS)))
        check_fields(self, width=AT_LEAST_1, dropout=real(0, 1, below=True), second_hop=flag())
        check_fields(self, l2_clip_norm=real(LEAST_CLIP, MOST_CLIP), group_seed=integer(0))

    def check(self, graph: Graph) -> None:
        """Refuse a graph without features, of which every prediction would be the same.

        Raises:
            InputError: there is no column of features.
        """
        check_features(graph)

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        """List one DP-SGD run over groups."""
        check_groups(unit)
        relation = "replace" if unit.relation == "replace" else "add-remove"
        prob = min(self.batch_size, self.num_groups) / self.num_groups
        size = num_weights(public, self.width)
        event = PoissonGaussianEvent(prob, noise_multiplier, self.steps, relation)
        return (Release("network", event, (size,), size, arc_change=unit.no_arc_change),)

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        """Split the graph, then train on groups."""
        made = partial(self.network, plan.public, graph, session.seed)
        return Outcome(train_split(self, plan, session, made, _OPTIMIZERS[self.optimizer]), {})

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Apply the network to each node's own features."""
        return own_scores(weights, graph) if plan.unit.private else self.group_scores(weights, graph)

    def predicts_alone(self, unit: Unit) -> bool:
        """Return True but under unit none; ``unit`` is that of the run."""
        return unit.private

    def network(self, public: PublicFacts, graph: Graph, seed: int) -> SplitNetwork:
        """Return the network on the split graph. It holds private data.

        Args:
            public: facts of the graph.
            graph: the private data.
            seed: the public seed of dropout.
        """
        split = split_graph(graph, self.num_groups, self.group_seed, second_hop=self.second_hop)
        return SplitNetwork(split, self.width, public.num_classes, self.dropout, seed)

    def group_scores(self, weights: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Apply the convolution inside groups. **Evaluation only**: scores of a node read the raw features of others.

        Args:
            weights: the trained weights.
            graph: its features and the arcs inside groups are read.
        """
        split = split_graph(graph, self.num_groups, self.group_seed, second_hop=self.second_hop)
        found = np.empty((graph.num_nodes, len(weights["network.second.bias"])), np.float32)
        found[split.order] = layers(weights, split.rows, split.hop)
        return found
