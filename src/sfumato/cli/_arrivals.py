"""`sfumato predict RUN --new-nodes FILE --new-edges FILE`: nodes that arrive after a run, which keeps them under `arrivals/`."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.cli._data import in_place_of
from sfumato.cli._output import tell
from sfumato.errors import DataError, InputError
from sfumato.evaluation._kept import Kept

if TYPE_CHECKING:
    import typer

    from sfumato.cli._options import Options
    from sfumato.evaluation._source import Source
    from sfumato.graph._graph import Graph
    from sfumato.method._plan import Fitted, Plan
    from sfumato.privacy.budget import Budget
    from sfumato.record._dataset_ledger import DatasetLedger
    from sfumato.tables._newcomers import Newcomers

FOLDER = "arrivals"
_LEDGER = "ledger.jsonl"


def check_trained(run: Path) -> None:
    """Refuse the folder of nodes that arrived after a run."""
    if run.parent.name == FOLDER and (run.parents[1] / "release").is_dir():
        raise InputError(
            f"Expected the folder of a run that was trained, got {str(run)!r}, which holds nodes that arrived after it. Predict "
            f"them again, for free: sfumato predict {run.parents[1]} --new-nodes FILE --new-edges FILE --out FILE."
        )


@dataclass(frozen=True)
class Arriving:
    """What `predict` was asked about nodes that arrive, the loaded run, and the ledger of its data set, or None."""

    options: Options
    fitted: Fitted
    shared: DatasetLedger | None

    def budget(self) -> Budget | None:
        """Return what may be spent at node level; at edge level the claim of the run covers nodes that arrive."""
        from sfumato.privacy.budget import Budget

        unit, given = self.fitted.plan.unit, (self.options.epsilon, self.options.delta)
        if not unit.private or "labels" in unit.public:
            if given != (None, None):
                raise InputError(
                    "Expected no --epsilon or --delta for nodes that arrive later: each edge pays once, in the run or here, so "
                    "the claim of the run covers them. Drop them."
                )
            return None
        if self.options.epsilon is None or self.options.delta is None:
            raise InputError(
                "Expected --epsilon and --delta for nodes that arrive at node level: the arcs that known nodes now have to them "
                "are part of records that paid before, so this adds to their cost. Pass what may be spent more."
            )
        return Budget(self.options.epsilon, self.options.delta)


def source_of(run: Path, given: dict[str, Any], context: typer.Context) -> Source:
    """Return the source of a run's graph, with what the command line names in place of it."""
    from sfumato.evaluation._source import Source

    stored = Source.of_run(run)
    if given["dataset"] is not None:
        stored = replace(stored, nodes=None, edges=None, label=None, schema=None, text=(), graph=None)
        stored = replace(
            stored,
            edge_weight=None,
            max_weight=None,
            drop=(),
            id_column=None,
            ends=None,
            window=None,
            person=None,
            edges_per_person=None,
            nodes_per_person=None,
        )
        stored = replace(stored, edge_type=None, edge_types=(), public_types=())
    elif given["nodes"] is not None or given["edges"] is not None:
        stored = replace(stored, dataset=None, data_dir=None, min_class_size=None, graph=None)
    elif given["graph"] is not None:
        stored = Source(split=stored.split)
    return in_place_of(stored, given, context).check(labeled=False)


