"""Graph: building, checking, splitting, describing, saving."""

import json
import re
from dataclasses import FrozenInstanceError, replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from sfumato.errors import DataError, InputError, SchemaError
from sfumato.graph import Graph
from sfumato.graph._subgraph import induced

EDGE = SimpleNamespace(public=("node_ids", "roles", "features", "labels"), split=None)
NODE = SimpleNamespace(public=("node_ids", "roles"), split=None)


def path(**fields):
    return Graph.from_edges([0, 1, 2], [1, 2, 3], 4, directed=False, **fields)


def dense(graph):
    matrix = np.zeros((graph.num_nodes, graph.num_nodes), dtype=int)
    for node in range(graph.num_nodes):
        matrix[node, graph.indices[graph.indptr[node] : graph.indptr[node + 1]]] += 1
    return matrix


def test_undirected_edges_store_both_arcs():
    graph = path()
    assert graph.indptr.tolist() == [0, 1, 3, 5, 6]
    assert graph.indices.tolist() == [1, 0, 2, 1, 3, 2]
    assert (graph.indptr.dtype, graph.indices.dtype) == (np.int64, np.int32)
    assert (graph.num_nodes, graph.num_arcs, graph.num_edges) == (4, 6, 3)


def test_directed_edges_are_grouped_by_their_owner():
    graph = Graph.from_edges([2, 0, 0], [0, 3, 1], 4, directed=True)
    assert graph.indptr.tolist() == [0, 2, 2, 3, 3]
    assert graph.indices.tolist() == [1, 3, 0]
    assert graph.num_edges == graph.num_arcs == 3


def test_what_is_merged_is_counted_once_each():
    source, target = [0, 0, 1, 1, 2, 3], [1, 1, 0, 2, 1, 3]
    undirected = Graph.from_edges(source, target, 4, directed=False)
    assert undirected.merged == {"duplicates": 1, "reversed": 2, "self_loops": 1}
    assert undirected.num_edges == 2
    directed = Graph.from_edges(source, target, 4, directed=True)
    assert directed.merged == {"duplicates": 1, "reversed": 0, "self_loops": 1}
    assert directed.num_arcs == 4


@pytest.mark.parametrize("directed", [True, False])
def test_self_loops_kept_on_request_are_stored_once(directed):
    graph = Graph.from_edges([0, 1, 1], [1, 1, 1], 2, directed=directed, self_loops="keep")
    assert dense(graph).tolist() == [[0, 1], [0 if directed else 1, 1]]
    assert graph.num_edges == 2
    assert graph.merged == {"duplicates": 1, "reversed": 0, "self_loops": 0}


def test_self_loops_can_be_an_error():
    with pytest.raises(DataError, match=r"source\[1\] and target\[1\] are one node"):
        Graph.from_edges([0, 3], [1, 3], 4, directed=True, self_loops="error")


@pytest.mark.parametrize("directed", [True, False])
def test_a_large_random_edge_list_agrees_with_scipy(directed):
    generator = np.random.default_rng(5)
    source, target = generator.integers(0, 20_000, (2, 100_000))
    graph = Graph.from_edges(source, target, 20_000, directed=directed)
    matrix = sp.coo_matrix((np.ones(100_000), (source, target)), shape=(20_000, 20_000)).tocsr()
    matrix = matrix if directed else matrix + matrix.T
    matrix.setdiag(0)
    matrix.eliminate_zeros()
    assert np.array_equal(graph.indptr, matrix.indptr)
    assert np.array_equal(graph.indices, matrix.indices)
    by_target = matrix.T.tocsr()
    assert np.array_equal(graph.transpose()[0], by_target.indptr)
    assert np.array_equal(graph.transpose()[1], by_target.indices)


def test_transposing_an_undirected_graph_copies_nothing():
    graph = path()
    assert graph.transpose()[1] is graph.indices


def test_no_edges_are_allowed():
    graph = Graph.from_edges([], [], 3, directed=False)
    assert (graph.num_arcs, graph.num_edges) == (0, 0)
    assert graph.transpose()[0].tolist() == [0, 0, 0, 0]


def test_from_csr_sorts_and_merges():
    graph = Graph.from_csr([0, 3, 4, 5], [2, 1, 1, 0, 0], directed=False)
    assert graph.indices.tolist() == [1, 2, 0, 0]
    assert graph.merged["duplicates"] == 1


