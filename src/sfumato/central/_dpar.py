r"""DPAR: a network that reads, for each root, the nodes of a private PageRank row; trained by DP-SGD with a root as the example.

*Edge level* has public features and labels, so all of the budget goes to power steps: :mod:`~sfumato.central._power_steps`.
*Node level:*

1. *Rows.* M public roots get the K largest entries of their approximate PageRank after noise, on the arcs between training nodes
   (:mod:`~sfumato.bounded._appr_release`). The noise hides *any* change of arcs.
2. *Trim.* Columns are cut until each node is read by at most R roots, its own included (:mod:`~sfumato.bounded._occurrences`).
3. *Train.* Root w has the scores :math:`\sum_u \pi_{wu} f(x_u)`, f a network of two layers. One gradient a root, clipped over all
   parameters jointly; roots are Poisson-sampled.
4. *Predict.* Each node by its own features. Only where features and arcs outside the training role are declared public
   (``public_test_graph``), the other nodes' scores are averaged over their neighbors: :math:`Q \leftarrow (1 - \alpha) D^{-1} A
   Q + \alpha f(X)`, from :math:`Q = f(X)`, ``power_steps`` times.

**Rows that are never released** ("unreleased", the source's DPSGD) are exact and cost nothing by themselves: training alone pays
for them. *Proof.* Each of the k roots whose coins fall heads adds a vector of norm at most C to the sum of a step, whatever its
row holds, and the coins read public numbers alone. So any two graphs with these roots, neighbors or not, give sums at most 2 k C
apart, with k ~ Binomial(M, q): a :class:`~sfumato.privacy.events.RepeatedGaussianEvent` of M occurrences under relation replace,
whatever the relation of the unit is, and arcs of others cost nothing beside it. Nothing is amplified, and a bound R on readers
lowers nothing, since a record also moves rows that do not read it. The noise is about 2 q M times that of a step that one term of
norm C enters.

**No rows at all** is what the default chooses, by a public rule (:func:`~sfumato.central._appr.worth_releasing`): each root then
reads itself, all training nodes are roots, R = 1 and the whole budget trains. ``docs/results/graph-split.md`` shows why: rows of
the graphs tried are noise at every epsilon up to 16, and even a topology that costs nothing loses more by R > 1 than it gains.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from sfumato._validate import (
    AT_LEAST_1,
    PRIVATE,
    PRIVATE_LABELS,
    SHARE,
    check_fields,
    flag,
    integer,
    one_of,
    optional,
    real,
    setting,
)
from sfumato.bounded._appr_release import STEPS
from sfumato.bounded._clip_kernel import LEAST_CLIP, MOST_CLIP
from sfumato.bounded._occurrences import check_occurrences, root_examples
from sfumato.bounded._pagerank import Walk
from sfumato.bounded._split_gradients import SplitNetwork
from sfumato.bounded._splits import unit_rows
from sfumato.central._appr import NOISY, Rows, loss_weights, random_rows, worth_releasing
from sfumato.central._power_steps import AUDIENCE, at_edges, run_steps, step_releases, step_scores, unused_steps
from sfumato.central._two_layers import check_features, hidden_rows, num_weights, own_scores, train_split
from sfumato.errors import UnsupportedUnitError
from sfumato.graph._subgraph import adjacency
from sfumato.method.card import Audience, Card
from sfumato.method.contract import Arrays, Outcome, Planned, Session
from sfumato.method.curator import CuratorMethod
from sfumato.privacy.events import PoissonGaussianEvent, RepeatedGaussianEvent, SampledEvent
from sfumato.privacy.promises import Caveat
from sfumato.record.ledger import Release

if TYPE_CHECKING:
    from sfumato._validate import Where
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.method._plan import Plan
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.units import Unit

UNRELEASED = "unreleased"
MECHANISMS = ("auto", "none", "random", UNRELEASED, *NOISY)
DECLARED = (
    "Features of nodes outside the training role, and arcs between them, were declared public: nothing is promised about "
    "them, and the predictions for these nodes read them."
)

_NODES: tuple[Where, ...] = PRIVATE_LABELS, {"unit": ("none",)}
_WALKS = {"mechanism": ("auto", *NOISY, UNRELEASED)}
_CHARGED = {**PRIVATE_LABELS, "mechanism": ("auto", *NOISY)}
_AT_EDGES: Where = {"labels": ("public",), **PRIVATE}


@dataclass(frozen=True)
class DPAR(CuratorMethod):
    r"""Private PageRank: power steps at edge level; at node level rows, and a network of two layers that DP-SGD trains on them.

    Scores are float32 [num_nodes, num_classes].

    **Formal guarantee.** At edge level one Laplace release of L1 sensitivity 1 (:mod:`~sfumato.central._power_steps`).
    At node level, incident or owned arcs: the events of the rows
    (:func:`~sfumato.bounded._appr_release.gaussian_row_event`,
    :func:`~sfumato.bounded._appr_release.exponential_row_events`), and a
    :class:`~sfumato.privacy.events.RepeatedGaussianEvent` over roots of ``occurrences`` terms
    (:mod:`~sfumato.bounded._occurrences`); without rows a :class:`~sfumato.privacy.events.PoissonGaussianEvent`.

    Errors: ``calibrate`` raises UnsupportedUnitError under every unit but edge, node and none.

    Args:
        mechanism: "gaussian", "exponential" (equal weights), "exponential-laplace" (noisy weights), "random" (rows by public
            coins), "none" (each root reads itself), "unreleased" (exact rows that never leave: all noise is in training), or
            "auto": gaussian or none, by a public rule; tuning takes it for none.
        num_roots: M, how many training nodes are roots; None for all.
        top_k: K, the number of entries of a row.
        occurrences: R, how many roots may read a node; of "unreleased" rows all may, whatever it says.
        appr_share: the share of :math:`\mu^2` that the rows get.
        row_clip: :math:`C_1`, the L2 norm of a row under "gaussian".
        entry_clip: :math:`C_2`, the bound of an entry under the exponential mechanisms.
        alpha: chance to return to the root at a step of the walk.
        rho: l1 weight of approximate PageRank.
        gamma: tolerance of approximate PageRank.
        batch_size: expected number of roots in a Poisson sample; None for all.
        steps: number of steps of Adam.
        learning_rate: step size, in (0, 100].
        width: number of hidden units.
        l2_clip_norm: C, the L2 norm of a root's gradient.
        public_test_graph: whether what lies outside the training role is declared public, and averaged over.
        power_steps: how often it is averaged; at edge level 1 or 2, the noisy steps.
        root_seed: public seed of roots and random rows.
        column_clip: :math:`\tau`, the most L1 norm of a column that losses read (algorithm 9 of the source), in place of rows of
            L1 norm 1; None scales rows. It costs nothing and saves no noise.

    Raises:
        InputError: a setting is out of range.

    >>> from sfumato.graph._graph import PublicFacts
    >>> from sfumato.privacy.budget import Budget
    >>> from sfumato.privacy.units import NodeLevel
    >>> facts = PublicFacts(num_nodes=1000, num_train=750, num_features=10, num_classes=3, directed=False)
    >>> plan = DPAR().calibrate(Budget(4.0, 1e-5), NodeLevel(arcs="incident"), facts)
    >>> plan.method.mechanism, [release.name for release in plan.releases], round(plan.epsilon, 2)
    ('none', ['network'], 4.0)

    Source: Zhang et al. (2024), DPAR: Decoupled Graph Neural Networks with Node-Level Differential Privacy. Their sensitivity
    of a row is too small by a root of 2, and their theorem 8 bounds what enters a loss, not what leaves a clipped gradient.
    """

    mechanism: str = setting("auto", *_NODES)
    num_roots: int | None = setting(None, *_NODES)
    top_k: int = setting(4, *_NODES, unless={"mechanism": ("none",)})
    occurrences: int = setting(2, {**PRIVATE_LABELS, "mechanism": ("auto", *NOISY, "random")})
    appr_share: float = setting(0.5, _CHARGED)
    row_clip: float = setting(0.01, {**PRIVATE_LABELS, "mechanism": ("auto", "gaussian")})
    entry_clip: float = setting(0.001, {**PRIVATE_LABELS, "mechanism": NOISY[1:]})
    alpha: float = setting(0.25, *({**_WALKS, **one} for one in _NODES), {"public_test_graph": (True,)})
    rho: float = setting(1e-4, *({**_WALKS, **one} for one in _NODES))
    gamma: float = setting(1e-4, *({**_WALKS, **one} for one in _NODES))
    batch_size: int | None = setting(None, PRIVATE_LABELS)
    steps: int = setting(100, *_NODES)
    learning_rate: float = setting(0.03, *_NODES)
    width: int = setting(32, *_NODES)
    l2_clip_norm: float = setting(0.01, PRIVATE_LABELS)
    public_test_graph: bool = setting(False, *_NODES)
    power_steps: int = setting(2, {"public_test_graph": (True,)}, _AT_EDGES)
    root_seed: int = setting(0, *_NODES)
    column_clip: float | None = setting(None, *_NODES)
    card: ClassVar[Card] = Card(
        name="dpar",
        summary="private PageRank: noisy power steps at edge level, rows at node level",
        units=("edge", "node"),
        returns_known=True,
        candidates=({"learning_rate": 0.01}, {"learning_rate": 0.03}, {"learning_rate": 0.1}),
        citations=("zhang2024dpar",),
        audience=Audience(("PageRank rows with noise", "weights"), never_of_nodes=("PageRank rows before noise",)),
        notes=(
            "At node level an example of DP-SGD is a root with the nodes of its row. Its gradient is computed by compiled code "
            "in a fixed order, not by exact products; sums over roots are exact.",
            "Constants of the method were chosen on Cora-ML and UCSC68, powers at edge level on these and Amazon Computers.",
        ),
    )

    def __post_init__(self) -> None:
        check_fields(self, mechanism=one_of(*MECHANISMS), num_roots=optional(AT_LEAST_1))
        check_fields(self, batch_size=optional(AT_LEAST_1), top_k=AT_LEAST_1, occurrences=AT_LEAST_1, steps=AT_LEAST_1)
        check_fields(self, width=AT_LEAST_1, power_steps=AT_LEAST_1, appr_share=SHARE)
        check_fields(self, row_clip=real(LEAST_CLIP, MOST_CLIP), entry_clip=real(LEAST_CLIP, MOST_CLIP))
        check_fields(self, l2_clip_norm=real(LEAST_CLIP, MOST_CLIP))
        Walk(self.alpha, self.rho, self.gamma)
        check_fields(self, learning_rate=real(0, 100, above=True), public_test_graph=flag(), root_seed=integer(0))
        check_fields(self, column_clip=optional(real(0, 1e6, above=True)))

    @property
    def settings(self) -> dict[str, Any]:
        """Return the public settings. Rows of L1 norm 1 are not named: they were the only form when kept runs were certified."""
        return {name: value for name, value in super().settings.items() if (name, value) != ("column_clip", None)}

    @property
    def limits(self) -> tuple[str, ...]:
        """Return what the claim leaves out where the test graph is declared public."""
        return (DECLARED,) if self.public_test_graph else ()

    def calibrate(self, budget: Budget | None, unit: Unit, public: PublicFacts) -> Plan:
        """Choose the mechanism, if it is "auto", by public facts; then find the noise."""
        if self.mechanism != "auto" or at_edges(unit):
            return super().calibrate(budget, unit, public)
        worth = budget is None or worth_releasing(budget, self.rows(public), self.appr_share)
        chosen: Plan = replace(self, mechanism="gaussian" if worth else "none").calibrate(budget, unit, public)
        return chosen

    def check(self, graph: Graph) -> None:
        """Refuse a graph without features, of which every prediction would be the same.

        Raises:
            InputError: there is no column of features.
        """
        check_features(graph)

    def who_may_see(self, unit: Unit) -> dict[str, list[str]]:
        """Say who may be shown what of a run: of rows that are never released, nobody sees any."""
        if at_edges(unit):
            return unit.audience(**vars(AUDIENCE))
        seen = self.card.audience
        return unit.audience(**vars(replace(seen, outputs=("weights",)) if self.mechanism == UNRELEASED else seen))

    def doubts(self, plan: Plan) -> tuple[Caveat, ...]:
        """Return a warning of rows that nobody can tell from noise, or of steps that have the noise of a whole batch."""
        share, rows = self.appr_share, self.rows(plan.public)
        if plan.budget is None or at_edges(plan.unit):
            return ()
        if self.mechanism == UNRELEASED:
            text = "Rows that are never released make the noise of each step that of a whole batch, in which little is learned. "
        elif self.mechanism in NOISY and not worth_releasing(plan.budget, rows, share):
            text = (
                f"The largest entries of {rows.num_rows:,} PageRank rows cannot be told from their noise at this budget. Such "
                "rows were worse than none on every graph that was tried. "
            )
        else:
            return ()
        return (Caveat("rows-noise", text + "Mechanism auto leaves rows out where they cannot pay."),)

    def grid_steps(self, unit: Unit) -> float:
        """Return the steps of a row of PageRank, by the larger of its two sensitivities; no ``unit`` changes them."""
        return STEPS * max(self.top_k, math.sqrt(2))

    def rows(self, public: PublicFacts) -> Rows:
        """Return the rows by their public numbers; ``public`` has the number of training nodes."""
        nodes = max(public.num_train, 1)
        kind = self.mechanism if self.mechanism in NOISY else "gaussian"
        clip = self.row_clip if kind == "gaussian" else self.entry_clip
        return Rows(kind, min(self.num_roots or nodes, nodes), nodes, min(self.top_k, nodes), clip)

    def releases(self, unit: Unit, public: PublicFacts, noise_multiplier: float) -> tuple[Release, ...]:
        """List the power steps at edge level; else the rows, if they have noise, and one DP-SGD run over roots."""
        if at_edges(unit):
            return step_releases(self, unit, public, noise_multiplier)
        check_occurrences(unit)
        rows, size = self.rows(public), num_weights(public, self.width)
        noisy: tuple[Release, ...] = ()
        if self.mechanism in NOISY:
            noisy = rows.releases(noise_multiplier / math.sqrt(self.appr_share), unit.no_arc_change)
        exchanged = unit.relation == "replace" or self.mechanism == UNRELEASED
        relation, most = ("replace" if exchanged else "add-remove"), self.readers(rows)
        prob = min(self.batch_size or rows.num_rows, rows.num_rows) / rows.num_rows
        share = 1 - self.appr_share if noisy else 1.0
        noise = noise_multiplier * prob * most * math.sqrt(self.steps / share) * (1 + (relation == "replace"))
        event: SampledEvent = (
            PoissonGaussianEvent(prob, noise, self.steps, relation)
            if most == 1
            else RepeatedGaussianEvent(prob, most, noise, self.steps, relation)
        )
        return *noisy, Release("network", event, (size,), size, arc_change=unit.no_arc_change)

    def readers(self, rows: Rows) -> int:
        """Return how many roots a record may move: itself without rows, and all where rows are exact."""
        if self.mechanism == UNRELEASED:
            return rows.num_rows
        return 1 if self.mechanism in ("auto", "none") else self.occurrences

    def run(self, plan: Planned, graph: Graph, session: Session) -> Outcome:
        """Take the power steps at edge level; else release the rows if they have noise, trim them, and train on roots."""
        if at_edges(plan.unit):
            return run_steps(plan, graph, session, self.power_steps)
        roots, rows = self.roots(plan.public), self.rows(plan.public)
        walk, most = Walk(self.alpha, self.rho, self.gamma), self.readers(rows) if plan.unit.private else len(roots)
        noisy = plan.unit.private and self.mechanism in NOISY
        released = rows.released(plan, graph, roots, walk, session) if noisy else {}

        def made() -> SplitNetwork:  # after the charge of training, which pays for rows that are not released
            matrix = rows.matrix(released) if released else self._unreleased(graph, rows, roots, walk)
            return self.network(graph, loss_weights(matrix, roots, most, self.column_clip), roots)

        return Outcome(train_split(self, plan, session, made), released)

    def roots(self, public: PublicFacts) -> NDArray[np.int64]:
        """Return the roots by public coins, int64 [num_roots], ascending numbers among the training nodes.

        ``public`` has the number of training nodes.
        """
        rows = self.rows(public)
        return np.sort(np.random.default_rng(self.root_seed).permutation(rows.num_nodes)[: rows.num_rows])

    def network(self, graph: Graph, matrix: sp.csr_matrix, roots: NDArray[np.int64]) -> SplitNetwork:
        """Return the network on roots and the nodes of their rows. It holds private data.

        Args:
            graph: features and labels are read.
            matrix: what losses read, [num_roots, number of training nodes].
            roots: numbers of the roots among the training nodes.
        """
        train = np.flatnonzero(graph.train_mask)
        entries = sp.coo_matrix(matrix)
        of_all = sp.csr_matrix((entries.data, (entries.row, train[entries.col])), (len(roots), graph.num_nodes))
        return SplitNetwork(root_examples(graph, of_all, train[roots]), self.width, graph.num_classes)

    def scores(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Apply the network to each node's own features; average them outside the training role if that is declared public.

        At edge level read the released steps.
        """
        if at_edges(plan.unit):
            return step_scores(plan, weights, released, graph)
        own = own_scores(weights, graph)
        return power_iteration(graph, own, self.alpha, self.power_steps) if self.public_test_graph else own

    def embeddings(self, plan: Planned, weights: Arrays, released: Arrays, graph: Graph) -> NDArray[np.float32]:
        """Compute the hidden layer of every node, and of roots with released rows its sum over their rows. **Evaluation only**.

        Embeddings of roots read other nodes' features in the clear; those of all other nodes are for the node itself.
        ``plan``, ``weights``, ``released`` and ``graph`` are those of :meth:`~sfumato.method.contract.Method.scores`. The result
        is float32 [num_nodes, width].

        Raises:
            UnsupportedUnitError: the run protects edges, and has no such network.
        """
        if at_edges(plan.unit):
            raise UnsupportedUnitError("Embeddings of dpar are of its network, which is trained at node level alone.")
        hidden: NDArray[np.float32] = hidden_rows(weights, unit_rows(graph)).astype(np.float32)
        if released:
            roots, rows, train = self.roots(plan.public), self.rows(plan.public), np.flatnonzero(graph.train_mask)
            weighed = loss_weights(rows.matrix(released), roots, self.readers(rows), self.column_clip)
            hidden[train[roots]] = weighed @ hidden[train]
        return hidden

    def unused(self, plan: Planned, weights: Arrays, released: Arrays) -> tuple[str, ...]:
        """Say at edge level where the steps are not read, and where features say nothing."""
        return unused_steps(plan, weights) if at_edges(plan.unit) else ()

    def _unreleased(self, graph: Graph, rows: Rows, roots: NDArray[np.int64], walk: Walk) -> sp.csr_matrix:
        """The rows where none is released: of the roots alone, by public coins, or exact."""
        if self.mechanism in ("auto", "none"):
            ends = np.arange(len(roots)), roots
            return sp.csr_matrix((np.ones(len(roots)), ends), (rows.num_rows, rows.num_nodes))
        if self.mechanism == "random":
            return random_rows(rows.num_rows, rows.num_nodes, rows.top_k, self.root_seed)
        return rows.exact(graph, roots, walk)


def power_iteration(graph: Graph, scores: NDArray[np.float32], alpha: float, steps: int) -> NDArray[np.float32]:
    r"""Compute averages of scores over neighbors outside the training role; training nodes keep theirs.

    :math:`Q \leftarrow (1 - \alpha) D^{-1} A Q + \alpha H`, from Q = H, the ``scores`` (DPAR, equation 5.19 of the thesis). It
    reads features and arcs of these nodes in the clear.
    """
    outside = np.flatnonzero(~graph.train_mask)
    arcs = sp.csr_matrix(adjacency(graph)[outside][:, outside])
    both = sp.csr_matrix(arcs.maximum(arcs.T))
    mean = sp.diags(1 / np.maximum(np.asarray(both.sum(1)).ravel(), 1)) @ both
    own, mixed = scores[outside].astype(np.float64), scores[outside].astype(np.float64)
    for _ in range(steps):
        mixed = (1 - alpha) * (mean @ mixed) + alpha * own
    found = scores.copy()
    found[outside] = mixed
    return found
