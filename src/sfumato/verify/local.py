"""What the verifier knows of locally private methods: what users are asked, what they send, what is learned from it.

Part of the verifier: it needs the standard library. **A new local method adds its rows here**: its own settings in
:data:`LOCAL_METHODS` (:data:`LINK_METHODS` where neighbor lists are asked for), and a function of its tensors in ``_SHAPES``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

Values = dict[str, Any]
Shapes = dict[str, list[int]]

LOCAL_UNITS = ("local", "link")  # in the order of their sentences in the schema
FEATURES, LABELS, DEGREES, LINKS = "feature-reports", "label-reports", "degree-reports", "link-reports"
REPORTS = (FEATURES, LABELS, DEGREES, LINKS)
FEATURE_SEED = "feature_seed"
_WHOLE = ("U8", "U16", "I32", "I64")
REPORT_TYPES = {FEATURES: _WHOLE, LABELS: _WHOLE, DEGREES: ("I64",), LINKS: ("U8",)}
# fmt: off
SENT = {"anyone": ["reports", "weights", "predictions for all nodes"], "the node itself": [], "never": []}
QUESTIONS = {
    "epsilon_x": "budget or null", "epsilon_y": "budget or null",
    "mechanism": "one of multi-bit, one-bit, laplace, gaussian, piecewise, pgc, collision, direction",
    "label_mechanism": "one of subset, randomized-response", "paper_rule": "flag", "per_feature": "flag",
    "low": "number", "high": "number", "cap": "count", "delta": "positive"}
_NETWORK = {
    "steps_x": "number", "steps_y": "number", "backbone": "one of sage, gcn, gat, mlp",
    "loss": "one of drop, forward, cross-entropy", "select": "one of debiased, published, algorithm-4, last",
    "learning_rate": "positive", "weight_decay": "number", "dropout": "number", "epochs": "count", "patience": "number",
    "hidden": "count", "activation": "one of selu, relu", "scale": "flag",
    "features_in": "one of reports, random, ones, degree"}
LOCAL_METHODS: dict[str, dict[str, str]] = {
    "label-only": {"form": "one of heat-kernel, propagation"}, "hybrid": {}, "lpgnn": _NETWORK}
LINK_METHODS: dict[str, dict[str, str]] = {"blink": {
    "epsilon": "positive", "degree_share": "part", "rule": "one of expected, hard", "width": "count", "epochs": "count",
    "learning_rate": "positive", "weight_decay": "number", "dropout": "number"}}
LEARNERS = ("mlp", "beliefs", "gcn")
_COLUMNS, _HEADS = 256, 4
# fmt: on


def report_names(certificate: dict[str, Any]) -> list[str]:
    """What users send, in order."""
    settings = certificate["settings"]
    if certificate["unit"]["name"] == "link":
        return [DEGREES, LINKS]
    return [FEATURES] * bool(settings.get("epsilon_x")) + [LABELS] * (settings.get("epsilon_y") is not None)


def unit_faults(certificate: dict[str, Any]) -> Iterator[str]:
    """A unit that protects what is read in the clear or the reverse, or a delta that no mechanism needs."""
    unit, settings, claim = certificate["unit"], certificate["settings"], certificate["claim"]
    if unit["name"] == "link":
        if certificate["public_facts"]["directed"]:
            yield "certificate.json: public_facts.directed: expected false, since both ends of a link report it"
        if claim["delta"] != 0:
            yield f"certificate.json: claim.delta: expected 0, got {claim['delta']}"
        return
    for field, setting in (("features", "epsilon_x"), ("labels", "epsilon_y")):
        if unit[field] != (settings.get(setting) is not None):
            yield f"certificate.json: unit.{field}: {unit[field]} does not fit settings.{setting}"
    noisy = any(release["event"]["type"] == "gaussian" for release in certificate["releases"])
    if claim["delta"] != (settings.get("delta") if noisy else 0):
        yield f"certificate.json: claim.delta: expected {'settings.delta' if noisy else 0}, got {claim['delta']}"


def local_shapes(certificate: dict[str, Any], found: Iterable[str]) -> dict[str, list[int]]:
    """Every tensor of a local method, from settings and public facts; of one that keeps a learner, which is found."""
    public = certificate["public_facts"]
    if certificate["method"] in LINK_METHODS:
        learner = next((name for name in LEARNERS if name in found), LEARNERS[0])
        return {learner: [public["num_nodes"], public["num_classes"]]}
    return _SHAPES[certificate["method"]](certificate["settings"], public)


def _label_only(_: Values, public: Values) -> Shapes:
    return {"probabilities": [public["num_nodes"], public["num_classes"]]}


def _hybrid(settings: Values, public: Values) -> Shapes:
    """Beside the probabilities the weight of every expert: smoothing, and two networks where features are there."""
    return {**_label_only(settings, public), "exponents": [1 if settings["epsilon_x"] == 0 else 3]}


def _lpgnn(settings: Values, public: Values) -> Shapes:
    """The network, which epoch was kept, and the seed of made-up features."""
    asked, width = settings["features_in"] == "reports", settings["hidden"]
    columns, classes = public["num_features"] or (0 if asked else _COLUMNS), public["num_classes"]
    layer = {"sage": _sage, "gat": _gat, "mlp": _own}.get(settings["backbone"], _linear)
    heads = _HEADS if settings["backbone"] == "gat" else 1
    found = {**layer("network.first.", columns, width, heads), **layer("network.second.", heads * width, classes, 1)}
    return {**found, "selection": [4], **({FEATURE_SEED: [1]} if settings["features_in"] == "random" else {})}


def _linear(at: str, columns: int, width: int, heads: int) -> Shapes:
    return {f"{at}weight": [heads * width, columns], f"{at}bias": [heads * width]}


def _own(at: str, columns: int, width: int, heads: int) -> Shapes:
    return _linear(f"{at}own.", columns, width, heads)


def _gat(at: str, columns: int, width: int, heads: int) -> Shapes:
    ends = {f"{at}to_{end}": [heads, width] for end in ("source", "target")}
    return {**_linear(at, columns, width, heads), **ends}


def _sage(at: str, columns: int, width: int, heads: int) -> Shapes:
    return {f"{at}own.weight": [width, columns], **_linear(f"{at}neighbor.", columns, width, heads)}


_SHAPES: dict[str, Callable[[Values, Values], Shapes]] = {
    "label-only": _label_only,
    "hybrid": _hybrid,
    "lpgnn": _lpgnn,
}