def test_node_numbers_near_the_limit_do_not_overflow():
    from sfumato.graph._arcs import MAX_NODES, _reverse, _sorted_unique

    last = np.array([MAX_NODES - 1], dtype=np.int64)
    key = last * MAX_NODES + (last - 1)
    assert (key * 2 + 1 > 0).all()
    assert (_reverse(key, MAX_NODES) == (last - 1) * MAX_NODES + last).all()
    assert _sorted_unique(np.array([3, 1, 3])).tolist() == [1, 3]


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: Graph.from_edges([0], [1], 0, directed=True), InputError, "num_nodes .* >= 1"),
        (lambda: Graph.from_edges([0], [1], 2**31, directed=True), InputError, "num_nodes .*int32"),
        (lambda: Graph.from_edges([0, -2], [1, 1], 4, directed=True), DataError, r"source\[1\] is negative"),
        (lambda: Graph.from_edges([0], [4], 4, directed=True), DataError, r"target\[0\] is no node"),
        (lambda: Graph.from_edges([0.5], [1], 4, directed=True), DataError, "source .* integers, got .* float64"),
        (lambda: Graph.from_edges([0, 1], [1], 4, directed=True), DataError, "same length, got 2 and 1"),
        (lambda: Graph.from_edges([0], [1], 4, directed="no"), InputError, "directed .* got 'no'"),
        (lambda: Graph.from_edges([0], [1], 2, directed=True, self_loops="drop"), InputError, "error, remove, keep"),
        (lambda: Graph.from_csr([0, 1, 1], [1], directed=False), DataError, "an arc without its reverse"),
        (lambda: Graph.from_csr([0, 2, 1], [1], directed=True), DataError, "never fall and end at 1"),
        (lambda: Graph.from_csr([0, 1, 1], [7], directed=True), DataError, r"indices\[0\] is no node"),
        (lambda: Graph.from_csr([0.0, 1.0], [0], directed=True), DataError, "indptr .* integers"),
        (lambda: Graph.from_csr([0], [], directed=True), InputError, "num_nodes"),
        (lambda: Graph(np.array([0, 2, 2, 2]), np.array([2, 1]), True), DataError, "sorted and unique"),
        (lambda: Graph(np.array([0, 1, 3, 3]), np.array([2, 1, 1]), True), DataError, "sorted and unique"),
        (lambda: Graph(np.array([0, 1, 1]), np.array([1]), False), DataError, "an arc without its reverse"),
        (lambda: path(x=[[1.0]]), DataError, r"x .* \[4, num_features\], got shape \(1, 1\)"),
        (lambda: path(x=np.array([["a"]] * 4)), DataError, "x to be numbers"),
        (lambda: path(x=np.array([[0, 1], [2, np.nan], [0, 0], [0, 0]])), DataError, r"x\[1, 1\] is not"),
        (lambda: path(x=np.array([[0.0], [0], [0], [1e300]])), DataError, r"x\[3, 0\] is not"),
        (lambda: path(x=sp.csr_matrix([[0], [0], [np.inf], [0]])), DataError, r"x\[2, 0\] is not"),
        (lambda: path(y=np.eye(4)), DataError, "several labels"),
        (lambda: path(y=[0.5, 0, 1, 1]), DataError, r"y\[0\] has a fraction.*For a number"),
        (lambda: path(y=[np.nan, 0, 1, 1]), DataError, r"y\[0\] is not finite. Write -1"),
        (lambda: path(y=[0, 1]), DataError, "4 class numbers, got 2"),
        (lambda: path(y=[0, 1, 2, 3], classes=("a", "b")), DataError, r"0 to 1 .* y\[2\] is not"),
        (lambda: path(y=[0, 1, -2, 0]), DataError, r"y\[2\] is not"),
        (lambda: path(y=[-1] * 4), DataError, "every label is missing"),
        (lambda: path(y=[0, 0, 0, 0], classes=("a", "a")), InputError, "distinct names"),
        (lambda: path(node_ids=["a", "b", "a", "c"]), DataError, "'a' appears 2 times"),
        (lambda: path(node_ids=[1, 2]), DataError, "4 integers or strings"),
        (lambda: path(roles=[0, 1, 2, 4]), DataError, r"roles\[3\] is not"),
        (lambda: path(roles=[0.0, 1, 2, 3]), DataError, "got shape .* float64"),
        (lambda: path(feature_names=("a",)), DataError, r"a column of x \(0\), got 1"),
        (
            lambda: path(max_degree=1),
            SchemaError,
            "max_degree=1 edges .*, as is promised by option or schema, got more at some node",
        ),
        (lambda: path(max_degree=0), InputError, "max_degree .* >= 1"),
        (lambda: path(max_degree=3, mean_degree=4.0), InputError, "mean_degree"),
        (lambda: path().train_mask, InputError, "with_split"),
    ],
)
def test_errors_teach_in_one_line(build, error, message):
    with pytest.raises(error) as caught:
        build()
    assert re.search(message, str(caught.value)), str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_promised_degree_bounds_the_arcs_that_arrive():
    with pytest.raises(SchemaError, match="as is promised by option or schema, got more at some node"):
        Graph.from_edges([1, 2, 3], [0, 0, 0], 4, directed=True, max_degree=2)


