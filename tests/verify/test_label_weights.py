"""Weights of label messages that training cannot give: trees in which a row goes in circles, weights that are no candidate."""

import numpy as np
import pytest
from verify_written import Held

from sfumato.verify._baselines import tree_faults
from sfumato.verify._labels import LabelMessages


def trees(**changed):
    """One tree: node 0 asks, nodes 1 and 2 are leaves."""
    own = np.tile(np.arange(61.0), (100, 1, 1))
    parts = {"left": own.copy(), "right": own.copy(), "feature": np.zeros(own.shape)}
    parts["left"][0, 0, 0], parts["right"][0, 0, 0] = 1, 2
    for name, (node, value) in changed.items():
        parts[name][0, 0, node] = value
    return {f"prior.trees.{name}": Held(part, np.float32) for name, part in parts.items()}


def test_trees_that_lead_to_leaves_pass():
    assert not list(tree_faults(trees(), "prior."))
    assert not list(tree_faults({"prior.linear.weight": Held([0], np.float32)}, "prior."))


@pytest.mark.parametrize(
    "changed",
    [{"left": (1, 0)}, {"right": (0, 61)}, {"left": (0, 1.5)}, {"left": (0, np.nan)}, {"left": (0, 0)}],
    ids=["a circle", "beyond the end", "between nodes", "no number", "half a leaf"],
)
def test_trees_without_a_way_to_a_leaf_are_named(changed):
    assert "neither a leaf nor before its children" in "".join(tree_faults(trees(**changed), "prior."))


@pytest.mark.parametrize("feature", [-1.0, 0.5, np.nan])
def test_columns_that_are_none_are_named(feature):
    assert "no columns" in "".join(tree_faults(trees(feature=(0, feature)), "prior."))


@pytest.mark.parametrize(("weight", "valid"), [(0.25, True), (0.0, True), (0.3, False), (1e30, False), (-1.0, False)])
def test_a_weight_is_one_of_the_candidates(weight, valid):
    assert (not list(LabelMessages().weight_faults({}, {"later.weight": Held([weight], np.float32)}))) == valid


@pytest.mark.parametrize(
    ("shares", "valid"), [([0.9, 0.1], True), ([1.0, 0.0], False), ([0.5, 0.4], False), ([np.nan, 0.5], False)]
)
def test_shares_of_classes_are_shares(shares, valid):
    assert (not list(LabelMessages().weight_faults({}, {"class.shares": Held(shares, np.float32)}))) == valid
