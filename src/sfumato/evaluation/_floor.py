"""How the floor of a run is released: by a command of its own, or with `--save-floor` where it spends nothing."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from sfumato._files import write_json
from sfumato.catalog import CARDS, method_named
from sfumato.errors import InputError
from sfumato.evaluation._kept import write_words

if TYPE_CHECKING:
    from sfumato.evaluation._kept import Job
    from sfumato.evaluation._outcome import Scored
    from sfumato.evaluation._request import Prepared


def released(job: Job, evaluation: Scored) -> dict[str, Any]:
    """Return what metrics.json says of releasing the floor of a run; nothing if no command names that floor."""
    outcome = getattr(evaluation, "controls", {}).get("floor")
    if outcome is None or outcome.first.plan.epsilon is None:
        return {}
    method = outcome.first.plan.method
    if method != method_named(method.name):
        return {}
    words = (
        "sfumato",
        "train",
        CARDS[method.name].spoken[0],
        *job.again,
        "--out",
        str(job.save_floor or f"{job.kept.out}-floor"),
    )
    told: dict[str, Any] = {"command": shlex.join(words), "epsilon": outcome.first.plan.epsilon}
    return {"floor_release": told if job.save_floor is None else {**told, "saved": str(job.save_floor)}}


def save(job: Job, prepared: Prepared, evaluation: Scored) -> None:
    """Write the run folder of a floor that spends nothing, as its own train command would, if the job asks for it."""
    if job.save_floor is None:
        return
    from sfumato.evaluation._outcome import Evaluation

    outcome = getattr(evaluation, "controls", {}).get("floor")
    if outcome is None or outcome.first.plan.epsilon != 0 or outcome.first.plan.releases:
        raise InputError(
            f"The run is kept in {str(job.kept.out)!r}, but it has no floor that spends nothing. Drop `save_floor`."
        )
    out, fitted = job.save_floor, outcome.first
    fitted.save(out, sign_key=job.kept.sign_key, ids_of=prepared.first if job.kept.public_ids else None)
    prepared.request.source.write(out)
    alone = Evaluation(fitted.plan, outcome, {})
    metrics = alone.to_dict(prepared.request.unit) | prepared.detail(alone)
    write_json(out / "evaluation" / "metrics.json", {**metrics, "dataset": job.dataset, "out": str(out)})
    write_json(out / "evaluation" / "curves.json", dict(fitted.curves))
    write_words(fitted.certificate, out)