def test_features_become_float32_dense_or_csr():
    assert path(x=np.arange(8).reshape(4, 2)).x.dtype == np.float32
    sparse = path(x=sp.coo_matrix(np.eye(4, 3))).x
    assert isinstance(sparse, sp.csr_matrix)
    assert sparse.dtype == np.float32
    assert path(x=np.eye(4)).num_features == 4


def test_classes_that_nobody_declared_are_assumed_public():
    assert path(y=[0, 1, 2, -1]).classes == ("0", "1", "2")
    assert path(y=[0, 1, 2, -1]).assumed_public == ("classes", "rare classes")
    assert path(y=[0, 1, 0, -1], classes=("a", "b", "c")).assumed_public == ()
    assert path(y=[0, 1, 0, -1], classes=("a", "b", "c")).num_classes == 3


def test_public_facts_follow_the_unit():
    read = ("num_features", "categories of column dorm", "classes")
    graph = path(x=np.eye(4), y=[0, 1, 1, -1], classes=("a", "b"), assumed_public=read)
    at_node = graph.public_facts(NODE)
    assert at_node.assumed == read
    assert graph.public_facts(EDGE).assumed == ()
    assert (at_node.num_nodes, at_node.num_train, at_node.num_features, at_node.num_classes) == (4, 3, 4, 2)
    assert (at_node.max_degree, at_node.mean_degree, at_node.directed) == (None, None, False)


def test_public_facts_never_depend_on_arcs():
    promised = {"max_degree": 3, "mean_degree": 1.5}
    other = Graph.from_edges([0], [3], 4, directed=False, **promised)
    assert path(**promised).public_facts(EDGE) == other.public_facts(EDGE)
    assert other.public_facts(NODE).max_degree == 3


def test_public_facts_count_train_roles():
    assert path().with_roles([0, 3, 3, 2]).public_facts(NODE).num_train == 1
    big = Graph.from_edges([0], [1], 18_980, directed=False)
    assert big.public_facts(NODE).num_train == big.with_split(seed=3).train_mask.sum() == 14_235


def test_splits_make_masks_and_leave_the_graph_alone():
    graph = Graph.from_edges([0], [1], 100, directed=False)
    split = graph.with_split(seed=4)
    assert graph.roles is None
    assert [int(m.sum()) for m in (split.train_mask, split.val_mask, split.test_mask)] == [75, 10, 15]
    assert split.indices is graph.indices
    assert not np.array_equal(split.roles, graph.with_split(seed=5).roles)


