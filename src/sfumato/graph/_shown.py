"""What a graph shows of itself: counts alone."""

from __future__ import annotations

from typing import Any

from sfumato._shown import html_table


class ShownGraph:
    name: str

    def __repr__(self) -> str:
        return f"Graph({self.name!r}, {', '.join(f'{count} {what}' for what, count in _counts(self).items())})"

    def _repr_html_(self) -> str:
        return html_table(f"Graph {self.name}", {what: f"{count:,}" for what, count in _counts(self).items()})


def _counts(graph: Any) -> dict[str, int]:
    learned = "classes" if graph.targets is None else "numbers" if graph.targets.limits else "labels"
    return {
        "nodes": graph.num_nodes,
        "arcs" if graph.directed else "undirected edges": graph.num_edges,
        "features": graph.num_features,
        learned: graph.num_classes,
    }
