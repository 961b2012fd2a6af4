"""What a fitted model decides, on graphs in memory: frames with ids and labels, sets, thresholds, the top, and refusals."""

import json

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.errors import InputError, NotFittedError
from sfumato.graph._rare_outcomes import outcomes
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.method._answers import predictions_of
from sfumato.method._choosing import covered_between
from sfumato.method._deciding import decide
from sfumato.method._decisions import Decision
from sfumato.method.predictions import Predictions, joined

GRAPH = outcomes(600, 1, positive=0.3, mean_degree=12, unlabeled=0.4)
EDGE, NODE = sf.EdgeLevel(directed=False), sf.NodeLevel()


def fit(graph, unit, method=None, delta=0.0):
    method = method or sf.LabelMessages(num_hops=1)
    return method.calibrate(sf.Budget(4.0, delta), unit, graph.public_facts(unit)).fit(graph)


@pytest.fixture(scope="module")
def fitted():
    return fit(GRAPH, EDGE)


@pytest.fixture(scope="module")
def protected():
    return fit(GRAPH, NODE, sf.LabelMessages(epochs=1), 1e-5)


def test_a_frame_has_ids_and_labels(fitted):
    named = GRAPH.changed(node_ids=np.array([f"c{row}" for row in range(600)]))
    own = fit(named, EDGE)
    found = own.predictions(named)
    frame = found.frame()
    assert list(frame) == ["node", "predicted", "p(no)", "p(yes)", "role", "known_label", "source"]
    assert frame["node"].tolist() == named.node_ids.tolist()
    assert own.classes_.tolist() == ["no", "yes"]
    model = frame[frame["source"] == "model"]
    assert (model["predicted"] == own.classes_[own.predict(named)[model.index]]).all()
    assert frame[["p(no)", "p(yes)"]].to_numpy() == pytest.approx(own.predict_proba(named))
    counts = frame["role"].value_counts().to_dict()
    assert counts["none"] == (named.y < 0).sum()
    assert set(counts) == {"train", "val", "test", "none"}
    moved = sf.graph.Graph.from_edges(
        *np.array([[1, 0]]).T, 600, directed=False, x=named.x[::-1], y=named.y[::-1], classes=named.classes,
        feature_names=named.feature_names, node_ids=named.node_ids[::-1],
    )  # fmt: skip
    pd.testing.assert_frame_equal(own.predictions(moved).frame()[::-1].reset_index(drop=True), frame)


def test_a_plan_has_no_predictions():
    plan = sf.LabelMessages().calibrate(sf.Budget(1.0, 0), EDGE, GRAPH.public_facts(EDGE))
    with pytest.raises(NotFittedError, match="for predictions, got a plan"):
        plan.predictions(GRAPH)


def test_roles_of_another_split_are_not_told_and_calibrate_nothing(fitted):
    other = GRAPH.with_split(seed=5, labeled=True)
    assert other.train_mask.sum() == fitted.plan.public.num_train
    assert set(fitted.predictions(other).roles) == {""}
    with pytest.raises(InputError, match="got 0 whose roles are those of training"):
        fitted.predictions(other, coverage=0.9)


def test_sets_hold_known_labels_of_training_nodes_and_calibrate_on_validation_nodes(fitted):
    found = fitted.predictions(GRAPH, coverage=0.8)
    roles, known = np.array(found.roles), np.array(found.known)
    facts = found.facts["sets"]
    assert facts["validation_nodes"] == (roles == "val").sum() < 60
    assert facts["one_class"] + facts["several"] + facts["none"] == (roles != "train").sum()
    for row in np.flatnonzero(roles == "train"):
        assert found.set_of(row) == (known[row],)
    held = [known[row] in found.set_of(row) for row in np.flatnonzero(roles == "val")]
    assert 0.8 <= np.mean(held) <= 0.8 + 2 / len(held)
    assert found.frame()["set"].isin(["no", "yes", "no; yes", ""]).all()
    assert "exchangeable with the" in found.notes[0]
    assert "drawn at random with them" in found.notes[0]
    assert fitted.predictions(GRAPH).facts == {}
    assert fitted.predictions(GRAPH).set_of(0) == ()


