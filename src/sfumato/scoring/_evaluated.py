"""What an evaluation of one fitted model shows: its scores on test nodes beside those of one answer for all, and their parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sfumato._validate import fail
from sfumato.scoring._answers import Predictor, answers_of
from sfumato.scoring._detail import RUN, detail
from sfumato.scoring._scores import check_scorable, scores_of, target_kind, without_information

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph
    from sfumato.scoring._groups import Groups


def evaluated(models: Mapping[str, Predictor], graph: Graph, groups: Groups | None = None) -> dict[str, Any]:
    check_scorable(graph)
    if groups is not None and len(groups.codes) != graph.num_nodes:
        raise fail("by", len(groups.codes), f"to hold one value for each of {graph.num_nodes} nodes", "Pass as many.")
    if groups is not None and graph.targets is not None:
        remedy = "Targets that are no classes are not scored by group. Drop it."
        raise fail("by", groups.column, "to come with classes", remedy)
    found = {name: answers_of(model, graph, graph.test_mask) for name, model in models.items()}
    scores = {name: scores_of(one, graph) for name, one in found.items()}
    own, nothing = scores.pop(RUN), without_information(graph)
    return {
        "target": target_kind(graph),
        "test_scores": own,
        "test_accuracy": own.get("accuracy"),
        "test_macro_f1": own.get("macro_f1"),
        "majority": nothing.get("accuracy"),
        "without_information": nothing,
        "control_scores": scores,
        "detail": detail(graph, {name: [one] for name, one in found.items()}, groups)
        if graph.targets is None
        else None,
    }
