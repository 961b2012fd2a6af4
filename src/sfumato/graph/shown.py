"""What a graph shows of itself: counts alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from sfumato._shown import html_table

if TYPE_CHECKING:
    from sfumato.graph.graph import Graph


class ShownGraph:
    """A graph shows how many nodes, edges, features and classes it has."""

    def __repr__(self) -> str:
        name, counts = cast("Graph", self).name, _counts(cast("Graph", self))
        return f"Graph({name!r}, {', '.join(f'{count} {what}' for what, count in counts.items())})"

    def _repr_html_(self) -> str:
        name, counts = cast("Graph", self).name, _counts(cast("Graph", self))
        return html_table(f"Graph {name}", {what: f"{count:,}" for what, count in counts.items()})


def _counts(graph: Graph) -> dict[str, int]:
    learned = "classes" if graph.targets is None else "numbers" if graph.targets.limits else "labels"
    return {
        "nodes": graph.num_nodes,
        "arcs" if graph.directed else "undirected edges": graph.num_edges,
        "features": graph.num_features,
        learned: graph.num_classes,
    }
