"""Scores by class, degree and declared group; calibration and lift; and warnings that are corrected for their number."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.errors import DataError, InputError
from sfumato.evaluation._source import Source, groups_of
from sfumato.graph import Graph
from sfumato.graph._targets import CLASS
from sfumato.scoring._answers import Answers, answers_of
from sfumato.scoring._detail import RUN, detail
from sfumato.scoring._groups import Groups
from sfumato.scoring._scores import scores_of, without_information


def ring(classes, *, directed=False, x=None, feature_names=()):
    """A ring of nodes whose classes are given; all are test nodes."""
    n = len(classes)
    names = tuple("abcd"[: max(classes) + 1])
    return Graph.from_edges(
        np.arange(n), (np.arange(n) + 1) % n, n, directed=directed, y=np.array(classes), classes=names,
        roles=np.full(n, 2, np.uint8), x=x, feature_names=feature_names,
    )  # fmt: skip


def says(graph, chances):
    """Answers with the probability of the last of two classes."""
    table = np.stack([1 - np.asarray(chances), np.asarray(chances)], axis=1)
    return Answers(CLASS, np.arange(graph.num_nodes), graph.y, table.argmax(axis=1), table)


RARE = ring([0] * 16 + [1] * 4)
SURE = says(RARE, [0.1] * 15 + [0.8] + [0.9] * 3 + [0.2])
FLAT = says(RARE, [0.2] * 20)


def test_scores_by_class_confusion_and_lift():
    found = detail(RARE, {RUN: [SURE], "floor": [FLAT]})
    assert found["confusion"] == [[15, 1], [1, 3]]
    often, rare = found["classes"]
    assert (rare["name"], rare["nodes"], rare["share"]) == ("b", 4, 0.2)
    assert rare["scores"][RUN]["recall"] == rare["scores"][RUN]["precision"] == rare["scores"][RUN]["f1"] == 0.75
    assert rare["scores"]["floor"]["recall"] == 0
    assert rare["scores"]["floor"]["precision"] is None
    assert rare["scores"]["floor"]["roc_auc"] == often["scores"]["floor"]["roc_auc"] == 0.5
    lift = found["lift"]
    assert (lift["class"], lift["share"], lift["nodes"]) == ("b", 0.2, [1, 1, 1, 2, 4, 10])
    assert lift[RUN][3] == {"precision": 1.0, "recall": 0.5, "lift": 5.0}
    assert lift["floor"][5] == {"precision": 0.2, "recall": 0.5, "lift": 1.0}  # equal probabilities are drawn from


def test_parts_make_up_the_whole():
    found = detail(RARE, {RUN: [SURE]}, Groups("side", ("left", "right"), np.arange(20) % 2))
    whole = scores_of(SURE, RARE)
    for rows in (found["degrees"], found["groups"]["rows"]):
        weights = [row["nodes"] for row in rows]
        assert sum(weights) == 20
        for score in ("accuracy", "log_loss"):
            parts = [row["scores"][RUN][score] for row in rows]
            assert np.average(parts, weights=weights) == pytest.approx(whole[score], abs=1e-5)
    groups = found["reliability"][RUN]
    assert sum(one["nodes"] for one in groups) == 20
    assert np.average([one["true"] for one in groups], weights=[one["nodes"] for one in groups]) == pytest.approx(0.2)
    assert found["reliability"]["of"] == "b"
    assert [row["name"] for row in found["degrees"]] == ["2"]


@pytest.mark.parametrize(("directed", "names"), [(False, ["1", "3 to 4"]), (True, ["1", "3 to 4"])])
def test_degrees_count_both_directions(directed, names):
    arcs, roles = ([0, 0, 0], [1, 2, 3]), np.full(4, 2, np.uint8)
    graph = Graph.from_edges(*arcs, 4, directed=directed, y=np.array([0, 1, 1, -1]), classes=("a", "b"), roles=roles)
    table = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]])
    found = detail(graph, {RUN: [Answers(CLASS, np.arange(3), graph.y[:3], table.argmax(axis=1), table)]})
    assert [(row["name"], row["nodes"], row["scores"][RUN]["accuracy"]) for row in found["degrees"]] == [
        (names[0], 2, 0.5),
        (names[1], 1, 1.0),
    ]


def test_three_classes_are_held_against_the_told_class():
    graph = ring([0, 1, 2, 2])
    table = np.array([[0.6, 0.3, 0.1], [0.5, 0.3, 0.2], [0.1, 0.1, 0.8], [0.2, 0.1, 0.7]])
    found = detail(graph, {RUN: [Answers(CLASS, np.arange(4), graph.y, table.argmax(axis=1), table)]})
    assert found["reliability"]["of"] is None
    assert found["reliability"][RUN][0] == {"nodes": 1, "told": 0.5, "true": 0.0}


def test_a_constant_answer_is_reliable_in_every_order_of_the_nodes():
    truth = np.repeat([0, 1], [60, 40])  # in order: the first groups would all be of one class
    table = np.broadcast_to(np.array([0.6, 0.4]), (100, 2))
    answers = Answers(CLASS, np.arange(100), truth, table.argmax(axis=1), table)
    groups = detail(ring(truth), {RUN: [answers]})["reliability"][RUN]
    assert groups == [{"nodes": 10, "told": 0.4, "true": 0.4}] * 10


def test_a_class_and_a_group_below_the_floor_are_warned_of():
    graph = ring([0] * 60 + [1] * 40 + [2] * 40)
    truth = np.eye(3)[graph.y] * 0.7 + 0.1
    worse = truth.copy()
    worse[100:] = [0.45, 0.1, 0.45]  # the third class is taken for the first now
    found = {
        name: [Answers(CLASS, np.arange(140), graph.y, rows.argmax(axis=1), rows)]
        for name, rows in ((RUN, worse), ("floor", truth))
    }
    by = Groups("end", ("far", "near"), (np.arange(140) >= 90).astype(int))
    warned = detail(graph, found, by)["warnings"]
    assert [one.partition(" is below")[0] for one in warned] == ["Class 'a'", "Class 'c'", "Group end = near"]
    assert "(one against the rest)" in warned[0]
    assert "over 50 test nodes" in warned[2]
    assert detail(graph, {RUN: found["floor"], "floor": found[RUN]}, by)["warnings"] == []
    assert detail(graph, {RUN: found[RUN]}, by)["warnings"] == []


def test_groups_without_enough_of_a_class_are_not_warned_of():
    """The run has the true probabilities and the floor the mean rate: a group that by chance nobody leaves is not below it."""
    coins, warned = np.random.default_rng(4), 0
    for _ in range(20):
        region = coins.integers(0, 10, 600)
        chances = (0.03 * np.exp(coins.normal(size=10) * 0.7 - 0.245))[region] * np.exp(coins.normal(size=600) * 0.3)
        leaves = (coins.random(600) < chances).astype(int)
        leaves[0] = 1
        graph = ring(leaves.tolist())
        floor = says(graph, 0.03 * np.exp(coins.normal(size=600) * 0.05))
        by = Groups("region", tuple(map(str, range(10))), region)
        warned += bool(detail(graph, {RUN: [says(graph, chances)], "floor": [floor]}, by)["warnings"])
    assert warned <= 1


def test_of_two_classes_the_rarer_is_warned_of():
    graph, worse = ring([0] * 60 + [1] * 20), np.where(np.arange(80) < 60, 0.3, 0.4)
    better = np.where(np.arange(80) < 60, 0.1, 0.8) + np.linspace(0, 0.05, 80)
    (warned,) = detail(graph, {RUN: [says(graph, worse)], "floor": [says(graph, better)]})["warnings"]
    assert warned.startswith("Class 'b' is below its floor")


def test_chance_among_many_classes_warns_of_none():
    """Without a real difference one of ten classes would be worse at 5 % in four of ten runs; corrected, hardly ever."""
    coins, warned = np.random.default_rng(3), 0
    graph = Graph.from_edges([0], [1], 300, directed=False, y=np.arange(300) % 10, roles=np.full(300, 2, np.uint8))
    for _ in range(20):
        tables = [coins.dirichlet(np.full(10, 5.0), 300) for _ in range(2)]
        run, floor = (Answers(CLASS, np.arange(300), graph.y, rows.argmax(axis=1), rows) for rows in tables)
        warned += bool(detail(graph, {RUN: [run], "floor": [floor]})["warnings"])
    assert warned <= 3


def test_one_answer_for_all_is_the_majority_line():
    y, roles = np.array([0, 0, 1, 0, -1]), np.array([0, 0, 2, 2, 2], np.uint8)
    graph = Graph.from_edges([0, 1], [1, 2], 5, directed=False, y=y, classes=("a", "b"), roles=roles)
    found = without_information(graph)
    assert (found["accuracy"], found["roc_auc"], found["balanced_accuracy"]) == (0.5, 0.5, 0.5)


def table(tmp_path, suffix, **columns):
    path = tmp_path / f"nodes{suffix}"
    if suffix == ".parquet":
        pq.write_table(pa.table(columns), path)
    else:
        rows = zip(*columns.values(), strict=True)
        lines = [",".join("" if one is None else str(one) for one in row) for row in (columns, *rows)]
        path.write_text("\n".join(lines) + "\n")
    return Source(nodes=str(path), edges="edges.csv", label="y")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_groups_are_words_or_ranges_of_numbers(tmp_path, suffix):
    n = 40
    source = table(
        tmp_path, suffix, id=list(range(n)), region=["north", None, "south", "north"] * 10, few=[1, 2] * 20,
        age=[None, *range(1, n)], town=[f"t{i}" for i in range(n)],
    )  # fmt: skip
    graph = ring([0, 1] * 20)
    region = groups_of(source, graph, "region")
    assert region.names == ("(missing)", "north", "south")
    assert region.codes[:4].tolist() == [1, 0, 2, 1]
    assert groups_of(source, graph, "few").names == ("1", "2")
    age = groups_of(source, graph, "age")
    assert (len(age.names), age.names[0], age.names[-1]) == (5, "1 to 10.5", "(missing)")
    assert np.bincount(age.codes).tolist() == [10, 10, 9, 10, 1]
    town = groups_of(source, graph, "town")
    assert (len(town.names), town.names[-1]) == (20, "(others)")
    assert np.bincount(town.codes)[-1] == n - 19
    with pytest.raises(DataError, match="Did you mean 'region'"):
        groups_of(source, graph, "regoin")


def test_groups_of_a_data_set_are_its_features():
    x = np.array([[1, 0, 30], [0, 1, 40], [0, 0, 50], [1, 0, 30]], np.float32)
    graph = ring([0, 1, 0, 1], x=x, feature_names=("sex=f", "sex=m", "age"))
    found = groups_of(Source(dataset="campus"), graph, "sex")
    assert [found.names[code] for code in found.codes] == ["f", "m", "(missing)", "f"]
    assert groups_of(Source(dataset="campus"), graph, "age").names == ("30", "40", "50")
    with pytest.raises(InputError, match=r"to be a feature .* Did you mean 'sex'"):
        groups_of(Source(dataset="campus"), graph, "sexx")
    with pytest.raises(InputError, match="It has no named features"):
        groups_of(Source(dataset="campus"), ring([0, 1]), "sex")


def test_answers_leave_out_nodes_without_a_label():
    class Half:
        def predict(self, graph):
            return np.zeros(graph.num_nodes, int)

        def predict_proba(self, graph):
            return np.full((graph.num_nodes, 2), 0.5, np.float32)

    graph = Graph.from_edges(
        [0], [1], 4, directed=False, y=np.array([0, 1, -1, 1]), roles=np.array([2, 2, 2, 0], np.uint8)
    )
    found = answers_of(Half(), graph, graph.test_mask)
    assert found.nodes.tolist() == [0, 1]
    assert answers_of(Half(), graph).among(~graph.test_mask).nodes.tolist() == [3]
