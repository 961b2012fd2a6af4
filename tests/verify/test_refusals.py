"""What the rules of single methods and of facts refuse, each beside a near miss that they let pass."""

import pytest

from sfumato.verify._facts import fact_faults, target_faults
from sfumato.verify._methods import rules_of
from sfumato.verify._rules import Rules

EDGE = {"name": "edge", "relation": "add-remove", "directed": False}
NODE = {"name": "node", "relation": "remove", "max_out_degree": 5, "arcs": "owned"}
LINK = {"name": "link", "relation": "replace"}
LOCAL = {"name": "local", "relation": "replace", "features": True, "labels": True}
FACTS = {"directed": False, "num_nodes": 9, "num_train": 7, "num_features": 2, "num_classes": 3, "max_degree": 5,
         "mean_degree": 2.0}  # fmt: skip


def certificate(unit=EDGE, facts=(), settings=(), **others):
    return {"unit": unit, "method": "m", "public_facts": {**FACTS, **dict(facts)}, "settings": dict(settings),
            "assumed_public": [], "releases": [], "composition": {"builds_on": []}, "format": 3, **others}  # fmt: skip


def assumed(*names, **others):
    return {"assumed_public": [*names], **others}


HALF, ORIGIN = {"split": [0.5, 0.5, 0.0]}, {"composition": {"builds_on": [{}]}}


@pytest.mark.parametrize(
    ("right", "wrong", "fragment"),
    [
        ((EDGE,), (EDGE, {"directed": True}), "unit.directed: expected true"),
        ((EDGE, {"num_train": 9}), (EDGE, {"num_train": 10}), "num_train: 10 exceeds 9"),
        ((LINK,), (LINK, {"num_arcs": 3}), "num_arcs: is protected under unit link"),
        ((LOCAL, {"num_train": 5, "num_arcs": 0}), (LOCAL, {"num_train": 5}),
         "num_arcs: is missing, though arcs are public under unit local"),
        ((NODE, {}, assumed("categories of column a", "categories of column b")),
         (NODE, {}, assumed(*(f"categories of column {name}" for name in "abc"))),
         "names 3 columns, but public_facts.num_features is 2"),
        ((NODE, {}, assumed("classes")), (EDGE, {}, assumed("classes")), "is not protected"),
        ((NODE,), (NODE, {}, assumed("target range")), "is no fact that is read off data"),
        ((NODE, {}, assumed("classes")), (NODE, {"num_classes": 0}, assumed("classes")),
         "contradicts public_facts.num_classes, which is 0"),
        ((NODE, {"degree_bounds": True}, assumed("degrees")), (NODE, {"degree_bounds": True}, assumed("degrees", "degrees")),
         "assumed_public[1]: degrees appears twice"),
        ((NODE, {}, assumed("roles")), (EDGE, {}, assumed("roles")), "is not protected under unit edge"),
        ((NODE, {"num_train": 7}), (NODE, {"num_train": 6}), "num_train: expected 7, as a draw"),
        (({**LOCAL, "labels": False}, {"num_train": 6, "num_arcs": 8}), (LOCAL, {"num_train": 6}), "num_train: expected 5,"),
        ((LOCAL, {"num_train": 5, "num_arcs": 8}), (LOCAL, {"num_train": 7}), "num_train: expected 5,"),
        ((NODE, {"num_train": 6}, {"format": 2}), (NODE, {"num_train": 6}), "num_train: expected 7"),
        ((EDGE, {"num_train": 6}), (NODE, {"num_train": 0}), "num_train: expected 7"),
        ((NODE, {"num_train": 6}, assumed("roles")), (NODE, {"num_train": 6}, assumed("classes")),
         "assumed_public does not say that roles were given"),
        ((NODE, {"num_train": 6, "split": [0.66, 0.2, 0.14]}), (NODE, {"num_train": 7, "split": [0.66, 0.2, 0.14]}),
         "num_train: expected 6, as a draw"),
        ((NODE, {"num_train": 9, "split": [1.0, 0.0, 0.0]}), (NODE, {"num_train": 9, "split": [1.0, 0.1, 0.0]}),
         "split: expected three shares of at most 1 together"),
        ((NODE, {"num_train": 5, **HALF}), (NODE, {"num_train": 5, "split": [0.5, 0.5]}), "split: expected three shares"),
        ((NODE, {"num_train": 5, **HALF}), (EDGE, {"num_train": 5, **HALF}), "split: expected none"),
        ((NODE, {"num_train": 5}, assumed("roles")), (NODE, {"num_train": 5, **HALF}, assumed("roles")), "split: expected none"),
        ((NODE, {"num_train": 0}, ORIGIN), (NODE, {"num_train": 4}, ORIGIN), "num_train: expected 7"),
    ],
)  # fmt: skip
def test_facts_that_contradict_are_found(right, wrong, fragment):
    def faults(unit, facts=(), others=()):
        return [*fact_faults(certificate(unit, facts, **dict(others)))]

    assert faults(*right) == []
    assert any(fragment in fault for fault in faults(*wrong))


