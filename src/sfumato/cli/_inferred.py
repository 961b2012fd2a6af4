"""`sfumato predict --new-run`: another private graph is read once, charged and kept, and predictions are made from that."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sfumato.cli._output import tell
from sfumato.errors import InputError
from sfumato.evaluation._kept import Kept, write_words
from sfumato.privacy.budget import Budget

if TYPE_CHECKING:
    from sfumato.cli._options import Options
    from sfumato.cli._predictions import Writer
    from sfumato.evaluation._source import Source
    from sfumato.graph._graph import Graph
    from sfumato.method._plan import Fitted
    from sfumato.record._dataset_ledger import DatasetLedger


def infer(
    asked: Options,
    fitted: Fitted,
    graph: Graph,
    source: Source,
    out: Path,
    writer: Writer,
    shared: DatasetLedger | None,
) -> Fitted:
    """Charge the release of another graph, keep it, and predict from it."""
    from sfumato.method._inference import SAME_IDS
    from sfumato.method._rows import put_back
    from sfumato.method.contract import Origin

    epsilon, delta, new_run, other = asked.epsilon, asked.delta, asked.new_run, fitted.difference(graph)
    if fitted.plan.unit.trust != "curator":
        raise InputError(
            f"This is another graph than that of the run, with {other or 'the same node ids'}: {fitted.plan.method.name!r} is a "
            "local method, which has no private inference on another graph. Collect again: sfumato train on that graph."
        )
    fitted.plan.method.inductive(Origin(fitted.weights, fitted.graph_key, fitted.origins()))  # refuses if there is none
    private = fitted.plan.epsilon is not None
    if private and (epsilon is None or delta is None or new_run is None):
        raise InputError(
            f"This is another graph than that of the run, with {other or 'the same node ids'}: aggregating another private graph "
            f"spends budget. {put_back(other)}Pass --epsilon, --delta and --new-run DIR to plan, charge and keep that release."
        )
    if not private and (epsilon is not None or delta is not None):
        raise InputError("Expected no --epsilon or --delta for a run without privacy. Drop them.")
    budget = Budget(epsilon, delta) if epsilon is not None and delta is not None else None
    plan = fitted.calibrate_inference(
        budget, fitted.plan.unit, graph.public_facts(fitted.plan.unit, assume_public=True)
    )
    tell(plan.caveats)
    if other is None and not asked.as_json:
        typer.echo(SAME_IDS, err=True)
    if new_run is None:
        if not asked.as_json:
            typer.echo(str(plan), err=True)
        inferred = plan.fit(graph)
        writer(out, graph, inferred)
        return inferred
    free = f"Its predictions are not, and cost nothing more: sfumato predict {new_run} --out FILE"
    kept = Kept(new_run, shared, finished=free)
    with kept.held(check=_check_new_run):
        if not asked.as_json:
            typer.echo(str(plan), err=True)
        inferred = kept.release(partial(plan.fit, graph), source)
        write_words(inferred.certificate, new_run)
        writer(out, graph, inferred)
    return inferred


def _check_new_run(new_run: Path) -> None:
    """Refuse a folder that is taken. The message says that a release of this graph there answers for free."""
    from sfumato.record._release_folder import LEDGER, check_new_run

    own = new_run / "release" / LEDGER
    if own.with_name("manifest.json").exists():
        raise InputError(
            f"Expected --new-run to be a new folder, got {str(new_run)!r}, which holds a release. If it is that of this "
            f"graph, predict from it for free: sfumato predict {new_run} --out FILE. Another release costs again, in "
            "another folder."
        )
    if own.exists() and own.stat().st_size:
        raise InputError(
            f"Expected --new-run to be a new folder, got {str(new_run)!r}, whose prediction was stopped. It cannot go on, "
            "and what its ledgers name stays charged. Another release costs again, in another folder."
        )
    check_new_run(new_run)
