"""What the verifier knows of each method: settings, releases, networks and their sizes, and who may see what.

**A new method adds its rows here**: an entry in
:data:`WHO_MAY_SEE` and :data:`SETTINGS`, its releases in :func:`release_names`, its networks in :func:`networks`, and
one function of tensor sizes in ``_SHAPES``. All follow from the certificate; nothing is read off the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeGuard

from .documents import plain
from .local import LINK_METHODS, LOCAL_METHODS, LOCAL_UNITS, QUESTIONS, SENT, local_shapes, report_names

_DEFAULT_HOPS, _MOST_HOPS, _MOST_STAGES, _MOST_LAYERS = 2, 1000, 100, 10
Audience = dict[str, list[str]]
# fmt: off
EVERYTHING: Audience = {"anyone": [], "the node itself": [], "never": ["everything in this run"]}  # under unit none
_OWN = ["predictions that read the node's own features (joint DP)"]
_MLP: Audience = {"anyone": ["weights"], "the node itself": _OWN, "never": []}
_HOPS: Audience = {"anyone": ["noisy aggregates", "weights", "predictions for all nodes"], "the node itself": [],
                   "never": ["sums before noise"]}
WHO_MAY_SEE: dict[str, dict[str, Audience]] = {
    "gap": {
        "edge": _HOPS,
        "node": {"anyone": ["noisy aggregates", "weights"], "the node itself": _OWN,
                 "never": ["sums before noise", "encodings of single nodes (hop 0)"]}},
    "progap": {
        "edge": _HOPS,
        "node": {"anyone": ["noisy aggregates", "weights"], "the node itself": _OWN,
                 "never": ["sums before noise", "embeddings of single nodes that read their features"]}},
    "label-messages": {
        "edge": _HOPS,
        "node": {"anyone": ["noisy aggregates", "weights"], "the node itself": _OWN, "never": ["sums before noise"]}},
    "mlp": {
        "edge": {"anyone": ["weights", "predictions"], "the node itself": [], "never": []},
        "node": _MLP, "record": _MLP},
    "sage": {},
    **{method: {"local": SENT} for method in LOCAL_METHODS},
    **{method: {"link": SENT} for method in LINK_METHODS}}
_TRAINING = {"width": "count", "epochs": "count or null", "learning_rate": "positive", "batch_size": "count",
             "l2_clip_norm": "positive"}
SETTINGS: dict[str, dict[str, str]] = {
    "gap": {**_TRAINING, "num_hops": "count or null", "encoder": "flag"},
    "progap": {**_TRAINING, "depth": "count or null", "base_layers": "count or null", "layerwise": "flag"},
    "label-messages": {"num_hops": "count or null", "learner_share": "share or null", "epochs": "count",
                       "learning_rate": "positive", "l2_clip_norm": "positive"},
    "mlp": _TRAINING,
    "sage": {"width": "count", "epochs": "count", "learning_rate": "positive"},
    **LOCAL_METHODS,
    **LINK_METHODS}
# fmt: on
INDUCTIVE = ("gap", "progap")
"""Methods whose weights may come from another run."""
Sizes = tuple[dict[str, tuple[int, int]], dict[str, int]]
"""Of linear layers (outputs, inputs) and of batch norms (units), by module."""


def is_count(value: Any) -> TypeGuard[int]:
    """Whether it is a whole number from 1 on.

    >>> is_count(3), is_count(True), is_count(0)
    (True, False, False)
    """
    return type(value) is int and 1 <= value <= 2**53


def settings_faults(certificate: dict[str, Any]) -> Iterator[str]:
    """Settings that are not exactly those of the method: each of its type, and nothing beside them."""
    settings, known = certificate["settings"], SETTINGS.get(certificate["method"])
    if known is None:
        return
    known = known | QUESTIONS if certificate["method"] in LOCAL_METHODS else known
    for name in sorted(settings.keys() | known.keys()):
        where = f"certificate.json: settings.{plain(name)}: "
        if name not in known:
            yield f"{where}is not a setting of method {certificate['method']}"
        elif name not in settings:
            yield f"{where}is missing"
        elif not _is_setting(settings[name], known[name]):
            yield f"{where}expected {known[name]}, got {plain(repr(settings[name]))}"
    hops, unit = settings.get("num_hops"), certificate["unit"]["name"]
    if certificate["method"] == "label-messages" and unit == "node" and hops not in (None, 1):
        yield f"certificate.json: settings.num_hops: expected 1 under unit node, got {plain(repr(hops))}"


def _is_setting(value: Any, kind: str) -> bool:
    if kind == "flag":
        return isinstance(value, bool)
    if kind.startswith("one of "):
        return isinstance(value, str) and value in kind.removeprefix("one of ").split(", ")
    if kind == "number":
        return type(value) in (int, float) and abs(value) <= 1e300
    if kind.startswith("budget") and value is not None:
        return type(value) in (int, float) and 0 <= value <= 1e300
    if kind == "positive":
        return type(value) in (int, float) and 0 < value <= 1e300
    if kind == "part":
        return type(value) is float and 0 < value < 1
    if value is None:
        return kind.endswith(" or null")
    return 0 < value <= 1 if kind == "share or null" and type(value) in (int, float) else is_count(value)


def num_hops(certificate: dict[str, Any]) -> int:
    """How many aggregates a method releases; a number beyond what is verified here becomes the largest that is."""
    settings, most = certificate["settings"], _MOST_HOPS
    if certificate["method"] == "progap":
        hops, most = settings.get("depth") or (4 if certificate["unit"]["name"] == "node" else 5), _MOST_STAGES
    else:
        routed = 1 if certificate["unit"]["name"] == "node" else 3
        default = routed if certificate["method"] == "label-messages" else _DEFAULT_HOPS
        hops = settings.get("num_hops") or default
    return min(hops, most) if is_count(hops) else 0


def aggregate_width(certificate: dict[str, Any]) -> Any:
    """Columns of an aggregate."""
    settings = certificate["settings"]
    if certificate["method"] == "label-messages":
        return certificate["public_facts"]["num_classes"]
    bare = certificate["method"] == "gap" and settings.get("encoder") is False
    return certificate["public_facts"]["num_features"] if bare else settings.get("width")


def touched_rows(certificate: dict[str, Any]) -> int | None:
    """Rows of an aggregate that one record can change; None without a bound on its sensitivity."""
    unit, routed = certificate["unit"], certificate["method"] == "label-messages"
    if unit.get("arcs") == "incident" or unit["name"] not in ("edge", "node"):
        return None
    if unit["name"] == "edge":
        return 1 if routed or unit["directed"] else 2
    rows = unit["max_out_degree"] or (certificate["public_facts"]["num_nodes"] if routed else None)
    return None if rows is None else rows * (1 + (unit["relation"] == "replace"))


def private_epochs(certificate: dict[str, Any]) -> Any:
    """Passes of one DP-SGD run."""
    return certificate["settings"].get("epochs") or (5 if certificate["method"] == "progap" else 10)


def networks(certificate: dict[str, Any]) -> list[str]:
    """The networks of a method, in training order."""
    method = certificate["method"]
    if method == "progap":
        return [f"stage/{k}" for k in range(num_hops(certificate) + 1)]
    if method == "label-messages":
        return ["prior", "head"] if certificate["unit"]["name"] == "edge" else ["head"]
    encoder = ["encoder"] * (certificate["settings"].get("encoder") is not False)
    return {"gap": [*encoder, "classifier"], "mlp": ["network"]}.get(method, [])


def release_names(certificate: dict[str, Any]) -> list[str]:
    """What a method releases under a unit, in order; weights that come from another run were charged there."""
    unit, method = certificate["unit"]["name"], certificate["method"]
    if unit in LOCAL_UNITS:
        return report_names(certificate)
    trained = (
        networks(certificate) if unit in ("node", "record") and not certificate["composition"]["builds_on"] else []
    )
    if unit == "none" or method not in ("gap", "progap", "label-messages", "mlp"):
        return []
    if method == "mlp":
        return trained
    aggregates = [f"aggregate/{k + 1}" for k in range(num_hops(certificate))]
    if method == "progap" and trained:
        pairs = zip(aggregates, trained[1:], strict=True)
        return [trained[0], *(name for pair in pairs for name in pair)]
    return [*trained[:-1], *aggregates, *trained[-1:]]


def network_shapes(certificate: dict[str, Any], found: Iterable[str] = ()) -> dict[str, list[int]]:
    """Every tensor of the method's networks, from settings and public facts; batch norm where labels are public.

    ``found`` are the names that a model holds: some methods say with them what they chose.
    """
    if certificate["method"] in LOCAL_METHODS | LINK_METHODS:
        return local_shapes(certificate, found)
    linear: dict[str, tuple[int, int]] = {}
    norms: dict[str, int] = {}
    for network in networks(certificate):
        layers, units = _SHAPES[network.split("/")[0]](certificate, network)
        linear |= {f"{network}.{module}".rstrip("."): size for module, size in layers.items()}
        norms |= {f"{network}.{module}": size for module, size in units.items()}
    shapes = {f"{module}.weight": [*shape] for module, shape in linear.items()}
    shapes |= {f"{module}.bias": [shape[0]] for module, shape in linear.items()}
    for module, size in norms.items() if certificate["unit"]["name"] == "edge" else ():
        shapes |= {f"{module}.{leaf}": [size] for leaf in ("weight", "bias", "running_mean", "running_var")}
        shapes[f"{module}.num_batches_tracked"] = [1]
    return shapes


def _public(certificate: dict[str, Any]) -> tuple[int, int, int]:
    """Width (0 without one), features and classes."""
    public = certificate["public_facts"]
    return certificate["settings"].get("width", 0), public["num_features"], public["num_classes"]


def _mlp(certificate: dict[str, Any], _: str) -> Sizes:
    width, features, classes = _public(certificate)
    return {"layers.0": (width, features), "layers.1": (classes, width)}, {"norms.0": width}


def _encoder(certificate: dict[str, Any], _: str) -> Sizes:
    width, features, classes = _public(certificate)
    linear = {"mlp.layers.0": (width, features), "mlp.layers.1": (width, width), "head": (classes, width)}
    return linear, {"mlp.norms.0": width, "mlp.norms.1": width}


def _classifier(certificate: dict[str, Any], _: str) -> Sizes:
    (width, _features, classes), stages = _public(certificate), num_hops(certificate) + 1
    columns = aggregate_width(certificate)
    linear = {f"base.{k}": (width, columns) for k in range(stages)}
    return {**linear, "head": (classes, width * stages)}, {"norm": width * stages}


def _stage(certificate: dict[str, Any], network: str) -> Sizes:
    settings, stage = certificate["settings"], int(network.split("/")[1])
    width, features, classes = _public(certificate)
    layers = min(settings["base_layers"] or (2 if certificate["unit"]["name"] == "node" else 1), _MOST_LAYERS)
    columns = [features, *[width] * stage][stage if settings["layerwise"] else 0 :]
    linear = {
        f"base.{k}.{depth}": (width, width if depth else first)
        for k, first in enumerate(columns)
        for depth in range(layers)
    }
    return {**linear, "head": (classes, width * (stage + 1))}, {
        f"norms.{depth}": width * len(columns) for depth in range(layers)
    }


def _linear(certificate: dict[str, Any], network: str) -> Sizes:
    """Logistic regression; a linear layer that is the whole network has no name of its own."""
    _, features, classes = _public(certificate)
    public = 3 * classes if network == "head" else features
    return {"": (classes, public if certificate["unit"]["name"] == "edge" else classes + features)}, {}


_SHAPES: dict[str, Callable[[dict[str, Any], str], Sizes]] = {
    "network": _mlp, "encoder": _encoder, "classifier": _classifier, "stage": _stage,
    "prior": _linear, "head": _linear,
}  # fmt: skip