def test_replacing_arrays_checks_them_again():
    graph = path(x=np.eye(4))
    with pytest.raises(DataError, match="x"):
        replace(graph, x=np.full((4, 1), np.nan))
    with pytest.raises(DataError, match="without its reverse"):
        replace(graph, indices=np.array([1, 0, 2, 1, 3, 1], dtype=np.int32))
    with pytest.raises(DataError, match="without its reverse"):
        replace(Graph.from_edges([0], [1], 2, directed=True), directed=False)
    with pytest.raises(SchemaError, match="max_degree"):
        replace(graph, max_degree=1)
    with pytest.raises(FrozenInstanceError):
        graph.name = "other"


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("features", [None, np.eye(4, 3), sp.csr_matrix(np.eye(4, 3))])
def test_a_saved_graph_comes_back(tmp_path, features, mmap):
    graph = path(
        x=features,
        y=[0, 1, -1, 1],
        classes=("a", "b"),
        node_ids=["ann", "bob", "cyd", "dee"],
        feature_names=() if features is None else ("f", "g", "h"),
        roles=[0, 1, 2, 3],
        name="four",
        max_degree=2,
        mean_degree=1.5,
        assumed_public=("num_features",),
        outside={"age": 2},
    )
    again = Graph.load(graph.save(tmp_path / "deep" / "four"), mmap=mmap)
    assert repr(again) == repr(graph)
    for name in ("indptr", "indices", "y", "node_ids", "roles"):
        assert np.array_equal(getattr(again, name), getattr(graph, name)), name
        assert isinstance(getattr(again, name).base, np.memmap) == mmap
    for name in (
        "directed",
        "classes",
        "feature_names",
        "max_degree",
        "mean_degree",
        "assumed_public",
        "merged",
        "outside",
    ):
        assert getattr(again, name) == getattr(graph, name), name
    assert sp.issparse(again.x) == sp.issparse(graph.x)
    if features is not None:
        assert (again.x != graph.x).sum() == 0


def test_a_graph_saved_before_values_were_counted_loads(tmp_path):
    facts = path().save(tmp_path / "g") / "graph.json"
    facts.write_text(
        json.dumps({name: value for name, value in json.loads(facts.read_text()).items() if name != "outside"})
    )
    assert Graph.load(tmp_path / "g").outside == {}


def test_writing_to_a_mapped_graph_leaves_the_file(tmp_path):
    path(x=np.eye(4)).save(tmp_path / "g")
    Graph.load(tmp_path / "g").x[0, 0] = 9
    assert Graph.load(tmp_path / "g").x[0, 0] == 1


def test_saving_never_overwrites_and_leaves_nothing_half_written(tmp_path, monkeypatch):
    graph = path()
    graph.save(tmp_path / "g")
    with pytest.raises(DataError, match="not to exist"):
        graph.save(tmp_path / "g")
    monkeypatch.setattr("sfumato.graph._storage.json.dumps", lambda *a, **k: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        graph.save(tmp_path / "h")
    assert [item.name for item in tmp_path.iterdir()] == ["g"]


def test_damaged_folders_are_refused(tmp_path):
    folder = path().save(tmp_path / "g")
    with pytest.raises(DataError, match=r"graph\.json is missing"):
        Graph.load(tmp_path / "none")
    np.save(folder / "indices.npy", np.array([1, 0, 2, 1, 3, 9], dtype=np.int32))
    with pytest.raises(DataError, match=r"indices\[5\] is no node"):
        Graph.load(folder)
    (folder / "indices.npy").write_bytes((folder / "indices.npy").read_bytes()[:100])
    with pytest.raises(DataError, match=r"whole \.npy"):
        Graph.load(folder)
    np.save(folder / "indices.npy", np.array([1, None], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match=r"whole \.npy"):
        Graph.load(folder)
    (folder / "graph.json").write_text("{")
    with pytest.raises(DataError, match="to be JSON"):
        Graph.load(folder)
    (folder / "graph.json").write_text('{"format": 99}')
    with pytest.raises(DataError, match="format 1"):
        Graph.load(folder)


def test_an_unknown_name_of_the_package_is_an_attribute_error():
    import sfumato.graph

    assert sfumato.graph.Graph is Graph
    assert "read_csv" in dir(sfumato.graph)
    with pytest.raises(AttributeError, match="no attribute 'Grahp'"):
        sfumato.graph.Grahp  # noqa: B018


def test_induced_graph_of_four_nodes():
    whole = path(x=np.eye(4), y=[0, 0, 1, 1])
    part = induced(whole, [3, 2, 0])
    assert (part.indptr.tolist(), part.indices.tolist()) == ([0, 1, 2, 2], [1, 0])
    assert part.x.argmax(axis=1).tolist() == part.node_ids.tolist() == [3, 2, 0]
    assert part.y.tolist() == [1, 1, 0]
    assert induced(whole, []) is None