NUMBER = {"target": "number", "target_range": [0, 1]}
TARGETS = [
    ("gap", {}, None),
    ("gap", NUMBER, None),
    ("gap", {"target": "multilabel", "num_classes": 4}, None),
    ("label-messages", NUMBER, "learns no target of kind number"),
    ("gap", {"target": "number"}, "target_range"),
    ("gap", {"target_range": [0, 1]}, "target_range"),
    ("gap", {"target": "number", "target_range": [1, 1]}, "smaller one first"),
    ("gap", {**NUMBER, "num_classes": 2}, "expected 1"),
    ("gap", {"target": "multilabel", "untrained_classes": 0}, "untrained_classes"),
]


@pytest.mark.parametrize(("method", "facts", "fragment"), TARGETS)
def test_targets_are_those_that_the_method_learns(method, facts, fragment):
    found = [*target_faults({"method": "m", "public_facts": {"num_classes": 1, **facts}}, rules_of(method))]
    assert fragment in found[0] if fragment else found == []


def test_several_hops_of_labels_only_where_labels_are_public():
    settings = {"num_hops": 2, "learner_share": None, "epochs": 1, "learning_rate": 0.1, "l2_clip_norm": 1.0}
    rules = rules_of("label-messages")
    assert not list(rules.setting_faults(certificate(EDGE, settings=settings)))
    assert not list(rules.setting_faults(certificate(NODE, settings={**settings, "num_hops": 1})))
    (fault,) = rules.setting_faults(certificate(NODE, settings=settings))
    assert "settings.num_hops: expected 1 under unit node, got 2" in fault


def test_lists_of_neighbors_are_undirected_and_pure():
    claim = {"epsilon": 1.0, "delta": 0}
    assert not list(rules_of("blink").faults(certificate(LINK, claim=claim)))
    (fault,) = rules_of("blink").faults(certificate(LINK, {"directed": True}, claim=claim))
    assert "public_facts.directed: expected false" in fault
    (fault,) = rules_of("blink").faults(certificate(LINK, claim={**claim, "delta": 1e-9}))
    assert "claim.delta: expected 0" in fault


def test_a_range_is_not_empty():
    settings, claim = {"low": 0.0, "high": 1.0, "epsilon_x": 1.0, "epsilon_y": 1.0, "delta": None}, {"delta": 0}
    assert not list(rules_of("label-only").faults(certificate(LOCAL, settings=settings, claim=claim)))
    (fault,) = rules_of("label-only").faults(certificate(LOCAL, settings={**settings, "high": 0.0}, claim=claim))
    assert "settings.high: expected a number above low, got 0.0" in fault


ARCS = {**NODE, "arcs": "incident"}
NONE = {"name": "none", "relation": "none"}
CELLS = {"name": "subclass", "relation": "replace", "cells": 6, "partition": "declared"}
ODD = {**CELLS, "cells": 7}
DPGNN = {"inference": "noised", "num_layers": 1}
IMAGES = {"l2_clip_norm": 1e-9, "network": "cnn", "augment": 1, "public_rows": 0, "kmeans": True}
PIXELS = {"image_shape": [1, 12, 12]}
ASKED = {"low": 0.0, "high": 1.0, "epsilon_x": 1.0, "epsilon_y": None, "delta": None}
NO_LABELS = {"num_train": 0, "num_classes": 0}
FEATURES = {**LOCAL, "labels": False}
PAIRS = {"num_layers": 8, "count_share": 0.25, "mean_degree": None}
COUNTED = [{"name": name, "event": {"epsilon": epsilon}} for name, epsilon in (("edge-count", 0.25), ("edges", 0.75))]
OUTCOMES = [{"name": "edges", "event": {"epsilon": 1.0, "num_outcomes": number}} for number in (2, 3)]