def predict_newcomers(asked: Arriving, source: Source, write: Callable[..., None]) -> dict[str, Any]:
    """Predict nodes that arrived after a run, from a stored release or from a new one; return what `--json` prints."""
    from sfumato.central._arrivals import arriving_after, graph_free
    from sfumato.graph._dropped import tell_outside
    from sfumato.method._identity import Identity
    from sfumato.tables._newcomers import node_names, read_new_nodes

    fitted, trained = asked.fitted, _trained(asked, source)
    if asked.options.new_nodes is None:
        raise InputError("Expected --new-nodes beside --new-edges, got none. Name the table of the nodes that arrived.")
    nodes = read_new_nodes(trained, asked.options.new_nodes, **source.of_new_nodes())
    if fitted.predicts_alone:
        tell_outside(nodes, fitted.plan.unit.public)
        out = _new(asked.options.out or asked.options.run / f"predictions-{asked.options.new_nodes.stem}.csv")
        _note(
            asked,
            f"This run of {fitted.plan.method.name} predicts from features alone: no edge is read, and nothing is spent.",
        )
        write(out, nodes, fitted, graph_free(fitted, nodes))
        return {"out": str(out), "nodes": nodes.num_nodes, "epsilon_spent": 0.0, "arrival": None}
    arriving_after(fitted)
    if asked.options.new_edges is None:
        raise InputError("Expected --new-edges beside --new-nodes, got none. A table without rows stands for no edges.")
    from sfumato.record._release_folder import owned

    with owned(asked.options.run / FOLDER, lambda _: None):
        batches, lost = stored_batches(asked.options.run, trained, source)
        names = set(node_names(nodes))
        for number, late, before in batches:
            if names == set(node_names(before)):
                out = _new(asked.options.out or asked.options.run / FOLDER / str(number) / "predictions.csv")
                _note(
                    asked,
                    "These nodes arrived before: their stored release answers, and spends nothing. No edge is read.",
                )
                write(out, Identity.of(nodes, ()).ordered(before), late)
                return {"out": str(out), "nodes": before.num_nodes, "epsilon_spent": 0.0, "arrival": number}
        return _release(asked, source, trained, nodes, batches, lost, write)


def stored_batches(
    run: Path, trained: Graph, source: Source
) -> tuple[list[tuple[int, Fitted, Newcomers]], dict[str, int]]:
    """Return the finished arrivals of a run in order, and the marks of nodes whose release was stopped."""
    from sfumato.catalog import load
    from sfumato.evaluation._source import Source
    from sfumato.record.ledger import Chain
    from sfumato.tables._newcomers import Newcomers, read_new_nodes

    batches: list[tuple[int, Fitted, Newcomers]] = []
    lost: dict[str, int] = {}
    numbers = sorted(int(path.name) for path in (run / FOLDER).iterdir() if path.name.isdecimal())
    gone = next((number for place, number in enumerate(numbers, start=1) if place != number), None)
    if gone is not None:
        raise InputError(
            f"Expected the arrivals of the run to be numbered from 1 without a gap, got {FOLDER}/{gone} without the one before. "
            "Put the missing folder back: without it, its nodes could arrive again and their edges pay twice."
        )
    for number in numbers:
        folder = run / FOLDER / str(number)
        ledger = folder / "release" / _LEDGER
        if not ledger.exists():
            continue
        if not ledger.with_name("manifest.json").exists():
            entries = Chain.parse(ledger.read_bytes()).entries
            lost |= dict.fromkeys(entries[0]["plan"].get("arrival", {}).get("nodes", ()) if entries else (), number)
            continue
        late, table = load(folder), str(Source.of_run(folder).nodes)
        try:
            alone = read_new_nodes(trained, table, **source.of_new_nodes())
        except DataError as error:
            raise InputError(f"The table of the nodes that arrived before cannot be read: {error}") from error
        known = [trained, *(graph for *_, graph in batches)]
        batches.append((number, late, Newcomers.join(alone, known, [], [])))
        other = late.difference(alone)
        if other is not None:
            raise InputError(
                f"Expected {table} to hold the nodes that arrived with {folder}, got {other}. Their messages need them: put the "
                "table back as it was."
            )
    return batches, lost


def _trained(asked: Arriving, source: Source) -> Graph:
    """The graph of the run, with roles, in its order; anything that does not fit is refused before more is read."""
    fitted = asked.fitted
    if "arrival" in fitted.certificate.values:
        raise InputError("Expected the run that was trained, got one of its arrivals. Name the folder above arrivals/.")
    if asked.options.new_run is not None:
        raise InputError("Expected no --new-run for nodes that arrive later: the run keeps them itself. Drop it.")
    graph = source.with_roles_of(source.load(), fitted)
    fitted.graph_key.check_columns(fitted.graph_key.in_columns(graph))
    other = fitted.difference(graph)
    if other is not None:
        raise InputError(
            f"Expected --nodes and --edges to name the graph of the run, as it was then, got {other}. Nodes that arrived "
            "since belong in --new-nodes and --new-edges alone."
        )
    return fitted.as_fitted(graph).graph