def test_one_class_in_all_sets_is_said(fitted):
    found = fitted.predictions(GRAPH, coverage=0.97, each_class=True)
    assert "too few validation nodes to go by and are in every set: no; yes." in found.notes[-1]
    with pytest.raises(
        InputError, match=r"Expected 199 validation nodes with a known label, or more, for a coverage of 0\.995"
    ):
        fitted.predictions(GRAPH, coverage=0.995)


def answered(**changes):
    """Ten nodes: two that trained, two of validation, and six whose labels are not known, with ties."""
    chances = np.array([0.9, 0.1, 0.8, 0.3, 0.5, 0.2, 0.5, 0.5, 0.1, 0.6], np.float32)
    fields = {
        "nodes": tuple("abcdefghij"),
        "classes": ("no", "yes"),
        "probabilities": np.stack([1 - chances, chances], axis=1),
        "roles": ("train",) * 2 + ("val",) * 2 + ("none",) * 6,
        "known": ("yes", "no", "yes", "no", *[""] * 6),
        "returned": np.arange(10) < 2,
    }
    return Predictions(**{**fields, **changes})


def test_the_top_ranks_nodes_without_a_known_label_and_a_public_order_of_ids_breaks_ties():
    found = decide(answered(), Decision(positive="yes", top_count=3))
    assert found.ranks[:4].tolist() == [0] * 4
    assert sorted(found.ranks[4:].tolist()) == [1, 2, 3, 4, 5, 6]
    assert found.ranks[9] == 1
    facts = found.facts["top"]
    assert (facts["ranked"], facts["chosen"], facts["least"], facts["tied"]) == (6, 3, 0.5, 3)
    assert (facts["validation_chosen"], facts["validation_right"], facts["validation_positive"]) == (1, 1, 1)
    assert "3 nodes have just this probability; of these a public order of ids decides." in found.notes[-1]
    turned = answered(
        nodes=tuple("abcd") + tuple("jihgfe"),
        probabilities=answered().probabilities[[0, 1, 2, 3, *range(9, 3, -1)]],
    )
    again = decide(turned, Decision(positive="yes", top_count=3))
    names = lambda one: {node for node, taken in zip(one.nodes, one.chosen, strict=True) if taken}  # noqa: E731
    assert names(again) == names(found)
    frame = found.frame()
    assert frame["rank"].isna().sum() == 4
    assert frame.loc[frame["rank"] == 1, "node"].tolist() == ["j"]


@pytest.mark.parametrize(("asked", "chosen"), [
    ({"top_share": 0.5}, 3), ({"top_share": 0.01}, 1), ({"top_count": 99}, 6),
])  # fmt: skip
def test_a_share_is_rounded_down_to_one_node_at_least(asked, chosen):
    assert decide(answered(), Decision(positive="yes", **asked)).chosen.sum() == chosen


def test_more_than_there_are_and_a_class_of_no_validation_node_are_said():
    found = decide(answered(known=("no",) * 4 + ("",) * 6), Decision(positive="yes", top_count=1000))
    (note,) = found.notes
    assert "Chosen: 6 of the 6 nodes without a known label (1,000 were asked for): those" in note
    assert note.endswith("No validation node is of class 'yes', so that nothing says whom this finds.")
    assert "asked for" not in decide(answered(), Decision(positive="yes", top_count=6)).notes[0]


