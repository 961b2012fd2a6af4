"""Learning from what two servers opened: their counts become those of ``shared-counts``, over a graph of public tables.

**Formal guarantee.** All of it is post-processing of the openings, so any number of trainings costs users nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.catalog import method_for
from sfumato.collect._graph import ids_of, public_graph
from sfumato.collect._training import Training, check_joined
from sfumato.collect._wire import public_id
from sfumato.errors import DataError, InputError
from sfumato.graph._facts import by_ids
from sfumato.local._collection import USERS
from sfumato.local._shared_counts import COUNTS, SharedCounts
from sfumato.record._collected import Collected

if TYPE_CHECKING:
    from sfumato.collect._graph import Tables
    from sfumato.collect.two._agreement import Agreement
    from sfumato.collect.two._files import OpenedFile
    from sfumato.graph._graph import Graph
    from sfumato.method._plan import Plan

_TRAIN, _NONE = 0, 3


def prepare(
    file: OpenedFile, tables: Tables, word: str, preset: str | None = None, settings: Sequence[str] = ()
) -> Training:
    """Make a training of what two servers opened; nothing is asked of anyone.

    Raises:
        InputError: the method reads no counts of two servers, or an option is fixed by their agreement.
        DataError: the links join no two users who were asked, or too few reports were counted.
    """
    method = method_of(word, file.agreed.agreement, preset, settings)
    graph = graph_of(file, tables)
    reports = collected(file, graph)
    method.check_counts(reports.reports[COUNTS])
    plan: Plan = method.calibrate(None, method.unit, graph.public_facts(method.unit))
    check_joined(graph, reports.reports[USERS] >= 0, "were asked")
    return Training(plan, graph, reports)


def method_of(word: str, agreement: Agreement, preset: str | None = None, settings: Sequence[str] = ()) -> SharedCounts:
    """Build the method that learns from counts of cells; its budget is that of the agreement."""
    if word != SharedCounts.card.name:
        raise InputError(
            f"Expected {SharedCounts.card.name} with what two servers opened, got {word!r}: nobody has reports of single users. "
            f"Name {SharedCounts.card.name}."
        )
    if preset is not None:
        raise InputError(f"Expected no `preset` with what two servers opened, got {preset!r}. Drop it.")
    for name in (one.partition("=")[0].strip() for one in settings):
        if name == "epsilon_y":
            raise InputError(
                f"Expected no --set {name} with what two servers opened: both signed it, and it set their noise. Drop it."
            )
    made: SharedCounts = method_for(word, {"epsilon_y": float(agreement.epsilon), "set": settings})
    return made


def graph_of(file: OpenedFile, tables: Tables) -> Graph:
    """Build the public graph: a node for each id in the tables and in the cells, in the order of the ids.

    Users who were asked are in the training role, and the others have none: nobody knows who of them answered.
    """
    if tables.edges is None:
        raise InputError("Expected `edges` with what two servers opened, got none. Name the table of public links.")
    if tables.label is not None:
        raise InputError("Expected no `label` with what two servers opened: their counts tell of labels. Drop it.")
    agreement, cells = file.agreed.agreement, file.agreed.partition.cells
    graph, _ = public_graph(tables, cells, agreement.collection)
    asked = np.array([one in cells for one in ids_of(graph)])
    made: Graph = by_ids(replace(graph, classes=agreement.classes), np.where(asked, _TRAIN, _NONE).astype(np.uint8))
    return made


def collected(file: OpenedFile, graph: Graph) -> Collected:
    """Return what is learned from: for each node its cell with the counts, and the public id of each user who was asked."""
    agreement, opened, ids = file.agreed.agreement, file.join(), ids_of(graph)
    cells = opened.partition.cells
    found = {
        COUNTS: opened.rows(ids),
        USERS: np.array([public_id(agreement, one) if one in cells else -1 for one in ids], np.int64),
    }
    facts: dict[str, Any] = {"name": agreement.collection, "sha256": file.sha256, "asked": len(cells)}
    facts |= {name: opened.about[name] for name in ("agreement", "openings", "servers", "reports", "left_out")}
    facts |= {"opens": agreement.opens, "closes": agreement.closes}
    if opened.about["reports"] < 2:
        raise DataError(f"Expected at least 2 reports that were counted, got {facts['reports']}. Collect more.")
    return Collected(found, facts, file.content)
