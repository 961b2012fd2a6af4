"""What the verifier knows of locally private methods: what users are asked, what they send, what is learned from it.

Part of the verifier: it needs the standard library alone. **A new local method adds its rows here**: its own settings in
:data:`LOCAL_METHODS` (:data:`LINK_METHODS` where neighbor lists are asked for), and a function of its tensors in ``_SHAPES``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
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
_STEPS = 2**20  # of the epsilon of a degree
_UPWARD = Context(prec=400, rounding=ROUND_CEILING)
_COLUMNS, _HEADS = 256, 4
_EXPRESSED = 30.0  # words of 64 bits cannot tell larger epsilons apart
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


def report_faults(where: str, release: dict[str, Any], certificate: dict[str, Any]) -> Iterator[str]:
    """One kind of report: one a user, by a mechanism of at most the budget asked for."""
    event, settings, public = release["event"], certificate["settings"], certificate["public_facts"]
    features = release["name"] == FEATURES
    gaussian, shape = features and settings.get("mechanism") == "gaussian", release["shape"]
    if shape[:1] != [public["num_nodes"]] or len(shape) != 1 + features:
        yield f"{where}shape: expected {public['num_nodes']} users{' and a width' * features}, got {shape[:4]}"
    affected = public["num_features"] if gaussian else 0
    if release["affected_coordinates"] != affected:
        yield f"{where}affected_coordinates: expected {affected}, got {release['affected_coordinates']}"
    kind = "gaussian" if gaussian else "pure"
    if event["type"] != kind or event["count"] != 1:
        yield f"{where}event: expected one report of type {kind}"
        return
    asked = settings.get("epsilon_x" if features else "epsilon_y")
    if kind == "pure" and type(asked) in (int, float):
        times = public["num_features"] if features and settings.get("per_feature") else 1
        least, most = 0.999 * times * min(asked, _EXPRESSED), (1 + 1e-9) * times * asked
        if not least <= event["epsilon"] <= most:
            yield f"{where}event.epsilon: expected about {times * asked:.9g}, as the settings ask, got {event['epsilon']:.9g}"


def link_faults(where: str, release: dict[str, Any], certificate: dict[str, Any]) -> Iterator[str]:
    """Degrees or bits of neighbor lists: from every user, at their parts of the budget asked for."""
    event, settings, n = release["event"], certificate["settings"], certificate["public_facts"]["num_nodes"]
    degrees = release["name"] == DEGREES
    expected = [n] if degrees else [n, -(-n // 8)]
    if release["shape"] != expected:
        yield f"{where}shape: expected {expected}, for {n} users, got {release['shape'][:4]}"
    if release["affected_coordinates"] != 0:
        yield f"{where}affected_coordinates: expected 0, got {release['affected_coordinates']}"
    if event["type"] != "pure" or event["count"] != 1:
        yield f"{where}event: expected one report of type pure"
        return
    asked, share = settings.get("epsilon"), settings.get("degree_share")
    if type(asked) not in (int, float) or type(share) is not float or not (0 < asked <= 1e300 and 0 < share < 1):
        return  # a problem already
    part = Fraction(int(Fraction(asked) * Fraction(share) * _STEPS), _STEPS)
    rest = float(Fraction(asked) - part)
    low, high = (float(part),) * 2 if degrees else (0.999 * min(rest, _EXPRESSED), (1 + 1e-9) * rest)
    if not low <= event["epsilon"] <= high:
        wanted = float(part) if degrees else rest
        yield f"{where}event.epsilon: expected about {wanted:.9g}, as the settings ask, got {event['epsilon']:.9g}"


def both_ends(certificate: dict[str, Any]) -> list[str]:
    """The caveat of links, each of which is a bit of two lists."""
    epsilon = certificate["claim"]["epsilon"]
    if certificate["unit"]["name"] != "link" or epsilon is None:
        return []
    return [
        f"epsilon = {round_up(epsilon)} is that of one bit of one list. A relationship that both of its ends report costs "
        f"epsilon = {round_up(2 * epsilon)}.",
        "A whole neighbor list costs epsilon for every bit in which it could differ: about how many links a user has is not "
        "hidden.",
    ]


def round_up(epsilon: float) -> str:
    """Print an epsilon with six decimals, never below its value.

    >>> round_up(7.994783104)
    '7.994784'
    """
    return f"{Decimal(epsilon).quantize(Decimal('0.000001'), context=_UPWARD).normalize(_UPWARD):f}"


def each_feature(certificate: dict[str, Any]) -> list[str]:
    """The caveat of a budget that was set for every feature by itself."""
    settings, count = certificate["settings"], certificate["public_facts"]["num_features"]
    if not (settings.get("per_feature") and type(settings.get("epsilon_x")) in (int, float) and settings["epsilon_x"]):
        return []
    return [
        f"epsilon_x = {settings['epsilon_x']:g} is spent on each of the {count} features, as first published: a user "
        f"spends up to {count} times as much."
    ]


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
