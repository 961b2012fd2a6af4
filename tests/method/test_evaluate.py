"""A fitted model evaluates itself as the command does, outside the guarantee."""

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.errors import DataError, InputError, NotFittedError
from sfumato.graph._synthetic import campus
from sfumato.scoring._scores import SCORES, score, without_information

UNIT = sf.EdgeLevel(directed=False)


@pytest.fixture(scope="module")
def graph():
    return campus(200).with_split(seed=0, labeled=True)


@pytest.fixture(scope="module")
def fitted(graph):
    return sf.LabelMessages().calibrate(sf.Budget(8.0, 1e-6), UNIT, graph.public_facts(UNIT)).fit(graph)


def test_scores_stand_beside_one_answer_for_all(graph, fitted):
    found = fitted.evaluate(graph)
    assert found["test_scores"] == score(fitted, graph)
    assert tuple(found["test_scores"]) == SCORES["class"]
    assert found["without_information"] == without_information(graph)
    assert (found["method"], found["target"], found["evaluation_private"]) == ("label-messages", "class", False)
    assert found["detail"]["nodes"] == int((graph.test_mask & (graph.y >= 0)).sum())
    assert found["detail"]["groups"] is None
    assert found["control_scores"] == {}


def test_a_graph_without_roles_is_split_as_fit_does():
    bare = campus(200)
    fitted = sf.LabelMessages().calibrate(sf.Budget(8.0, 1e-6), UNIT, bare.public_facts(UNIT)).fit(bare)
    split = bare.with_split(labeled=True)
    assert fitted.evaluate(bare)["test_scores"] == fitted.evaluate(split)["test_scores"] == score(fitted, split)


def test_a_floor_that_is_no_model_and_a_graph_without_labels_are_refused_in_words(graph, fitted):
    with pytest.raises(InputError, match=r"Expected floor to be of class Answers, got str\. Pass a fitted model"):
        fitted.evaluate(graph, floor="x")
    with pytest.raises(DataError, match="to have a label to score by, got none"):
        fitted.evaluate(graph.changed(y=None))


def test_a_floor_stands_beside_the_run(graph, fitted):
    floor = sf.GraphFree().calibrate(sf.Budget(8.0, 1e-6), UNIT, graph.public_facts(UNIT)).fit(graph)
    found = fitted.evaluate(graph, floor=floor)
    assert found["control_scores"] == {"floor": score(floor, graph)}
    assert set(found["detail"]["classes"][0]["scores"]) == {"run", "floor"}


@pytest.mark.parametrize(
    ("values", "column", "names"),
    [
        (pd.Series(["b", None] * 100, name="team"), "team", ["(missing)", "b"]),
        (np.arange(200) % 2, "group", ["0", "1"]),
        ([0.5, float("nan")] * 100, "group", ["(missing)", "0.5"]),
        (
            pd.Series(np.arange(200), name="age"),
            "age",
            ["0 to 49.75", "49.75 to 99.5", "99.5 to 149.25", "149.25 to 199"],
        ),
    ],
)
def test_groups_are_one_value_for_each_node(graph, fitted, values, column, names):
    groups = fitted.evaluate(graph, by=values)["detail"]["groups"]
    assert groups["column"] == column
    assert [row["name"] for row in groups["rows"]] == names
    tested = graph.test_mask & (graph.y >= 0)
    assert sum(row["nodes"] for row in groups["rows"]) == int(tested.sum())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a"] * 3, "one value for each of 200 nodes, got 3"),
        ("dorm", "one value for each node"),
        ([["a"]] * 200, "one value"),
    ],
)
def test_groups_that_do_not_fit_are_refused(graph, fitted, values, message):
    with pytest.raises(InputError, match=message):
        fitted.evaluate(graph, by=values)


def test_what_cannot_be_scored_is_refused(graph, fitted):
    untested = graph.with_roles(np.where(graph.test_mask, 3, graph.roles).astype(np.uint8))
    alone = sf.GraphFree().calibrate(None, sf.NoPrivacy(), untested.public_facts(sf.NoPrivacy())).fit(untested)
    with pytest.raises(DataError, match="a labeled test node"):
        alone.evaluate(untested)
    with pytest.raises(InputError, match="the fitted graph"):
        fitted.evaluate(campus(100).with_split())
    with pytest.raises(NotFittedError, match="for evaluate, got a plan"):
        fitted.plan.evaluate(graph)
    with pytest.raises(InputError, match="graph to be of class Graph, got str"):
        fitted.evaluate("campus")


def test_test_nodes_that_may_have_been_trained_on_are_refused(graph, fitted):
    for other in (graph.with_split(seed=1, labeled=True), graph.with_split((0.7, 0.1, 0.2), labeled=True)):
        with pytest.raises(InputError, match="its test nodes may have been trained on"):
            fitted.evaluate(other)
    named = sf.PrivateGraphClassifier(campus(200), "linear").fit(np.arange(150))
    with pytest.raises(InputError, match="may have been trained on"):
        named.fitted_.evaluate(campus(200))
