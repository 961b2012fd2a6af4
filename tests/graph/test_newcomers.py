"""Nodes that arrive later: which edges are read, what is refused, and features in the columns of training."""

import numpy as np
import pytest

from sfumato.errors import DataError
from sfumato.graph._graph import Graph
from sfumato.privacy.units import EdgeLevel, NoPrivacy
from sfumato.tables._io import read_csv
from sfumato.tables._newcomers import Newcomers, read_new_nodes, read_newcomers


def alone(*ids, directed=False, **fields):
    return Graph.from_edges([], [], len(ids), directed=directed, node_ids=np.array(ids), **fields)


def known(directed=False):
    return Graph.from_edges([0], [1], 3, directed=directed, y=[0, 1, 0]).with_roles([0, 0, 2])


def arcs(newcomers):
    source = np.repeat(np.arange(len(newcomers.reach_indptr) - 1), np.diff(newcomers.reach_indptr))
    return list(zip(source.tolist(), newcomers.reach_indices.tolist(), strict=True))


def test_only_arcs_to_newcomers_are_kept():
    edges = [0, 1, 3], [1, 2, 0]  # among newcomers 0 and 1; from known 2 and 3
    both = Newcomers.join(alone(7, 8), [known()], *edges)
    assert arcs(both) == [(0, 1), (1, 0), (2, 1), (3, 0)]
    directed = Newcomers.join(alone(7, 8, directed=True), [known(True)], *edges)
    assert arcs(directed) == [(0, 1), (3, 0)]
    assert (both.num_nodes, both.num_arcs, both.y, both.classes) == (2, 0, None, ("0", "1"))
    assert both.roles.tolist() == [2, 2]
    assert both.merged == {"duplicates": 0, "reversed": 0, "self_loops": 0}


def test_repeated_edges_and_loops_count_once():
    late = Newcomers.join(alone(7, 8), [known()], [0, 1, 0, 1, 2, 2], [1, 0, 1, 1, 0, 0])
    assert arcs(late) == [(0, 1), (1, 0), (2, 0)]


def test_later_batches_count_those_before():
    first = Newcomers.join(alone(7, 8), [known()], [2], [0])
    second = Newcomers.join(alone(9), [known(), first], [4, 5], [0, 0])
    assert arcs(second) == [(4, 0), (5, 0)]
    assert second.known == (second.known[0], first)


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        (alone(2), ([], []), "'2' was there before"),
        (alone(7), ([0, 1], [1, 3]), "row 1 links two nodes that were there before"),
        (alone(7), ([0, 2], [1, 2]), "row 1 links two nodes"),
        (alone(7), ([0], [4]), "holds? node indices|to hold node indices"),
        (alone(7, directed=True), ([], []), "the directed of the trained graph"),
        (alone(7, x=np.ones((1, 2))), ([], []), "the num_features of the trained graph"),
    ],
)
def test_what_does_not_fit_is_refused(nodes, edges, message):
    with pytest.raises(DataError, match=message):
        Newcomers.join(nodes, [known()], *map(np.array, edges))


def test_arcs_are_never_counted_among_public_facts():
    late = Newcomers.join(alone(7, 8), [known()], [0], [1])
    for unit in (EdgeLevel(directed=False), NoPrivacy()):
        facts = late.public_facts(unit)
        assert (facts.num_nodes, facts.num_train, facts.num_arcs, facts.num_classes) == (2, 0, None, 2)


@pytest.fixture
def tables(tmp_path):
    (tmp_path / "n0.csv").write_text(
        "id,dorm,age,ok,code,year,role\n1,north,3,true,007,2004,train\n2,south,4,false,008,2005,test\n"
    )
    (tmp_path / "e0.csv").write_text("source,target\n1,2\n")
    (tmp_path / "e1.csv").write_text("source,target\n3,1\n4,3\n")
    schema = {"columns": {"age": {"min": 0, "max": 10}, "code": {"categories": ["007", "008"]}}, "role": "role"}
    return tmp_path, schema


def write(folder, text):
    (folder / "n1.csv").write_text(text)
    return folder / "n1.csv"


def test_a_missing_column_and_an_id_that_comes_again_are_named(tables):
    folder, schema = tables
    trained = read_csv(folder / "n0.csv", folder / "e0.csv", label="year", schema=schema)
    with pytest.raises(DataError, match="to have the column 'dorm', which the model was trained with"):
        read_new_nodes(trained, write(folder, "id,age,ok,code\n3,1,true,007\n"), schema=schema)
    text = "id,dorm,age,ok,code\n1,north,3,true,007\n"
    with pytest.raises(DataError, match="'1' was there before"):
        read_newcomers(read_new_nodes(trained, write(folder, text), schema=schema), [trained], folder / "none.csv")
