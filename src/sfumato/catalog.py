"""Names for the command line and stored runs: literal tables, nothing registers itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sfumato._validate import check_choice, fail
from sfumato.central.auto import Auto
from sfumato.central.baselines import MLP, SAGE
from sfumato.central.gap import GAP
from sfumato.central.labels import LabelMessages
from sfumato.central.progap import ProGAP
from sfumato.errors import DataError
from sfumato.method import Fitted, Method
from sfumato.privacy.release_folder import read_release

METHODS: dict[str, type[Any]] = {
    "label-messages": LabelMessages,
    "progap": ProGAP,
    "gap": GAP,
    "mlp": MLP,
    "sage": SAGE,
}


def method_named(name: str, **settings: Any) -> Any:
    """A method by its command-line name; ``auto`` becomes one of the others when it is calibrated.

    >>> method_named("gap", num_hops=3).num_hops
    3
    """
    known: dict[str, type[Any]] = {"auto": Auto, **METHODS}
    return known[check_choice(tuple(known), method=name)](**settings)


def load(run: str | Path) -> Fitted:
    """Load a run folder: weights, released aggregates, certificate. Predicting never spends again.

    Raises:
        DataError: the folder is not a finished run, or was altered.
    """
    run = Path(run)
    if not run.is_dir():
        raise fail("run", str(run), "to be a run folder", "Pass the folder that `sfumato train --out` wrote.")
    stored = read_release(run)
    try:
        method: Method = method_named(stored.spec["method"], **stored.spec["settings"])
        return Fitted.from_stored(stored, method)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"The spec of run {str(run)!r} cannot be read: {error}. See `sfumato verify`.") from error
