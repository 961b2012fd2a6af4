"""The epsilon that was released of a file of votes is kept beside it, since every further release would cost again."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

from sfumato._files import read_secret, whole_file
from sfumato.errors import DataError, InputError
from sfumato.pate._epsilon_release import Released, release_epsilon
from sfumato.pate._votes import read_votes

if TYPE_CHECKING:
    from sfumato.pate._aggregation import Mechanism


def release_once(
    path: Path, mechanism: Mechanism, delta: float, *, queries: int | None, order: float, beta: float, noise: float
) -> Released:
    """Release the epsilon of the votes in a file, or return what was released of them before.

    **Formal guarantee.** That of :func:`~sfumato.pate._epsilon_release.release_epsilon`, once: the number is in
    ``PATH.released.json`` before anybody sees it, the same question gets the same number for ever, and another question about the
    same votes is refused. It holds for this file: whoever copies the votes elsewhere, or removes what is kept, pays again.
    """
    votes, file = read_votes(path), path.with_name(path.name + ".released.json")
    asked = {"mechanism": repr(mechanism), "delta": delta, "queries": queries or len(votes)}
    asked |= {"order": order, "beta": beta, "noise": noise}
    digest = hashlib.sha256(repr(votes.shape).encode() + votes.astype("<i8").tobytes()).hexdigest()
    with FileLock(path.with_name(path.name + ".released.lock"), mode=0o600):
        kept = _read(file)
        for one in kept:
            if one["votes"] == digest:
                if one["asked"] != asked:
                    raise InputError(
                        f"Expected the question that {file.name} answers, {one['asked']}, got another. Every release of these "
                        "votes costs, and no sum of two is proved here. Ask the same, or tell a data-independent epsilon."
                    )
                return Released(**one["released"])
        rows = read_votes(path, queries)
        found = release_epsilon(rows, mechanism, delta, order=order, beta=beta, noise=noise)
        told = {name: value for name, value in asdict(found).items() if name != "releasable"}
        with whole_file(file, 0o600) as out:
            out.write(
                json.dumps([*kept, {"votes": digest, "asked": asked, "released": told}], indent=1).encode() + b"\n"
            )
    return found


def _read(file: Path) -> list[dict[str, Any]]:
    try:
        text = read_secret(file)
    except FileNotFoundError:
        return []
    try:
        kept = json.loads(text)
        _ = [(one["votes"], one["asked"], Released(**one["released"])) for one in kept]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise DataError(f"Expected {file.name} to hold what was released of the votes. Restore it.") from None
    return kept
