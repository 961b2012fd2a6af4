"""What the verifier knows of methods under unit local: what users are asked, what they send, what is learned from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from ._kinds import Planned, Reports
from ._reports import FEATURES, LABELS, SENT, feature_form, label_form, report_faults

if TYPE_CHECKING:
    from ._rules import Known, Tensors

_COLUMNS, _HEADS = 256, 4
SEEN_WITH_LINKS = ["codes of nodes (if every link may be known)", "scores of all pairs (if every link may be known)"]
_OF_LINKS = [
    "Links are not protected: the server knows them all, and codes and scores were made to tell them. Show the release only to "
    "those who may know every link.",
    "No label is read, so none is randomized: there is no epsilon_y. Nothing is claimed about labels.",
]


def _faults(known: Known) -> Iterator[str]:
    """Yield a problem for an empty range, a unit that does not fit the budgets, and a delta that no mechanism needs."""
    unit, settings, delta = known.unit, known.certificate["settings"], known.certificate["claim"]["delta"]
    if known.high <= known.low:
        yield f"certificate.json: settings.high: expected a number above low, got {known.high}"
    if unit["name"] == "none":
        return
    for field, setting in (("features", "epsilon_x"), ("labels", "epsilon_y")):
        if unit[field] != (settings[setting] is not None):
            yield f"certificate.json: unit.{field}: {unit[field]} does not fit settings.{setting}"
    noisy = any(release["event"]["type"] == "gaussian" for release in known.certificate["releases"])
    if delta != (known.delta if noisy else 0):
        yield f"certificate.json: claim.delta: expected {'settings.delta' if noisy else 0}, got {delta}"


def _releases(known: Known) -> list[Planned]:
    certificate, nodes = known.certificate, known.num_nodes
    check, found = partial(report_faults, certificate=certificate), []
    if known.epsilon_x:
        found.append(Reports(FEATURES, [nodes, None], 0, check, partial(feature_form, certificate)))
    if known.epsilon_y is not None:
        found.append(Reports(LABELS, [nodes], 0, check, lambda _: label_form(certificate)))
    return [*found]


def _each_feature(known: Known) -> list[str]:
    count = known.num_features
    if not (known.per_feature and known.epsilon_x):
        return []
    return [
        f"epsilon_x = {known.epsilon_x:g} is spent on each of the {count} features, as first published: a user spends up to "
        f"{count} times as much."
    ]


def of_links(known: Known) -> list[str]:
    return [*_each_feature(known), *([] if known.unit["name"] == "none" else _OF_LINKS)]


RULES: dict[str, Any] = {
    "audience": {"local": SENT}, "faults": _faults, "releases": _releases, "caveats": _each_feature,
}  # fmt: skip


def of_lpgnn(known: Known, _: Iterable[str]) -> Tensors:
    asked, width = known.features_in == "reports", known.hidden
    columns = known.num_features or (0 if asked else _COLUMNS)
    layer = {"sage": _sage, "gat": _gat, "mlp": _own, "gcn": _linear}[known.backbone]
    heads = _HEADS if known.backbone == "gat" else 1
    layers = {
        **layer("network.first.", columns, width, heads),
        **layer("network.second.", heads * width, known.num_classes, 1),
    }
    return {**layers, "selection": [4], **({"feature_seed": [1]} if known.features_in == "random" else {})}


def _linear(at: str, columns: int, width: int, heads: int) -> Tensors:
    return {f"{at}weight": [heads * width, columns], f"{at}bias": [heads * width]}


def _own(at: str, columns: int, width: int, heads: int) -> Tensors:
    return _linear(f"{at}own.", columns, width, heads)


def _gat(at: str, columns: int, width: int, heads: int) -> Tensors:
    ends = {f"{at}to_{end}": [heads, width] for end in ("source", "target")}
    return {**_linear(at, columns, width, heads), **ends}


def _sage(at: str, columns: int, width: int, heads: int) -> Tensors:
    return {f"{at}own.weight": [width, columns], **_linear(f"{at}neighbor.", columns, width, heads)}