@pytest.mark.parametrize(
    ("method", "right", "wrong", "fragment"),
    [
        ("dpgnn", (NODE, {}, DPGNN), (NODE, {}, {**DPGNN, "num_layers": 2}), "num_layers: expected 1"),
        ("dpgnn", (NODE, {}, DPGNN), (ARCS, {}, DPGNN), "no proof for incident arcs"),
        ("graph-split", (NODE, {}, {"l2_clip_norm": 1e-9}), (NODE, {}, {"l2_clip_norm": 9e-10}), "at least 1e-09"),
        ("scattering", (NODE, {"image_shape": [1, 8, 8]}), (NODE, {"image_shape": [1, 8, 7]}), "images of at least 8"),
        ("link-messages", (EDGE,), ({**EDGE, "directed": True},), "unit.directed: expected false"),
        ("lpgnet", (EDGE, {}, {}, COUNTED[:1] * 2), (EDGE, {}, {}, COUNTED), "the same epsilon at every stage"),
        ("cnn", (CELLS, PIXELS, IMAGES), (CELLS, PIXELS, {**IMAGES, "l2_clip_norm": 9e-10}), "at least 1e-09"),
        ("cnn", (CELLS, PIXELS, IMAGES), (CELLS, {"image_shape": [1, 12, 11]}, IMAGES), "expected mlp or softmax"),
        ("cnn", (CELLS, {}, {**IMAGES, "network": "mlp", "augment": 0}), (CELLS, {}, {**IMAGES, "network": "mlp"}), "expected 0"),
        ("subclass-dp", (ODD, PIXELS, {**IMAGES, "kmeans": False}), (ODD, PIXELS, IMAGES), "expected a multiple of 3"),
        ("subclass-dp", (CELLS, PIXELS, IMAGES), ({**CELLS, "partition": "directions"}, PIXELS, IMAGES), "expected false"),
        ("subclass-dp", (CELLS, PIXELS, IMAGES), (CELLS, PIXELS, {**IMAGES, "public_rows": 7}), "public_rows: expected 0"),
        ("pgc-links", (FEATURES, NO_LABELS, ASKED), (FEATURES, {**NO_LABELS, "num_train": 1}, ASKED), "num_train: expected 0"),
        ("pgc-links", (FEATURES, NO_LABELS, ASKED), (FEATURES, {**NO_LABELS, "num_classes": 2}, ASKED), "classes: expected 0"),
        ("pgc-links", (FEATURES, NO_LABELS, ASKED), (FEATURES, NO_LABELS, {**ASKED, "epsilon_x": 0}), "a budget or null"),
        ("pgc-links", (FEATURES, NO_LABELS, ASKED), (LOCAL, NO_LABELS, {**ASKED, "epsilon_y": 1.0}), "asks for no label"),
        ("lapgraph", (EDGE, {}, PAIRS), (EDGE, {}, {**PAIRS, "num_layers": 9}), "num_layers: expected at most 8"),
        ("lapgraph", (EDGE, {}, PAIRS, COUNTED), (EDGE, {}, {**PAIRS, "count_share": 0.26}, COUNTED), "count_share = 0.26"),
        ("edgerand", (EDGE, {}, PAIRS, OUTCOMES[:1]), (EDGE, {}, PAIRS, OUTCOMES[1:]), "response over 2 outcomes"),
    ],
)  # fmt: skip
def test_what_the_data_demand_is_found(method, right, wrong, fragment):
    def faults(unit, facts=(), settings=(), releases=()):
        stated = certificate(unit, facts, settings, claim={"epsilon": 1.0, "delta": 0})
        return list(rules_of(method).faults({**stated, "releases": [*releases]}))

    assert faults(*right) == []
    (fault,) = faults(*wrong)
    assert fragment in fault