def test_names_that_hold_what_parts_them_are_quoted_in_a_cell():
    assert joined(["a", "no, thanks", 'b; "c"']) == 'a; no, thanks; "b; ""c"""'
    sets = np.ones((10, 2), np.bool_)
    assert set(answered(classes=("a; b", "c"), sets=sets).columns()["set"]) == {'"a; b"; c'}
    few = decide(answered(classes=("no, thanks", "yes; now"), known=("yes; now", "no, thanks") * 2 + ("",) * 6),
                 Decision(coverage=0.5, each_class=True))  # fmt: skip
    assert not any("in every set" in note for note in few.notes)
    few = decide(answered(classes=("no, thanks", "yes; now"), known=("yes; now", "no, thanks", *("yes; now",) * 2) + ("",) * 6),
                 Decision(coverage=0.5, each_class=True))  # fmt: skip
    assert few.notes[-1].endswith("are in every set: no, thanks.")


def test_where_all_labels_are_known_all_that_did_not_train_are_ranked():
    known = ("yes", "no") * 5
    found = decide(answered(known=known), Decision(positive="yes", top_count=2))
    assert found.facts["top"]["ranked"] == 8
    assert "the 8 nodes that had no part in training" in found.notes[0]


def test_a_threshold_chooses_known_labels_and_probabilities_from_it_on():
    found = decide(answered(), Decision(positive="yes", threshold=0.5))
    assert np.flatnonzero(found.chosen).tolist() == [0, 2, 4, 6, 7, 9]
    assert "finds 1 of 1 of class 'yes', in 1 that are chosen." in found.notes[0]
    assert decide(answered(), Decision(positive="no", threshold=0.5)).chosen[1]


def test_a_recall_has_a_range_and_says_that_its_count_is_of_the_nodes_that_chose():
    draw = np.random.default_rng(0)
    chances = draw.random(100).astype(np.float32)
    many = answered(
        nodes=tuple(range(100)), probabilities=np.stack([1 - chances, chances], axis=1), roles=("val",) * 60 + ("none",) * 40,
        known=("yes", "no") * 30 + ("",) * 40, returned=np.zeros(100, np.bool_),
    )  # fmt: skip
    found = decide(many, Decision(positive="yes", threshold="recall=0.8"))
    facts = found.facts["threshold"]
    assert (facts["validation_right"], facts["validation_positive"]) == (25, 30)
    assert (facts["low"], facts["high"]) == covered_between(0.8, 30)
    assert "this finds 25 of 30 of class 'yes'" in found.notes[0]
    assert "These 30 also set the threshold, so that this number says nothing more of new nodes" in found.notes[0]
    assert "and between 65.3 and 92.3 % in 19 of 20 draws." in found.notes[0]


@pytest.mark.parametrize(("asked", "words"), [
    ({"coverage": 1.0}, "coverage to be a finite number > 0 and < 1, got 1.0. Such as 0.9."),
    ({"each_class": True}, "each_class to stand beside a coverage"),
    ({"threshold": 0.5}, "Expected positive, the class to look for, together with threshold, .* got threshold alone"),
    ({"positive": "yes"}, "got positive alone. Give both."),
    ({"positive": "yes", "threshold": 0.1, "top_count": 3}, "got threshold and top_count. Drop one."),
    ({"positive": "yes", "threshold": "recall"}, "a number from 0 to 1, recall=R such as recall=0.8, or cost=FP:FN"),
    ({"positive": "yes", "threshold": "recall=1"}, "recall to be a finite number > 0 and < 1"),
    ({"positive": "yes", "threshold": "1.5"}, "threshold to be a finite number >= 0 and <= 1"),
    ({"positive": "yes", "threshold": "cost=0:1"}, "cost to be a finite number > 0"),
    ({"positive": "yes", "top_share": 0.0}, "top_share to be a finite number > 0 and <= 1"),
    ({"positive": "yes", "top_count": 0}, "top_count to be an integer >= 1"),
    ({"class_weight": "even"}, "class_weight to be one of balanced, got 'even'"),
    ({"positive": "maybe", "threshold": 0.1}, "positive to be one of no, yes, got 'maybe'"),
])  # fmt: skip
def test_what_cannot_be_decided_is_refused_in_words(fitted, asked, words):
    with pytest.raises(InputError, match=words):
        fitted.predictions(GRAPH, **asked)


