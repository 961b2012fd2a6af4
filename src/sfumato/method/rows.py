"""What else a fitted model gives beside classes of nodes: scores of pairs, and released rows as features for other tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import fail
from sfumato.errors import InputError
from sfumato.method.checks import check_graph

if TYPE_CHECKING:
    from sfumato.graph.graph import Graph
    from sfumato.method.contract import Arrays, Planned
    from sfumato.method.graph_key import GraphKey
    from sfumato.record.certificate import Certificate

_PAIRS_AT_ONCE = 1 << 22
_ALONE = "Features alone predict here: use sfumato.central.arrivals.graph_free(fitted, graph), which spends nothing."
_SPENDS = "Predicting on another private graph spends budget: use calibrate_inference(budget, unit, public).fit(graph)."


class ReleasedRows:
    """Released rows answer for pairs of nodes, and leave as embeddings. Nothing here reads an edge, or spends."""

    plan: Planned
    graph_key: GraphKey
    certificate: Certificate
    ran: Planned
    weights: Arrays
    released: Arrays

    def check_fitted(self, graph: Graph) -> None:
        """Refuse another graph than the fitted one, or one with other feature columns.

        Raises:
            InputError: it has other node ids or columns.
        """
        check_graph(graph)
        key = self.graph_key.of(graph)
        if (key.num_nodes, key.ids_digest) != (self.graph_key.num_nodes, self.graph_key.ids_digest):
            remedy = _ALONE if self.ran.method.predicts_alone(self.plan.unit) else _SPENDS
            raise InputError(
                f"Expected the fitted graph ({self.graph_key.num_nodes} nodes), got {graph.name!r} with other node ids. {remedy}"
            )
        if graph.num_features != self.plan.public.num_features:
            found = f"{graph.num_features}"
        elif key.feature_names != self.graph_key.feature_names:
            named = zip(self.graph_key.feature_names, key.feature_names, strict=False)
            found = next((f"{one!r} in the place of {mine!r}" for mine, one in named if mine != one), "none with names")
        elif self.graph_key.ranges and key.ranges != self.graph_key.ranges:
            found = "other declared ranges"
        else:
            return
        raise InputError(
            f"Expected the {self.plan.public.num_features} feature columns that the model was trained with, got {found}. "
            "Read both tables with one schema."
        )

    def score_pairs(self, graph: Graph, pairs: NDArray[np.integer]) -> NDArray[np.float64]:
        """Compute a score of each pair of nodes, float64 [m]: the higher, the more likely a link. This spends nothing.

        Args:
            graph: the graph that was fitted; its edges are not read.
            pairs: row numbers of the two nodes of each pair, [2, m].

        Raises:
            InputError: the method scores nodes, the graph is another, or a row number is none of the graph.
        """
        self.check_fitted(graph)
        pairs = np.asarray(pairs)
        if pairs.ndim != 2 or len(pairs) != 2 or not np.issubdtype(pairs.dtype, np.integer):
            raise fail(
                "pairs", f"shape {pairs.shape} of {pairs.dtype}", "to be whole numbers of shape [2, m]", "Transpose?"
            )
        if pairs.size and not 0 <= int(pairs.min()) <= int(pairs.max()) < graph.num_nodes:
            raise fail("pairs", f"{pairs.min()} to {pairs.max()}", f"to be rows from 0 to {graph.num_nodes - 1}")
        return self.ran.method.pair_scores(self.ran, self.weights, self.released, graph, pairs)

    def best_pairs(self, graph: Graph, top: int | None) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return for each node the others with the best scores, int64 [2, n * top], and the scores. This spends nothing.

        Links that are there already are among them. To leave them out would tell which pairs are linked, and that is protected.
        Of equal scores the lower row comes first. All n (n - 1) pairs are scored.

        Args:
            graph: the graph that was fitted; its edges are not read.
            top: how many others of each node, from 1 to n - 1.

        Raises:
            InputError: the method scores nodes, the graph is another, or there are not so many other nodes.
        """
        self.check_fitted(graph)
        most = graph.num_nodes - 1
        if top is None or not 1 <= top <= most:
            raise fail("top", top, f"to be from 1 to {most}, the number of other nodes")
        found, best = [], []
        for nodes in np.array_split(np.arange(most + 1), -(-(most + 1) * most // _PAIRS_AT_ONCE)):
            others = np.arange(most) + (np.arange(most) >= nodes[:, None])  # all nodes but the one of the row
            pairs = np.stack([np.repeat(nodes, most), others.ravel()])
            scores = self.ran.method.pair_scores(self.ran, self.weights, self.released, graph, pairs)
            first = np.argsort(-scores.reshape(others.shape), axis=1, kind="stable")[:, :top]
            found.append(np.take_along_axis(others, first, 1).ravel())
            best.append(np.take_along_axis(scores.reshape(others.shape), first, 1).ravel())
        return np.stack([np.repeat(np.arange(most + 1), top), np.concatenate(found)]), np.concatenate(best)

    def embeddings(self, graph: Graph) -> NDArray[np.float32]:
        """Return the released row of each node as features for other tools, float32 [num_nodes, columns]. This spends nothing.

        Anyone may see them, if the certificate lets anyone see such rows; else they are refused.

        Args:
            graph: the graph that was fitted; its edges and values are not read.

        Raises:
            InputError: the rows may not leave, or there are none, or the graph is another.
        """
        self.check_fitted(graph)
        rows = self.ran.method.rows_called
        if rows not in self.certificate.values["who_may_see"]["anyone"]:
            raise fail(
                "run",
                self.ran.method.name,
                f"to let anyone see {rows}",
                "Its certificate says who may see which rows.",
            )
        return self.ran.method.released_rows(self.ran, self.weights, self.released)
