"""What the rules of single methods and of facts refuse, each beside a near miss that they let pass."""

import pytest

from sfumato.verify._facts import fact_faults
from sfumato.verify._methods import rules_of

EDGE = {"name": "edge", "relation": "add-remove", "directed": False}
NODE = {"name": "node", "relation": "remove", "max_out_degree": 5, "arcs": "owned"}
LINK = {"name": "link", "relation": "replace"}
LOCAL = {"name": "local", "relation": "replace", "features": True, "labels": True}
FACTS = {"directed": False, "num_nodes": 9, "num_train": 7, "num_features": 2, "num_classes": 3, "max_degree": 5,
         "mean_degree": 2.0}  # fmt: skip


def certificate(unit=EDGE, facts=(), settings=(), **others):
    return {"unit": unit, "method": "m", "public_facts": {**FACTS, **dict(facts)}, "settings": dict(settings),
            "assumed_public": [], "releases": [], "composition": {"builds_on": []}, "format": 3, **others}  # fmt: skip


@pytest.mark.parametrize(
    ("right", "wrong", "fragment"),
    [
        (certificate(), certificate(facts={"directed": True}), "unit.directed: expected true"),
        (certificate(facts={"num_train": 9}), certificate(facts={"num_train": 10}), "num_train: 10 exceeds 9"),
        (certificate(LINK), certificate(LINK, {"num_arcs": 3}), "num_arcs: is protected under unit link"),
        (
            certificate(LOCAL, {"num_train": 5, "num_arcs": 0}),
            certificate(LOCAL, {"num_train": 5}),
            "num_arcs: is missing, though arcs are public under unit local",
        ),
        (
            certificate(NODE, assumed_public=["categories of column a", "categories of column b"]),
            certificate(NODE, assumed_public=[f"categories of column {name}" for name in "abc"]),
            "names 3 columns, but public_facts.num_features is 2",
        ),
        (certificate(NODE, assumed_public=["classes"]), certificate(assumed_public=["classes"]), "is not protected"),
        (certificate(NODE), certificate(NODE, assumed_public=["target range"]), "is no fact that is read off data"),
        (
            certificate(NODE, assumed_public=["classes"]),
            certificate(NODE, {"num_classes": 0}, assumed_public=["classes"]),
            "contradicts public_facts.num_classes, which is 0",
        ),
        (
            certificate(NODE, assumed_public=["degrees"], facts={"degree_bounds": True}),
            certificate(NODE, assumed_public=["degrees", "degrees"], facts={"degree_bounds": True}),
            "assumed_public[1]: degrees appears twice",
        ),
        (
            certificate(NODE, assumed_public=["roles"]),
            certificate(assumed_public=["roles"]),
            "is not protected under unit edge",
        ),
        (
            certificate(NODE, {"num_train": 7}),
            certificate(NODE, {"num_train": 6}),
            "num_train: expected 7, as a draw",
        ),
        (
            certificate({**LOCAL, "labels": False}, {"num_train": 6, "num_arcs": 8}),
            certificate(LOCAL, {"num_train": 6}),
            "num_train: expected 5,",
        ),
        (
            certificate(LOCAL, {"num_train": 5, "num_arcs": 8}),
            certificate(LOCAL, {"num_train": 7}),
            "num_train: expected 5,",
        ),
        (certificate(NODE, {"num_train": 6}, format=2), certificate(NODE, {"num_train": 6}), "num_train: expected 7"),
        (certificate(facts={"num_train": 6}), certificate(NODE, {"num_train": 0}), "num_train: expected 7"),
        (
            certificate(NODE, {"num_train": 6}, assumed_public=["roles"]),
            certificate(NODE, {"num_train": 6}, assumed_public=["classes"]),
            "assumed_public does not say that roles were given",
        ),
        (
            certificate(NODE, {"num_train": 6, "split": [0.66, 0.2, 0.14]}),
            certificate(NODE, {"num_train": 7, "split": [0.66, 0.2, 0.14]}),
            "num_train: expected 6, as a draw",
        ),
        (
            certificate(NODE, {"num_train": 9, "split": [1.0, 0.0, 0.0]}),
            certificate(NODE, {"num_train": 9, "split": [1.0, 0.1, 0.0]}),
            "split: expected three shares of at most 1 together",
        ),
        (
            certificate(NODE, {"num_train": 5, "split": [0.5, 0.5, 0.0]}),
            certificate(NODE, {"num_train": 5, "split": [0.5, 0.5]}),
            "split: expected three shares",
        ),
        (
            certificate(NODE, {"num_train": 5, "split": [0.5, 0.5, 0.0]}),
            certificate(EDGE, {"num_train": 5, "split": [0.5, 0.5, 0.0]}),
            "split: expected none",
        ),
        (
            certificate(NODE, {"num_train": 5}, assumed_public=["roles"]),
            certificate(NODE, {"num_train": 5, "split": [0.5, 0.5, 0.0]}, assumed_public=["roles"]),
            "split: expected none",
        ),
        (
            certificate(NODE, {"num_train": 0}, composition={"builds_on": [{}]}),
            certificate(NODE, {"num_train": 4}, composition={"builds_on": [{}]}),
            "num_train: expected 7",
        ),
    ],
)
def test_facts_that_contradict_are_found(right, wrong, fragment):
    assert not list(fact_faults(right))
    assert any(fragment in fault for fault in fact_faults(wrong))


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
