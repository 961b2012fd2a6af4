"""The rules of methods edgerand and lapgraph. Part of the verifier: it needs the standard library.

Their releases are pure: the number of edges, if it is not public, with discrete Laplace noise, and the edges: by randomized
response, or those pairs with the largest noisy bits. So a claim is the sum of what they cost, and delta is whatever the budget
says, 0 included.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ._kinds import EdgeSet, Matrix, Planned

if TYPE_CHECKING:
    from ._rules import Audience, Known, Sizes
    from ._tensors import Stored

SETTINGS = {
    "backbone": "one of sage, mlp", "num_layers": "count", "jumping": "flag", "mean_degree": "positive or null",
    "count_share": "part", "width": "count", "epochs": "count", "learning_rate": "positive up to 10",
}  # fmt: skip
_OF_PAIRS: Audience = {
    "anyone": ["the perturbed edges", "weights", "predictions for all nodes"], "the node itself": [], "never": ["true edges"],
}  # fmt: skip
_MOST_LAYERS = 8
_DEEPER = 2
"""Up to this format of certificates a network could have more layers."""


def _flips(known: Known) -> bool:
    """Whether edges come from randomized response: a setting of edgerand alone is there."""
    return known.asymmetric is not None


def _counts(known: Known) -> bool:
    """Whether the number of edges is released; randomized response needs none without a share."""
    return known.mean_degree is None and known.asymmetric is not False


def _releases(known: Known) -> list[Planned]:
    nodes, directed = known.num_nodes, known.unit["directed"]
    event = "randomized-response" if _flips(known) else "pure"
    edges = EdgeSet("edges", [None, 2], 0, (nodes, nodes), directed=directed, event=event)
    return [*[Matrix("edge-count", [1], 0, event="pure")] * _counts(known), edges]


def _values(known: Known, released: Mapping[str, Stored]) -> Iterator[str]:
    single = known.unit["directed"]
    total = known.num_nodes * (known.num_nodes - 1) // (1 if single else 2)
    wanted = (known.mean_degree or 0.0) * known.num_nodes / (1 if single else 2)
    if _counts(known):
        wanted = int(released["edge-count"].array()[0])
        if not 1 <= wanted <= total:
            yield f"edge-count: expected 1 to {total}, got {wanted}"
    if not _flips(known) and released["edges"].shape[0] > max(1, min(wanted, total)):
        yield f"edges: expected at most {max(1, int(min(wanted, total)))} pairs, got {released['edges'].shape[0]}"


def _faults(known: Known) -> Iterator[str]:
    """Yield a problem for more layers than a run has, other outcomes, and a number of edges at another share of epsilon."""
    where, charged = "certificate.json: ", known.certificate["releases"]
    if known.certificate["format"] > _DEEPER and known.num_layers > _MOST_LAYERS:
        yield f"{where}settings.num_layers: expected at most {_MOST_LAYERS}"
    if any(one["event"].get("num_outcomes", 2) != 2 for one in charged):
        yield f"{where}releases: expected randomized response over 2 outcomes"
    cost = {one["name"]: one["event"].get("epsilon") for one in charged}
    if None in cost.values() or set(cost) != {"edge-count", "edges"}:
        return
    share, total = known.count_share, cost["edge-count"] + cost["edges"]
    if abs(cost["edge-count"] - share * total) > 1e-9 * total:
        yield f"{where}releases[0].event.epsilon: expected the share count_share = {share:g} of all epsilon"


def _layers(known: Known) -> dict[str, Sizes]:
    width, features, classes = known.width, known.num_features, known.num_classes
    if known.backbone == "mlp":
        layers = {"features": (width, features), "counts": (width, classes), "head": (classes, 2 * width)}
        return {"network": (layers, {"norm": 2 * width})}
    deep = min(known.num_layers, 100)
    layers = {"before.layers.0": (width, features), "before.layers.1": (width, width)}
    layers |= {f"{part}.{k}": (width, width) for part in ("own", "neighbor") for k in range(deep)}
    layers["head"] = (classes, width * (deep if known.jumping else 1))
    norms = {f"before.norms.{k}": width for k in range(2)} | {f"norms.{k}": width for k in range(deep)}
    return {"network": (layers, norms)}


RULES: dict[str, Any] = {
    "audience": {"edge": _OF_PAIRS}, "releases": _releases, "layers": _layers, "faults": _faults, "values": _values,
}  # fmt: skip