def test_where_labels_are_protected_only_what_reads_none_is_decided(protected):
    for asked in ({"coverage": 0.9}, {"positive": "yes", "threshold": "recall=0.8"}, {"class_weight": "balanced"}):
        with pytest.raises(InputError, match="which unit node protects, and no release of this run pays for that"):
            protected.predictions(GRAPH, **asked)
    with pytest.raises(InputError, match="who is among the first depends on the features of all others"):
        protected.predictions(GRAPH, positive="yes", top_share=0.1)
    found = protected.predictions(GRAPH, positive="yes", threshold="cost=1:4")
    assert found.facts == {"threshold": {"least": 0.2}}  # how many are chosen follows from protected features
    assert found.notes == ("Chosen: the nodes whose probability of 'yes' is 0.2 or more.",)
    assert (found.chosen == (found.probabilities[:, 1] >= np.float32(0.2))).all()
    assert protected.predictions(GRAPH, positive="yes", threshold=0.3).chosen is not None


def test_labels_of_validation_nodes_decide_nothing_where_they_are_protected(protected):
    """The answers of a protected run are the same whatever the labels are."""
    turned = GRAPH.changed(y=np.where(GRAPH.y < 0, -1, 1 - GRAPH.y))
    one, other = (protected.predictions(graph, positive="yes", threshold="cost=1:4") for graph in (GRAPH, turned))
    assert (one.chosen == other.chosen).all()
    assert one.notes == other.notes


def test_balanced_classes_change_what_is_told_and_no_probability(fitted):
    plain, found = fitted.predictions(GRAPH), fitted.predictions(GRAPH, class_weight="balanced")
    assert (found.probabilities == plain.probabilities).all()
    rates = found.probabilities / (np.bincount(GRAPH.y[np.array(found.roles) == "train"], minlength=2) + 1)
    for row in range(600):
        known = found.roles[row] == "train"
        assert found.answer(row)[0] == (found.known[row] if known else found.classes[rates[row].argmax()])
    said = [sum(one.answer(row)[0] == "yes" for row in range(600)) for one in (plain, found)]
    assert said[0] < said[1]
    recalls = [
        np.mean(
            [
                found.answer(row)[0] == name
                for row in range(600)
                if (found.roles[row], found.known[row]) == ("val", name)
            ]
        )
        for name in found.classes
    ]
    assert found.facts["class_weight"]["balanced_accuracy"] == pytest.approx(np.mean(recalls))
    other = GRAPH.with_split(seed=5, labeled=True)
    with pytest.raises(InputError, match="got none whose roles are those of training"):
        fitted.predictions(other, class_weight="balanced")


def test_other_nodes_and_other_targets_are_not_calibrated(fitted):
    table = np.full((600, 2), 0.5, np.float32)
    with pytest.raises(
        InputError, match="its validation nodes say nothing sure of nodes that were not drawn with them"
    ):
        predictions_of(fitted, GRAPH, table, Decision(coverage=0.9))
    with pytest.raises(InputError, match="one class for each node, for sets, thresholds, the top and balanced classes"):
        Decision(coverage=0.9).check(EDGE, "multilabel", ("a", "b"))


def test_a_run_that_was_saved_without_roles_compares_their_number(fitted, tmp_path):
    graph = stochastic_block_model(60, 2, mean_degree=8, seed=3)
    run = fit(graph, EDGE)
    loaded = sf.load(run.save(tmp_path / "run"))
    assert set(loaded.predictions(graph).roles) == {"train", "val", "test"}
    path = tmp_path / "run" / "identity.json"
    old = json.loads(path.read_text())
    assert old.pop("roles")
    path.write_text(json.dumps(old))
    older = sf.load(tmp_path / "run")
    assert set(older.predictions(graph.with_split(seed=9)).roles) == {"train", "val", "test"}
    assert set(older.predictions(graph.with_split((0.5, 0.25, 0.25))).roles) == {""}
