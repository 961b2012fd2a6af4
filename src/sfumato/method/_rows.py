"""What else a fitted model gives beside classes of nodes: scores of pairs, and released rows as features for other tools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import fail
from sfumato.errors import InputError
from sfumato.method._checks import check_graph
from sfumato.method._identity import OTHER_COLUMNS, in_classes
from sfumato.method._suggesting import Block, Scorer, Suggestions

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph
    from sfumato.method._graph_key import GraphKey
    from sfumato.method.contract import Arrays, Planned
    from sfumato.record._certificate import Certificate

_SAME = "the same node ids"
ALONE = "Features alone predict here: use sfumato.central._arrivals.graph_free(fitted, graph), which spends nothing."
_SPENDS = "Predicting on another private graph spends budget: use calibrate_inference(budget, unit, public).fit(graph)."
_ORDER = (
    "If it is the fitted graph in another order of rows, put them back in order, which spends nothing: this run does not know "
    "its own order, since it was loaded without identity.json. "
)


def put_back(found: str | None) -> str:
    """Return in words what costs nothing if a graph that seems to be another one is the fitted one, and was changed since."""
    if found is None or not found.startswith(_SAME):
        return ""
    what = found.removeprefix(f"{_SAME} but other ").partition(",")[0]
    emptied = " (a label that was emptied since is another one)" if what == "labels" else ""
    return f"If it is the fitted graph, put its {what} back as they were in training{emptied}: that costs nothing. "


@dataclass(frozen=True)
class AsFitted:
    """A graph with nodes and columns in the order of training; ``rows`` is the asked row of each fitted row, None if the same."""

    graph: Graph
    rows: NDArray[np.int64] | None

    @property
    def fitted_rows(self) -> NDArray[np.int64]:
        """Return which fitted row each row of the graph that was asked for is."""
        return np.arange(self.graph.num_nodes) if self.rows is None else np.argsort(self.rows)

    def back(self, table: NDArray[Any]) -> NDArray[Any]:
        """Return a table with a row for each fitted row in the order that was asked for."""
        return table if self.rows is None else table[self.fitted_rows]


class ReleasedRows:
    """Released rows answer for pairs of nodes, and leave as embeddings. Nothing here reads an edge, or spends."""

    plan: Planned
    graph_key: GraphKey
    certificate: Certificate
    ran: Planned
    weights: Arrays
    released: Arrays

    @property
    def predicts_alone(self) -> bool:
        """Whether predictions read a node's own features alone: another graph then costs nothing, and messages say nothing."""
        method = self.ran.method
        return method.predicts_alone(self.plan.unit) or method.drops_messages(self.ran, self.weights)

    def check_fitted(self, graph: Graph) -> None:
        """Refuse another graph than the fitted one, or one with other feature columns.

        Nodes may stand in another order, and named columns too. Where features or labels are public, a graph with the same
        node ids and others of these is another one. Under other units it cannot be told apart.
        """
        self.as_fitted(graph)

    def difference(self, graph: Graph) -> str | None:
        """Return in which words this is another graph than the fitted one; None if it is that one, in any order of rows."""
        found = self._found(graph)
        return found if isinstance(found, str) else None

    def as_fitted(self, graph: Graph) -> AsFitted:
        """Return the fitted graph with nodes and columns in the order of training."""
        found = self._found(graph)
        if isinstance(found, str):
            order = _ORDER if self.graph_key.identity is None else ""
            order += put_back(found)
            remedy = order + (ALONE if self.predicts_alone else _SPENDS)
            raise InputError(
                f"Expected the fitted graph ({self.graph_key.num_nodes} nodes), got {graph.name!r} with {found}. {remedy}"
            )
        return found

    def _found(self, graph: Graph) -> AsFitted | str:
        """The graph as it was fitted; or in which words it is another one."""
        graph = check_graph(graph)
        key, known = self.graph_key.of(graph), self.graph_key.identity
        rows = None
        if (key.num_nodes, key.ids_digest) != (self.graph_key.num_nodes, self.graph_key.ids_digest):
            rows = None if known is None else known.rows(graph)
            if rows is None:
                return "other node ids"
        if graph.classes and self.graph_key.classes and {*graph.classes} != {*self.graph_key.classes}:
            return f"{_SAME} but other classes"
        if graph.classes and graph.classes != in_classes(graph, self.graph_key.classes).classes:
            raise InputError(
                f"Expected graph {graph.name!r} to have the {len(graph.classes)} classes of training in their order, since "
                "answers are numbers of these, got the same classes in another order. Declare them as in training, or pass "
                "fitted.graph_key.in_columns(graph)."
            )
        graph = self.graph_key.in_columns(graph)
        self._check_columns(graph)
        graph = graph if rows is None or known is None else known.ordered(graph)
        other = None if known is None else known.difference(graph)
        return AsFitted(graph, rows) if other is None else f"{_SAME} but other {other}, which are public"

    def _check_columns(self, graph: Graph) -> None:
        trained = self.graph_key
        more = sorted(name.partition("=")[0] for name in {*graph.feature_names} - {*trained.feature_names})
        if graph.num_features != self.plan.public.num_features:
            found = f"{graph.num_features}" + (f", {more[0]!r} among them" if more and trained.feature_names else "")
        elif graph.feature_names != trained.feature_names:
            named = zip(trained.feature_names, graph.feature_names, strict=False)
            found = next((f"{one!r} in the place of {mine!r}" for mine, one in named if mine != one), "none with names")
        elif trained.ranges and graph.ranges != trained.ranges:
            found = "other declared ranges"
        else:
            return
        raise InputError(
            f"Expected the {self.plan.public.num_features} feature columns that the model was trained with, got {found}. "
            + (OTHER_COLUMNS if more else "Read both tables with one schema.")
        )

    def score_pairs(self, graph: Graph, pairs: NDArray[np.integer]) -> NDArray[np.float64]:
        """Compute a score of each pair of nodes, float64 [m]: the higher, the more likely a link. This spends nothing.

        Args:
            pairs: row numbers of the two nodes of each pair, [2, m].
        """
        pairs = np.asarray(pairs)
        if pairs.ndim != 2 or len(pairs) != 2 or not np.issubdtype(pairs.dtype, np.integer):
            raise fail("pairs", f"shape {pairs.shape} of {pairs.dtype}", "to be integers of shape [2, m]", "Transpose?")
        if pairs.size and not 0 <= int(pairs.min()) <= int(pairs.max()) < graph.num_nodes:
            raise fail("pairs", f"{pairs.min()} to {pairs.max()}", f"to be rows from 0 to {graph.num_nodes - 1}")
        return self.scorer(graph)(pairs)

    def scorer(self, graph: Graph) -> Scorer:
        """Return :meth:`score_pairs` for one graph, which is prepared once, of pairs that are not checked."""
        found = self.as_fitted(graph)
        rows = None if found.rows is None else found.fitted_rows
        scores = self.ran.method.pair_scorer(self.ran, self.weights, self.released, found.graph)
        return scores if rows is None else lambda pairs: scores(rows[pairs])

    def suggestions(
        self,
        graph: Graph,
        top: int,
        *,
        nodes: NDArray[np.integer] | None = None,
        within: str | None = None,
        among: int | None = None,
    ) -> Suggestions:
        """Return lists of the ``top`` others with the best scores for each node, made while they are read. This spends nothing.

        Links that are there already are among them. To leave them out would tell which pairs are linked, and that is protected:
        let each viewer do it, with :meth:`~sfumato.method._suggesting.Block.without`. Of equal scores the lower row comes first.
        All pairs are scored unless ``within`` or ``among`` says which are not.

        Args:
            nodes: row numbers of those who get a list; None for all. Of a bipartite graph only those that ``sides`` names do.
            within: a public column, or ``label``; others with another value are not suggested.
            among: score so many others of a node at most, which those of its cell share.
        """
        asked = self.as_fitted(graph)
        rows = asked.fitted_rows if nodes is None else asked.fitted_rows[np.asarray(nodes, np.int64)]
        finder = self.ran.method.finder(self.ran, self.weights, self.released, asked.graph)
        return Suggestions(finder, asked.graph, rows, top, within, among, asked.rows)

    def list_for(self, graph: Graph, node: int, neighbors: NDArray[np.integer], top: int) -> Block:
        """Return the ``top`` best others for one viewer, a row number, who is linked with ``neighbors``. This spends nothing.

        The list is for the viewer alone: it tells these links, and nothing of others' that the release does not. A run of
        ``edgerand`` looks for friends of friends among its released pairs; other runs leave the neighbors out of
        :meth:`suggestions`.
        """
        asked, known = self.as_fitted(graph), np.unique(np.asarray(neighbors, np.int64))
        rows = asked.fitted_rows
        own = self.ran.method.own_scores(self.ran, self.released, asked.graph, int(rows[node]), rows[known])
        if own is None:
            (block,) = self.suggestions(graph, min(top + len(known), graph.num_nodes - 1), nodes=np.array([node]))
            return block.without(known, top)
        scores = asked.back(own)
        others = np.delete(np.arange(graph.num_nodes), np.append(known, node))
        best = others[np.argsort(-scores[others], kind="stable")[:top]]
        return Block(np.stack((np.full(len(best), node), best)), scores[best], 1)

    def best_pairs(self, graph: Graph, top: int, **only: Any) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the lists of :meth:`suggestions` at once, by rows of nodes: int64 [2, m], and the scores; ``only`` as there."""
        blocks = list(self.suggestions(graph, top, **only))
        pairs = np.hstack([np.empty((2, 0), np.int64), *(block.pairs for block in blocks)])
        order = np.argsort(pairs[0], kind="stable")
        return pairs[:, order], np.concatenate([np.empty(0), *(block.scores for block in blocks)])[order]

    def embeddings(self, graph: Graph) -> NDArray[np.float32]:
        """Return the released row of each node as features for other tools, float32 [num_nodes, columns]. This spends nothing.

        Anyone may see them, if the certificate lets anyone see such rows; else they are refused.
        """
        asked = self.as_fitted(graph)
        rows = self.ran.method.rows_called
        if rows not in self.certificate.values["who_may_see"]["anyone"]:
            raise fail(
                "run",
                self.ran.method.name,
                f"to let anyone see {rows}",
                "Its certificate says who may see which rows.",
            )
        return asked.back(self.ran.method.released_rows(self.ran, self.weights, self.released))