def test_a_rule_of_another_name_is_refused():
    with pytest.raises(TypeError, match=r"no rule is called \['hop'\]"):
        Rules(hop=lambda v: v.num_hops)


@pytest.mark.parametrize(("shape", "places"), [([1, 12, 12], 4), ([1, 17, 12], 6), ([1, 16, 21], 12)])
def test_a_network_on_images_has_a_place_for_every_five_pixels(shape, places):
    settings = {"network": "cnn", "width": 16, "learn_filters": True}
    head = {"network.head.0.weight": [16, 8 * places], "network.head.2.weight": [3, 16], "network.head.2.bias": [3]}
    filters = {"network.edges.weight": [8, 1, 5, 5], "network.places.weight": [8, 8, 9, 9]}
    for learn, expected in ((True, {**filters, **head}), (False, head)):
        stated = certificate(CELLS, {"image_shape": shape}, {**settings, "learn_filters": learn})
        assert rules_of("class-dp").networks(stated) == expected
    assert rules_of("class-dp").networks(certificate(NONE, {"image_shape": shape}, settings)) == {**filters, **head}


def test_a_convolutional_head_reads_small_pictures_at_every_second_place():
    facts = {"image_shape": [3, 28, 12]}
    weights = {"first": [16, 243, 3, 3], "second": [32, 16, 3, 3], "hidden": [32, 32 * 4 * 2], "out": [3, 32]}
    found = rules_of("scattering").networks(certificate(NODE, facts, {"head": "cnn"}))
    for name, size in weights.items():
        assert (found.pop(f"head.{name}.weight"), found.pop(f"head.{name}.bias")) == (size, size[:1])
    assert not found
    assert rules_of("scattering").networks(certificate(NODE, facts)) == {"head.weight": [3, 243 * 21], "head.bias": [3]}


def test_other_networks_on_pixels_are_linear_layers():
    mlp, softmax = (
        rules_of("cnn").networks(certificate(CELLS, settings={"network": name, "width": 16, "learn_filters": False}))
        for name in ("mlp", "softmax")
    )
    assert mlp == {
        "network.0.weight": [16, 2],
        "network.0.bias": [16],
        "network.2.weight": [3, 16],
        "network.2.bias": [3],
    }
    assert softmax == {"network.weight": [3, 2], "network.bias": [3]}


def weights_of(method, unit, settings):
    """The shapes of the weights of linear layers, by module."""
    found = rules_of(method).networks(certificate(unit, settings=settings))
    return {
        name.removesuffix(".weight"): shape
        for name, shape in found.items()
        if name.endswith(".weight") and len(shape) == 2
    }


@pytest.mark.parametrize(
    ("backbone", "first", "second", "others"),
    [
        ("gcn", {"first": [4, 2]}, {"second": [3, 4]}, set()),
        ("mlp", {"first.own": [4, 2]}, {"second.own": [3, 4]}, set()),
        ("sage", {"first.own": [4, 2], "first.neighbor": [4, 2]}, {"second.own": [3, 4], "second.neighbor": [3, 4]}, set()),
        ("gat", {"first": [16, 2]}, {"second": [3, 16]}, {"network.first.to_source", "network.second.to_target"}),
    ],
)  # fmt: skip
def test_networks_on_reports_have_the_layers_of_their_backbone(backbone, first, second, others):
    settings = {"backbone": backbone, "hidden": 4, "features_in": "reports"}
    found = weights_of("lpgnn", LOCAL, settings)
    assert {name.removeprefix("network."): shape for name, shape in found.items()} == {**first, **second}
    names = rules_of("lpgnn").networks(certificate(LOCAL, settings=settings))
    assert others <= names.keys()
    assert names["selection"] == [4]
    assert "feature_seed" not in names
    made_up = certificate(LOCAL, {"num_features": 0}, {**settings, "features_in": "random"})
    assert rules_of("lpgnn").networks(made_up)["feature_seed"] == [1]
