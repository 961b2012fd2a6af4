"""The methods that can be verified. **A new method is one entry here**: rules as data, or a file that has them as code."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from . import _links as links
from . import _local as local
from . import _perturbed as perturbed
from . import _servers as servers
from ._baselines import OF_EDGES, OF_RECORDS, of_graph_free, tree_faults
from ._kinds import Matrix, Replaced
from ._layers import (
    coefficients,
    dpgnn_arc_terms,
    dpgnn_layers,
    dpgnn_terms,
    gap_layers,
    image_tensors,
    in_turns,
    lpgnet_layers,
    mlp_layers,
    progap_hops,
    progap_layers,
    scattering_tensors,
)
from ._reports import QUESTIONS, SENT
from ._rules import OF_HOPS, OWN, TRAINING, Known, Rules, few_steps
from ._units import no_arc_change

_BOTH = ("multilabel", "number")
_SUMS = ["noisy aggregates", "weights"]
_NEVER = "sums before noise"
_FITTED = {"width": "count", "epochs": "count", "learning_rate": "positive up to 10"}
_LEAST_CLIP = 1e-9
_CLIP = (lambda v: v.l2_clip_norm >= _LEAST_CLIP, f"settings.l2_clip_norm: expected at least {_LEAST_CLIP:g}")
"""Below it gradients may leave the range of float64."""
_BINS = 32
_OWN_NETWORK = (
    "Network, first weights and loss are of the user's own making. The claim takes for granted that they were made without "
    "looking at protected data."
)
_IMAGES: dict[str, Any] = {
    "reads_links": False,
    "layers": lambda _: {"network": ({}, {})},
    "tensors": image_tensors,
    "demands": (
        _CLIP,
        (lambda v: v.network != "cnn" or (v.image_shape and min(v.image_shape[1:]) >= 12),
         "settings.network: expected mlp or softmax, since public_facts.image_shape is not at least 12 x 12"),
        (lambda v: not v.augment or v.image_shape, "settings.augment: expected 0, since public_facts has no image_shape"),
    ),
}  # fmt: skip
_PIXELS = {"network": "one of cnn, mlp, softmax", "width": "count", "optimizer": "one of momentum, adam, sgd",
           "learning_rate": "positive up to 100", "l2_clip_norm": "positive up to 1000000000",
           "learn_filters": "flag", "augment": "index up to 1000"}  # fmt: skip
_CELLS: dict[str, Any] = {**_IMAGES, "sgd": lambda v: (v.sampling_prob, v.steps)}
_OF_CELLS = {**_PIXELS, "steps": "count", "sampling_prob": "share", "records_per_cell": "count or null",
             "loss_scale": "positive up to 1000000000"}  # fmt: skip


def _seen(anyone: list[str], own: list[str], *never: str) -> dict[str, list[str]]:
    return {"anyone": anyone, "the node itself": own, "never": [*never]}


_OF_OWN = {**{name: kind for name, kind in TRAINING.items() if name != "width"}, "epochs": "count", "module": "name",
           "num_parameters": "count"}  # fmt: skip
_OWN: dict[str, Any] = {
    "since": 3,
    "layers": lambda _: {"network": ({}, {})},
    "tensors": lambda v, _: {"network.flat": [v.num_parameters]},
    "demands": (_CLIP,),
    "caveats": lambda _: [_OWN_NETWORK],
}


_OF_PAIRS = _seen(["noisy aggregates", "weights", "scores of all pairs"], [], _NEVER)


def _partition(v: Known) -> Any:
    return v.unit.get("partition")


def _of_subclasses(v: Known) -> list[str]:
    clusters = (
        "The cells are clusters of the private images by k-means: which image is in which cell, and what the clusters tell, is "
        "not protected."
    )
    fitted = f"The first {v.public_rows} training images are declared public, and centroids are fitted on them."
    return [clusters] * v.kmeans + [fitted] * (v.public_rows > 0)


_BY_TYPE = (lambda v: v.by_type or not v.edge_types, "settings.by_type: expected true, since edges have types")

METHODS: dict[str, str | Rules] = {
    "gap": Rules(
        settings={**TRAINING, "num_hops": "count or null up to 1000", "encoder": "flag"},
        optional={"combine": "one of sum, attention", "by_type": "flag"}, demands=(_BY_TYPE,),
        audience={"edge": OF_HOPS, "person": OF_HOPS, "node": _seen(_SUMS, OWN, _NEVER, "encodings of single nodes (hop 0)")},
        inductive=True, reads_weights=True, targets=_BOTH,
        hops=lambda v: v.num_hops or 2,
        columns=lambda v: v.width if v.encoder else v.num_features,
        layers=gap_layers, blocks=lambda v: len(v.edge_types or ()) or 1, reads_types=("edge", "none"),
    ),
    "progap": Rules(
        settings={**TRAINING, "depth": "count or null up to 100", "base_layers": "count or null up to 10", "layerwise": "flag"},
        audience={"edge": OF_HOPS, "person": OF_HOPS,
                  "node": _seen(_SUMS, OWN, _NEVER, "embeddings of single nodes that read their features")},
        inductive=True, reads_weights=True, targets=_BOTH, epochs=5,
        hops=progap_hops, layers=progap_layers, order=in_turns, optional={"by_type": "flag"}, demands=(_BY_TYPE,),
        blocks=lambda v: len(v.edge_types or ()) or 1, reads_types=("edge", "none"),
    ),
    "lpgnet": Rules(
        settings={**TRAINING, "num_hops": "count up to 1000"},
        audience={"edge": OF_HOPS},
        releases=lambda v: [
            Matrix(f"aggregate/{k + 1}", [v.num_nodes, v.num_classes], 0, event="pure") for k in range(v.num_hops)
        ],
        layers=lpgnet_layers,
        demands=((lambda v: len({one["event"].get("epsilon") for one in v.certificate["releases"]}) < 2,
                  "releases: expected the same epsilon at every stage"),),
    ),
    "edgerand": Rules(settings={**perturbed.SETTINGS, "asymmetric": "flag"}, **perturbed.RULES),
    "lapgraph": Rules(settings=perturbed.SETTINGS, **perturbed.RULES),
    "label-messages": "labels:LabelMessages",
    "daily-messages": "daily:DailyMessages",
    "piloted-messages": "piloted:PilotedMessages",
    "promised-messages": "promised:PromisedMessages",
    "link-messages": Rules(
        settings={"learner_share": "part"},
        optional={"sides": "name or null"},
        audience={"edge": _OF_PAIRS, "person": _OF_PAIRS},
        scores_pairs=True,
        releases=lambda v: [
            Matrix("links", [v.num_nodes * (v.num_classes + (v.sides is not None)) + 5], 0, event="pure")
        ],
        tensors=lambda *_: {"link.weight": [4]},
        demands=((lambda v: not v.unit.get("directed"),
                  "unit.directed: expected false, links of method link-messages have no direction"),),
    ),
    "mlp": Rules(
        settings={**TRAINING, "batch_size": "count or null"},
        sgd=few_steps,
        optional={"num_layers": "count up to 8"},
        audience={"edge": OF_EDGES, "person": OF_EDGES, "node": OF_RECORDS, "person-nodes": OF_RECORDS, "record": OF_RECORDS},
        reads_links=False, targets=_BOTH,
        layers=mlp_layers,
    ),
    "dpsgd": Rules(settings=_OF_OWN, audience={"node": OF_RECORDS, "record": OF_RECORDS}, reads_links=False, **_OWN),
    "dpsgd-hops": Rules(
        settings={**_OF_OWN, "num_hops": "count up to 1000"},
        audience={"node": _seen(_SUMS, OWN, _NEVER)},
        reads_weights=True,
        hops=lambda v: v.num_hops,
        columns=lambda v: v.num_features,
        **_OWN,
    ),
    "linear": "baselines:Linear",
    "scattering": Rules(
        settings={**{name: kind for name, kind in TRAINING.items() if name != "width"}, "epochs": "count"},
        audience={"node": OF_RECORDS, "record": OF_RECORDS},
        reads_links=False,
        optional={"head": "one of linear, cnn"},
        layers=lambda v: {"head": ({"": (v.num_classes, coefficients(v))}, {})},
        tensors=scattering_tensors,
        demands=((coefficients, "public_facts.image_shape: method scattering learns from images of at least 8 x 8 pixels"),),
    ),
    "sage": Rules(
        settings=_FITTED,
        optional={"aggregator": "one of sum", "num_layers": "count up to 8", "layers_before": "count up to 8", "jumping": "flag"},
        targets=_BOTH,
    ),
    "reference": Rules(settings=_FITTED, targets=_BOTH),
    "graph-free": Rules(
        settings=_FITTED, audience={"edge": OF_EDGES, "person": OF_EDGES}, reads_links=False, weights=tree_faults,
        tensors=lambda v, found: of_graph_free(v.certificate, v.width, found),
    ),
    "graph-split": "split:GraphSplit",
    "dpgnn": Rules(
        settings={**TRAINING, "num_layers": "count up to 8", "max_arcs": "count", "max_in_arcs": "count",
                  "inference": "one of own, noised"},
        audience={"node": _seen(_SUMS, OWN, _NEVER)},
        epochs=20, network=Replaced,
        hops=lambda v: v.inference == "noised",
        columns=lambda v: v.width + 1,
        layers=dpgnn_layers, terms=dpgnn_terms, arc_terms=dpgnn_arc_terms,
        order=lambda networks, hops: [*networks, *hops],
        demands=(
            (lambda v: v.inference != "noised" or v.num_layers == 1, "settings.num_layers: expected 1 with noised inference"),
            (lambda v: v.unit["name"] != "node" or v.unit["arcs"] == "owned",
             "unit.arcs: method dpgnn has no proof for incident arcs"),
        ),
    ),
    "dpar": "dpar:DPAR",
    "class-dp": Rules(settings=_OF_CELLS, audience={"class": OF_RECORDS}, **_CELLS),
    "subclass-dp": Rules(**{
        **_CELLS,
        "settings": {**_OF_CELLS, "public_rows": "index", "kmeans": "flag"},
        "audience": {"subclass": OF_RECORDS},
        "caveats": _of_subclasses,
        "demands": (
            *_IMAGES["demands"],
            (lambda v: v.public_rows > 0 or _partition(v) != "centroids",
             "settings.public_rows: expected a number above 0 with this partition"),
            (lambda v: v.public_rows == 0 or _partition(v) == "centroids",
             "settings.public_rows: expected 0 with this partition"),
            (lambda v: v.public_rows <= v.num_train,
             "settings.public_rows: {v.public_rows} exceeds public_facts.num_train, {v.num_train}"),
            (lambda v: not v.kmeans or _partition(v) == "declared",
             "settings.kmeans: expected false, since the unit's partition is not declared"),
            (lambda v: not v.kmeans or _partition(v) != "declared" or not v.unit["cells"] % max(v.num_classes, 1),
             "unit.cells: expected a multiple of {v.num_classes}, the number of classes"),
        ),
    }),
    "cnn": Rules(
        settings={**_PIXELS, "steps": "count", "batch_size": "count"}, audience={"record": OF_RECORDS}, **_IMAGES,
        sgd=lambda v: (min(v.batch_size, max(v.num_train, 1)) / max(v.num_train, 1), v.steps),
    ),
    "label-only": Rules(
        settings={**QUESTIONS, "form": "one of heat-kernel, propagation"}, **local.RULES,
        tensors=lambda v, _: {"probabilities": [v.num_nodes, v.num_classes]},
    ),
    "hybrid": Rules(  # weighs three smoothings and, if features are there, two networks
        settings=QUESTIONS, **local.RULES,
        tensors=lambda v, _: {"probabilities": [v.num_nodes, v.num_classes], "exponents": [3 if v.epsilon_x == 0 else 5]},
    ),
    "lpgnn": Rules(
        settings={
            **QUESTIONS,
            "steps_x": "index", "steps_y": "index", "backbone": "one of sage, gcn, gat, mlp",
            "loss": "one of drop, forward, cross-entropy", "select": "one of debiased, published, algorithm-4, last",
            "learning_rate": "positive up to 10", "weight_decay": "amount", "dropout": "fraction", "epochs": "count",
            "patience": "index", "hidden": "count", "activation": "one of selu, relu", "scale": "flag",
            "features_in": "one of reports, random, ones, degree",
        },
        optional={"aggregator": "one of mean"},
        **local.RULES, tensors=local.of_lpgnn,
    ),
    "pgc-links": Rules(**{
        **local.RULES,
        "settings": {**QUESTIONS, "learning_rate": "positive up to 10", "weight_decay": "amount", "max_epochs": "count"},
        "audience": {"local": {**SENT, "anyone": ["reports", *local.SEEN_WITH_LINKS]}},
        "scores_pairs": True,
        "tensors": lambda v, _: {"codes": [v.num_nodes, 16]},
        "caveats": local.of_links,
        "demands": (
            (lambda v: v.epsilon_y is None, "settings.epsilon_y: expected null, since method pgc-links asks for no label"),
            (lambda v: v.epsilon_x != 0,
             "settings.epsilon_x: expected a budget or null, since links are told apart by features"),
            (lambda v: not v.num_train, "public_facts.num_train: expected 0, since method pgc-links reads no label"),
            (lambda v: not v.num_classes, "public_facts.num_classes: expected 0, since method pgc-links reads no label"),
        ),
    }),
    "blink": Rules(**links.RULES),
    "shared-counts": Rules(**servers.RULES),
    "statistics": "statistics:Statistics",
    "pate": "pate:PATE",
    "set-calibration": Rules(  # a record is in one bin; if it is replaced, it may leave one for another
        settings={"bins": "count"},
        audience={"node": _seen(["noisy counts of validation nodes"], OWN, "counts before noise")},
        inductive=True, reads_links=False,
        releases=lambda v: [Matrix("counts", [_BINS], 0, event="pure", arc_change=no_arc_change(v.certificate))],
        demands=(
            (lambda v: v.certificate["composition"]["builds_on"],
             "composition.builds_on: expected the run whose probabilities were counted, got none"),
            (lambda v: v.bins == _BINS, f"settings.bins: expected {_BINS}, got {{v.bins}}"),
        ),
    ),
}  # fmt: skip
"""By its name in certificates: its rules as data, or a file of this folder and the class of its rules."""


def rules_of(method: str) -> Rules | None:
    """Return the rules of a method, or None if it is not known here.

    >>> rules_of("gap").inductive, rules_of("trust-me")
    (True, None)
    """
    found = METHODS.get(method)
    if found is None or isinstance(found, Rules):
        return found
    file, name = found.split(":")
    rules: type[Rules] = getattr(import_module(f"._{file}", __package__), name)
    return rules()
