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
from sfumato.local.blink import Blink
from sfumato.local.hybrid import Hybrid
from sfumato.local.label_only import LabelOnly
from sfumato.local.lpgnn import LPGNN
from sfumato.local.presets import preset as published
from sfumato.method.fitted import Fitted
from sfumato.method.method import Method
from sfumato.record.release_folder import read_release

METHODS: dict[str, type[Any]] = {
    "label-messages": LabelMessages,
    "progap": ProGAP,
    "gap": GAP,
    "mlp": MLP,
    "sage": SAGE,
    "label-only": LabelOnly,
    "hybrid": Hybrid,
    "lpgnn": LPGNN,
    "blink": Blink,
}
LOCAL_WORDS = ("lpgnn", "pgc", "label-only")


def method_named(name: str, **settings: Any) -> Any:
    """A method by its command-line name; ``auto`` becomes one of the others when it is calibrated.

    >>> method_named("gap", num_hops=3).num_hops
    3
    """
    known: dict[str, type[Any]] = {"auto": Auto, **METHODS}
    return known[check_choice(tuple(known), method=name)](**settings)


def local_method(
    word: str, epsilon_x: float | None, epsilon_y: float | None, preset: str | None, dataset: str, **settings: Any
) -> Any:
    """A locally private method by its command-line word: ``lpgnn`` is the hybrid unless a published preset is named.

    Budgets and ``settings`` go before a preset's: "pgc-2020" (the word ``pgc``) with an ``epsilon_y`` asks for labels too,
    by randomized response, though published with labels in the clear.

    >>> local_method("label-only", 0.0, 1.0, None, "campus").epsilon_y
    1.0
    """
    settings = {"epsilon_x": epsilon_x, "epsilon_y": epsilon_y, **settings}
    if check_choice(LOCAL_WORDS, method=word) == "label-only":
        return LabelOnly(**settings)
    preset = "pgc-2020" if word == "pgc" else preset
    if preset is None:
        return Hybrid(**settings)
    values = published(preset, dataset, epsilon_x, epsilon_y)
    if values["loss"] == "cross-entropy":  # labels were published in the clear; this loss takes classes, not sets
        values["label_mechanism"] = "randomized-response"
    return LPGNN(**{**values, **settings})


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
