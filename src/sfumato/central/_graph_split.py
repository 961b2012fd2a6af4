r"""Graph convolutions on a graph that is split into groups: DP-SGD in which an example is a whole group.

1. *Split.* Groups come from public ids and roles and a public seed; every arc between two groups is deleted
   (:mod:`~sfumato.bounded._splits`).
2. *Train.* A graph convolution of two layers. Each group gives the gradient of its mean loss, clipped over all parameters
   jointly; groups are Poisson-sampled (:mod:`~sfumato.bounded._split_gradients`).
3. *Predict.* Each node by **its own features alone**: the convolution of a node without neighbors, :math:`\hat A = 1`. Inside
   the group it would read other nodes' raw features, which no noise covers.

More groups are more examples, so less noise, and fewer arcs: of K groups one arc in K is left. With one node a group
this is DP-SGD of a plain network. ``docs/results/graph-split.md`` has what that is worth: the graph-free ``linear`` is better at
the same budget. Where a record owns its arcs, ``groups="linked"`` lets nodes choose their group by their arcs
(:mod:`~sfumato.central._linked`), and is better than ``linear`` on graphs of texts.

*Early stopping.* ``checkpoints`` compares the weights at so many steps by how many validation nodes they predict right: noisy
numbers that are paid for, exact ones where validation nodes are declared public.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import AT_LEAST_1, PRIVATE, check_fields, fail, flag, integer, one_of, real, setting
from sfumato.bounded._clip_kernel import LEAST_CLIP, MOST_CLIP, MOST_ROWS
from sfumato.bounded._split_gradients import SplitNetwork
from sfumato.bounded._splits import check_groups, split_graph
from sfumato.central._linked import learn_linked, linked_releases, linked_scores
from sfumato.central._stopping import DECLARED, Stopping, choice_release
from sfumato.central._two_layers import check_features, layers, num_weights, own_scores, train_split
from sfumato.method.card import Audience, Card
from sfumato.method.contract import Arrays, Outcome, Planned, Session
from sfumato.method.curator import CuratorMethod
from sfumato.nn._training import SGD, Adam
from sfumato.privacy.events import PoissonGaussianEvent
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    from sfumato.bounded._splits import Split
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.privacy.units import Unit

_OPTIMIZERS = {"adam": Adam, "sgd": SGD}
_GROUPS, _SUMS = ("hashed", "even", "linked", "alone"), ("linked", "alone")
_NETWORK = {"groups": _GROUPS[:2]}
_AS_BEFORE = (("groups", "hashed"), ("checkpoints", 0), ("public_validation", False))


@dataclass(frozen=True)
class GraphSplit(CuratorMethod):
    r"""Graph convolutions on groups of nodes that have no arc between them, trained by DP-SGD with a group as the example.

    The scores of node v are :math:`W_2 \, \mathrm{ReLU}(W_1 \hat x_v + b_1) + b_2`, float32 [num_nodes, num_classes], with
    :math:`\hat x_v` its own features scaled to norm 1. Under unit none they are those of the whole convolution inside groups.

    **Formal guarantee.** At node level one DP-SGD run over groups
    (:func:`~sfumato.bounded._split_gradients.split_steps`), for any number of arcs, incident or owned. Under relation
    ``remove`` a group that holds an absent node is left out. With paid ``checkpoints`` one Gaussian release beside it
    (:mod:`~sfumato.central._stopping`). With ``groups="linked"``, for owned arcs alone, and with ``"alone"``
    three Gaussian releases (:mod:`~sfumato.central._linked`).

    Errors: ``calibrate`` raises UnsupportedUnitError under every unit but node and none.

    Args:
        groups: "hashed" by ids; "even" also splits the training nodes into groups of equal size, as published; "linked" lets
            nodes join the training nodes that they link to, "alone" leaves these as groups of one.
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
        checkpoints: how many weights along the way are compared on validation nodes, at most ``steps``; 0 keeps the last.
        public_validation: whether validation nodes are declared public, so that comparing costs nothing.

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

    groups: str = "hashed"
    num_groups: int = setting(1000, _NETWORK)
    batch_size: int = setting(1000, {**_NETWORK, **PRIVATE})
    steps: int = setting(100, _NETWORK)
    learning_rate: float = setting(0.03, _NETWORK)
    optimizer: str = setting("adam", _NETWORK)
    width: int = setting(32, _NETWORK)
    dropout: float = setting(0.0, _NETWORK)
    second_hop: bool = setting(True, _NETWORK)
    l2_clip_norm: float = setting(0.01, {**_NETWORK, **PRIVATE})
    group_seed: int = setting(0, _NETWORK)
    checkpoints: int = setting(0, _NETWORK)
    public_validation: bool = setting(False, {**_NETWORK, **PRIVATE})
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
            "Constants of the method were chosen on Cora-ML, UCSC68 and Amazon Computers.",
        ),
    )

    def __post_init__(self) -> None:
        check_fields(self, num_groups=integer(1, MOST_ROWS), batch_size=AT_LEAST_1, steps=AT_LEAST_1)
        check_fields(self, learning_rate=real(0, 100, above=True), optimizer=one_of(*tuple(_OPTIMIZERS)))
        check_fields(self, width=AT_LEAST_1, dropout=real(0, 1, below=True), second_hop=flag())
        check_fields(self, l2_clip_norm=real(LEAST_CLIP, MOST_CLIP), group_seed=integer(0))
        check_fields(self, groups=one_of(*_GROUPS), checkpoints=integer(0, self.steps), public_validation=flag())
        if self.public_validation and not self.checkpoints:
            raise fail(
                "public_validation", True, "to be False without checkpoints", "Nothing would read validation nodes."
            )
        if self.checkpoints and self.groups in _SUMS:
            raise fail("checkpoints", self.checkpoints, f'to be 0 with groups="{self.groups}"', "It makes no steps.")

    @property
    def settings(self) -> dict[str, Any]:
        """Return the public settings. What kept runs did not have yet is not named while it is as it was."""
        return {name: value for name, value in super().settings.items() if (name, value) not in _AS_BEFORE}

    @property
    def limits(self) -> tuple[str, ...]:
        """Return what the claim leaves out where validation nodes are declared public."""
        return (DECLARED,) if self.public_validation else ()

    def check(self, graph: Graph) -> None:
        """Refuse a graph without features, of which every prediction would be the same.

        Raises:
            InputError: there is no column of features.
        """
        check_features(graph)

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        """List one DP-SGD run over groups and, if checkpoints are paid for, their comparison; or the class sums."""
        check_groups(unit)
        if self.groups in _SUMS:
            return linked_releases(unit, public, noise_multiplier, join=self.groups == "linked")
        relation = "replace" if unit.relation == "replace" else "add-remove"
        prob = min(self.batch_size, self.num_groups) / self.num_groups
        size = num_weights(public, self.width)
        event = PoissonGaussianEvent(prob, noise_multiplier, self.steps, relation)
        network = Release("network", event, (size,), size, arc_change=unit.no_arc_change)
        paid = self.checkpoints and not self.public_validation
        return (network, choice_release(event, unit, self.checkpoints)) if paid else (network,)

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        """Split the graph, then train on groups; or sum groups that nodes choose."""
        if self.groups in _SUMS:
            return Outcome(learn_linked(plan, graph, session, join=self.groups == "linked"), {})
        made, optimizer = partial(self.network, plan.public, graph, session.seed), _OPTIMIZERS[self.optimizer]
        if not self.checkpoints:
            return Outcome(train_split(self, plan, session, made, optimizer), {})
        stopping = Stopping(self.checkpoints, self.steps, plan, graph)
        last = train_split(self, plan, session, made, optimizer, stopping.seen)
        scores = partial(own_scores if plan.unit.private else self.group_scores, graph=graph)
        return Outcome(stopping.best(last, self.width, session, scores, paid=not self.public_validation), {})

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Apply the network, or the class sums, to each node's own features."""
        if self.groups in _SUMS:
            return linked_scores(weights, graph)
        return own_scores(weights, graph) if plan.unit.private else self.group_scores(weights, graph)

    def predicts_alone(self, unit: Unit) -> bool:
        """Return True but for a network under unit none; ``unit`` is that of the run."""
        return unit.private or self.groups in _SUMS

    def network(self, public: PublicFacts, graph: Graph, seed: int) -> SplitNetwork:
        """Return the network on the split graph. It holds private data.

        Args:
            public: facts of the graph.
            graph: the private data.
            seed: the public seed of dropout.
        """
        split = self._split(graph)
        return SplitNetwork(split, self.width, public.num_classes, self.dropout, seed)

    def group_scores(self, weights: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Apply the convolution inside groups. **Evaluation only**: scores of a node read the raw features of others.

        Args:
            weights: the trained weights.
            graph: its features and the arcs inside groups are read.
        """
        split = self._split(graph)
        found = np.empty((graph.num_nodes, len(weights["network.second.bias"])), np.float32)
        found[split.order] = layers(weights, split.rows, split.hop)
        return found

    def _split(self, graph: Graph) -> Split:
        even = self.groups == "even"
        return split_graph(graph, self.num_groups, self.group_seed, second_hop=self.second_hop, even=even)