def _release(
    asked: Arriving,
    source: Source,
    trained: Graph,
    nodes: Graph,
    batches: list[tuple[int, Fitted, Newcomers]],
    lost: dict[str, int],
    write: Callable[..., None],
) -> dict[str, Any]:
    """Release the rows of nodes that are new, keep them, and predict."""
    from sfumato.central._arrivals import calibrate_arrival
    from sfumato.evaluation._source import Source
    from sfumato.record._arrivals import marks
    from sfumato.record._release_folder import read_sign_key
    from sfumato.tables._newcomers import node_names, read_newcomers

    names = node_names(nodes)
    gone = next((name for name, mark in zip(names, marks(names), strict=True) if mark in lost), None)
    if gone is not None:
        raise InputError(
            f"Expected nodes that arrive for the first time, but the release of {gone!r} was stopped ({FOLDER}/"
            f"{lost[marks([gone])[0]]}) after it was charged, and its noise cannot be drawn again. Leave it out, or train on the "
            "grown graph."
        )
    if asked.options.sign_key is not None:
        read_sign_key(asked.options.sign_key)
    ledger = Source.ledger_of(asked.options.run)
    if ledger is not None and asked.shared is None:
        raise InputError(
            f"Expected --ledger with --total-epsilon, since the run was charged to {ledger}: it alone remembers across copies "
            "which nodes arrived. Name it."
        )
    runs, known = [asked.fitted, *(late for _, late, _ in batches)], [trained, *(graph for *_, graph in batches)]
    newcomers = read_newcomers(nodes, known, asked.options.new_edges or "", ends=source.ends)
    unit = asked.fitted.plan.unit
    plan = calibrate_arrival(runs, names, newcomers.public_facts(unit), asked.budget())
    number = 1 + max(
        (int(path.name) for path in (asked.options.run / FOLDER).iterdir() if path.name.isdecimal()), default=0
    )
    folder = asked.options.run / FOLDER / str(number)
    out = _new(asked.options.out or folder / "predictions.csv")
    tell(plan.caveats)
    _note(asked, f"{plan}{_cost(plan)}")
    with _kept(folder, asked):
        tables = Source(nodes=str(asked.options.new_nodes), edges=str(asked.options.new_edges))
        tables = replace(tables, id_column=source.id_column, ends=source.ends)
        late = Kept(folder, asked.shared, asked.options.sign_key).release(partial(plan.fit, newcomers), tables)
        write(out, newcomers, late)
    spent = 0.0 if plan.method.arrival is not None or plan.epsilon is None else plan.epsilon
    return {"out": str(out), "nodes": newcomers.num_nodes, "epsilon_spent": spent, "arrival": number}


def _cost(plan: Plan) -> str:
    if plan.epsilon is None:
        return ""
    if plan.method.arrival is None:
        return "\nKnown nodes' arcs to newcomers are part of records that paid before: this cost adds to theirs."
    return "\nEach edge pays once, in the run or here: the claim of the run covers this, and 0 more is spent."


@contextmanager
def _kept(folder: Path, asked: Arriving) -> Iterator[None]:
    """If a release fails, keep what says that nodes arrived; of one that drew nothing, keep nothing. Notes say which."""
    try:
        yield
    except BaseException as error:
        ledger = folder / "release" / _LEDGER
        if ledger.with_name("manifest.json").exists():
            error.add_note(
                f"The release is saved in {folder}. The same command with --out FILE answers from it, for free."
            )
        elif ledger.exists() and ledger.stat().st_size:
            covered = "labels" in asked.fitted.plan.unit.public
            again = "It cannot be drawn again: these nodes count as arrived." if covered else "Another one costs again."
            error.add_note(f"This release was stopped after it was charged. {again}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
            error.add_note("Nothing was released.")
        raise


def _new(out: Path) -> Path:
    if out.exists():
        raise InputError(
            f"Expected out to be a new file, got {str(out)!r}, which exists. Predictions are never overwritten: read them "
            "there, or name another file with --out."
        )
    return out


def _note(asked: Arriving, text: str) -> None:
    if not asked.options.as_json:
        print(text, file=sys.stderr)
