"""Named data sets: four-node files of every format, then the published files with their published statistics."""

import pickle
from collections import defaultdict

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from sfumato.datasets._listing import list_datasets
from sfumato.datasets._loading import load_dataset
from sfumato.errors import DataError, InputError

DEGREES = {  # mean to one decimal, median
    "Rutgers89": (60.8, 47),
    "Berkeley13": (71.4, 54),
    "BU10": (64.1, 52),
    "Cornell5": (84.8, 67),
    "Harvard1": (129.0, 110),
    "Duke14": (109.2, 94),
    "UCSC68": (45.3, 36),
}
COUNTS = {  # nodes, arcs, features, classes, self-loops removed
    "facebook100/Rutgers89": (20_064, 1_219_462, 376, 5, 0),
    "facebook100/Berkeley13": (18_980, 1_354_934, 437, 6, 0),
    "facebook100/BU10": (17_415, 1_116_776, 403, 6, 0),
    "facebook100/Cornell5": (15_374, 1_303_452, 349, 6, 0),
    "facebook100/Harvard1": (9_787, 1_262_572, 168, 6, 0),
    "facebook100/Duke14": (7_469, 815_792, 276, 5, 0),
    "facebook100/UCSC68": (6_283, 284_896, 128, 4, 0),
    "planetoid/cora": (2708, 2 * 5278, 1433, 7, 0),
    "planetoid/citeseer": (3327, 2 * 4552, 3703, 6, 248),
    "npz/cora_ml": (2995, 2 * 8158, 2879, 7, 0),
    "npz/coauthor_cs": (18_333, 2 * 81_894, 6805, 15, 0),
    "npz/amazon_cs": (13_752, 2 * 245_861, 767, 10, 0),
    "musae/facebook": (22_470, 2 * 170_823, 4714, 4, 179),
    "musae/twitch_ENGB": (7126, 2 * 35_324, 3170, 2, 0),
    "musae/wiki_chameleon": (2277, 2 * 31_371, 3132, 5, 50),
    "lastfm_asia": (7624, 2 * 27_806, 0, 18, 0),
    "directed/email-Eu-core": (1005, 25_571, 0, 42, 0),
    "directed/polblogs": (1490, 19_025, 0, 2, 0),
    "text/citeseer_text": (3186, 2 * 4225, 0, 6, 120),
    "text/cora_cane": (2277, 2 * 4771, 0, 7, 230),
}

NOT_HERE = (
    "text/pokec",
    "text/reddit",
    "cifar10",
    "elliptic",
    "flickr",
    "reddit",
    "amazon",
    "svhn",
)  # test_text_datasets.py, test_color_images.py and test_large_datasets.py read small files of their formats


def write_school(root, name, edges, info):
    adjacency = np.zeros((len(info), len(info)))
    for a, b in edges:
        adjacency[a, b] = adjacency[b, a] = 1
    (root / "facebook100").mkdir(exist_ok=True)
    path = root / "facebook100" / f"{name}.mat"
    scipy.io.savemat(path, {"A": scipy.sparse.csc_matrix(adjacency), "local_info": np.asarray(info, dtype=np.float64)})
    return path


INFO = [  # status gender major minor dorm year high school
    [1, 1, 7, 0, 3, 2006, 9],
    [1, 2, 0, 0, 5, 2006, 9],
    [2, 1, 9, 4, 0, 0, 9],
    [1, 0, 7, 0, 3, 2007, 9],
]


def write_planetoid(root, *, allx=True):
    """Five nodes: 0 and 1 labelled first, tests 4 and 2; node 3 is absent from tx."""
    parts = {
        "x": scipy.sparse.csr_matrix([[1.0, 0]]),
        "allx": scipy.sparse.csr_matrix([[1.0, 0], [2, 0]]),
        "tx": scipy.sparse.csr_matrix([[4.0, 4], [0, 3]]),
        "y": np.array([[0, 1]]),
        "ally": np.array([[0, 1], [1, 0]]),
        "ty": np.array([[0, 1], [1, 0]]),
        "graph": defaultdict(list, {0: [1, 4], 1: [0, 1], 2: [4], 3: [], 4: [0, 2]}),
    }
    folder = root / "planetoid"
    folder.mkdir()
    for part, value in parts.items():
        if allx or part != "allx":
            (folder / f"ind.tiny.{part}").write_bytes(pickle.dumps(value, protocol=2))
    (folder / "ind.tiny.test.index").write_text("4\n2\n")


def test_facebook_columns_are_the_codes_before_nodes_are_dropped(tmp_path):
    write_school(tmp_path, "Reed98", [(0, 1), (1, 2), (3, 2)], INFO)
    graph = load_dataset("facebook100/Reed98", tmp_path)
    assert graph.feature_names == (
        "status=1", "status=2", "gender=1", "gender=2", "major=7", "major=9", "minor=4", "dorm=3", "dorm=5",
    )  # fmt: skip
    assert graph.x.toarray().tolist() == [
        [1, 0, 1, 0, 1, 0, 0, 1, 0],
        [1, 0, 0, 1, 0, 0, 0, 0, 1],
        [1, 0, 0, 0, 1, 0, 0, 1, 0],
    ]
    assert graph.x.dtype == np.float32
    assert graph.classes == ("2006", "2007")
    assert graph.y.tolist() == [0, 0, 1]
    assert graph.node_ids.tolist() == [0, 1, 3]
    assert np.diff(graph.indptr).tolist() == [1, 1, 0], "the isolated node stays"


def test_facebook_class_filter(tmp_path):
    write_school(tmp_path, "Reed98", [(0, 1), (1, 3)], INFO)
    graph = load_dataset("facebook100/Reed98", tmp_path, min_class_size=2)
    assert (graph.classes, graph.num_nodes, graph.num_edges) == (("2006",), 2, 1)
    write_school(tmp_path, "Large1", [(0, 1)], INFO)
    with pytest.raises(DataError, match="min_class_size=1000"):
        load_dataset("facebook100/Large1", tmp_path)


OTHER_INFO = [
    [2, 2, 9, 8, 4, 2009, 1],
    [1, 0, 11, 8, 3, 2006, 1],
    [1, 2, 7, 8, 3, 2003, 1],
]


def test_every_school_is_one_graph_without_arcs_between_schools(tmp_path):
    write_school(tmp_path, "Reed98", [(0, 1), (1, 3), (2, 3)], INFO)
    write_school(tmp_path, "Big1", [(0, 1), (1, 2)], OTHER_INFO)
    graph = load_dataset("facebook100/all", tmp_path)
    assert graph.node_ids.tolist() == ["Big1/0", "Big1/1", "Reed98/0", "Reed98/1", "Reed98/3"]
    assert graph.classes == ("2004", "2005", "2006", "2007", "2008", "2009"), "declared, whatever is there"
    assert graph.y.tolist() == [5, 2, 2, 2, 3]
    assert (graph.indptr.tolist(), graph.indices.tolist()) == ([0, 1, 2, 3, 5, 6], [1, 0, 3, 2, 4, 3])
    assert graph.feature_names == (
        "status=1", "status=2", "gender=1", "gender=2", "major=7", "major=9", "major=11",
    )  # fmt: skip
    assert graph.x.toarray().tolist() == [
        [0, 1, 0, 1, 0, 1, 0],
        [1, 0, 0, 0, 0, 0, 1],
        [1, 0, 1, 0, 1, 0, 0],
        [1, 0, 0, 1, 0, 0, 0],
        [1, 0, 0, 0, 1, 0, 0],
    ]
    assert graph.assumed_public == ()
    counted = load_dataset("facebook100/all", tmp_path, min_class_size=2)
    assert (counted.classes, counted.node_ids.tolist()) == (("2006",), ["Big1/1", "Reed98/0", "Reed98/1"])
    assert load_dataset("facebook100/all", tmp_path, min_class_size=0).classes == ("2003", "2006", "2007", "2009")


def test_every_school_needs_one(tmp_path):
    (tmp_path / "facebook100").mkdir()
    with pytest.raises(DataError, match=r"Cannot load facebook100/all: Expected the files of schools, .* found none"):
        load_dataset("facebook100/all", tmp_path)
    assert not next(row for row in list_datasets(tmp_path) if row.name == "facebook100/all").present
    write_school(tmp_path, "Old5", [(0, 1)], [[1, 1, 1, 0, 0, 1999, 0]] * 2)
    assert next(row for row in list_datasets(tmp_path) if row.name == "facebook100/all").present
    with pytest.raises(DataError, match="students of the years 2004 to 2009, found none"):
        load_dataset("facebook100/all", tmp_path)


def test_planetoid_rows_follow_the_test_index(tmp_path):
    write_planetoid(tmp_path)
    graph = load_dataset("planetoid/tiny", tmp_path)
    assert graph.x.toarray().tolist() == [[1, 0], [2, 0], [0, 3], [0, 0], [4, 4]]
    assert graph.y.tolist() == [1, 0, 0, -1, 1]
    assert graph.num_edges == 3
    assert graph.merged == {"duplicates": 0, "reversed": 3, "self_loops": 1}
    assert graph.roles is None
    roles = load_dataset("planetoid/tiny", tmp_path, split="public").roles
    assert roles[[0, 4, 2]].tolist() == [0, 2, 2]


def test_planetoid_without_allx_loads_graph_and_labels(tmp_path):
    write_planetoid(tmp_path, allx=False)
    with pytest.warns(UserWarning, match=r"no ind\.tiny\.allx.*x is None"):
        graph = load_dataset("planetoid/tiny", tmp_path)
    assert graph.x is None
    assert graph.y.tolist() == [1, 0, 0, -1, 1]


def npz_parts(stem, matrix):
    return {f"{stem}{part}": getattr(matrix, part) for part in ("data", "indices", "indptr", "shape")}


@pytest.mark.parametrize("kind", ["parts", "short parts", "pickled"])
def test_npz_kinds_read_the_same(tmp_path, kind):
    adjacency = scipy.sparse.csr_matrix(np.array([[0, 1.0, 0], [1, 0, 0], [1, 0, 1]]))
    attributes = scipy.sparse.csr_matrix(np.array([[0, 2.0], [1, 0], [0, 0]]))
    if kind == "pickled":
        metadata = {"class_names": np.array(["a", "b"], dtype=object)}
        members = {"adj_matrix": np.array(adjacency, dtype=object), "node_attr": np.array(attributes, dtype=object)}
        members |= {"node_label": np.array([1, 0, 1]), "metadata": np.array(metadata, dtype=object)}
    else:
        middle = "_matrix." if kind == "parts" else "_"
        members = {**npz_parts(f"adj{middle}", adjacency), **npz_parts(f"attr{middle}", attributes)}
        members |= {"labels": np.array([1, 0, 1]), "class_names": np.array(["a", "b"])}
    (tmp_path / "npz").mkdir()
    np.savez(tmp_path / "npz" / "mine.npz", **members)
    graph = load_dataset("npz/mine", tmp_path)
    assert (graph.num_nodes, graph.num_edges, graph.classes, graph.y.tolist()) == (3, 2, ("a", "b"), [1, 0, 1])
    assert graph.merged == {"duplicates": 0, "reversed": 1, "self_loops": 1}
    assert graph.x.toarray().tolist() == [[0, 2], [1, 0], [0, 0]]


def write_musae(root, name, stem, targets):
    folder = root / "musae" / name
    folder.mkdir(parents=True)
    (folder / f"{stem}.json").write_text('{"1": [2, 0, 2], "0": [1], "2": []}')
    (folder / f"{stem}_edges.csv").write_text("id1,id2\n0,1\n1,0\n2,2\n")
    (folder / f"{stem}_target.csv").write_text(targets)


def test_musae_features_are_multi_hot_and_targets_follow_their_ids(tmp_path):
    write_musae(tmp_path, "facebook", "facebook", 'id,page_name,page_type\n2,"a, b",tv\n0,c,company\n1,d,tv\n')
    graph = load_dataset("musae/facebook", tmp_path)
    assert graph.x.toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 0, 0]]
    assert (graph.classes, graph.y.tolist()) == (("company", "tv"), [0, 1, 1])
    assert (graph.num_edges, graph.merged["self_loops"]) == (1, 1)
    write_musae(tmp_path, "twitch_XX", "XX", "id,mature,new_id\n77,True,1\n78,False,0\n79,False,2\n")
    assert load_dataset("musae/twitch_XX", tmp_path).y.tolist() == [0, 1, 0]


def write_lastfm(root):
    (root / "lastfm_asia").mkdir()
    (root / "lastfm_asia" / "lastfm_asia_edges.csv").write_text("node_1,node_2\n0,1\n1,2\n")
    (root / "lastfm_asia" / "lastfm_asia_target.csv").write_text("id,target\n0,17\n1,3\n2,17\n")
    return root / "lastfm_asia" / "lastfm_asia_features.json"


def test_lastfm_has_features_if_their_file_is_there(tmp_path):
    path = write_lastfm(tmp_path)
    graph = load_dataset("lastfm_asia", tmp_path)
    assert (graph.x, graph.classes, graph.y.tolist()) == (None, ("3", "17"), [1, 0, 1])
    path.write_text('{"0": [1, 3], "2": [], "1": [0]}')
    graph = load_dataset("lastfm_asia", tmp_path)
    assert graph.x.toarray().tolist() == [[0, 1, 0, 1], [1, 0, 0, 0], [0, 0, 0, 0]]
    assert (graph.classes, graph.y.tolist(), graph.num_edges) == (("3", "17"), [1, 0, 1], 2), "countries are not binned"
    path.write_text('{"0": [1, 3], "1": [0]}')
    with pytest.raises(DataError, match=r"x to be numbers of shape \[3, num_features\], got shape \(2, 4\)"):
        load_dataset("lastfm_asia", tmp_path)
    path.write_text('{"0": [1, 3], "1": [0], "7": [2]}')
    assert_cannot_load("lastfm_asia", tmp_path, path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "Expected a header"),
        ("0,1\n1,2\n", "Expected a header"),
        ("node_1\n0\n", "Expected a header that names two columns"),
        ("node_1,node_2\n", "Expected edges below the header"),
        ("node_1,node_2\n0\n1\n", "expected 2 columns, found 1"),
        ("node_1,node_2\n0,1,5\n", "expected 2 columns, found 3"),
        ("node_1,node_2\n0,1.5\n", "ends of edges to be integers"),
    ],
)
def test_edge_tables_of_another_form(tmp_path, content, said):
    write_lastfm(tmp_path)
    path = tmp_path / "lastfm_asia" / "lastfm_asia_edges.csv"
    path.write_text(content)
    assert said in assert_cannot_load("lastfm_asia", tmp_path, path)


@pytest.mark.parametrize("row", ["2", "2,", "2,17,1"])
def test_target_rows_that_are_cut(tmp_path, row):
    write_lastfm(tmp_path)
    path = tmp_path / "lastfm_asia" / "lastfm_asia_target.csv"
    path.write_text(f"id,target\n0,17\n1,3\n{row}\n")
    assert "expected a target for each id" in assert_cannot_load("lastfm_asia", tmp_path, path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"0": [1], "1": [0], "1": [2]}', "each key of a JSON object once"),
        ('{"0": [1], "01": [0], "2": []}', "node numbers 0 to 2 as keys"),
        ("[[1], [0], [2]]", "expected one JSON object"),
        ('{"0": [1], "1": [-1], "2": []}', "integers from 0 to 999999"),
        ('{"0": [1], "1": [1000000], "2": []}', "integers from 0 to 999999"),
        ('{"0": [1], "1": [0.5], "2": []}', "integers from 0 to 999999"),
        ('{"0": [1], "1": "23", "2": []}', "integers from 0 to 999999"),
    ],
)
def test_feature_lists_of_another_form(tmp_path, content, said):
    path = write_lastfm(tmp_path)
    path.write_text(content)
    assert said in assert_cannot_load("lastfm_asia", tmp_path, path)


def test_directed_keeps_direction_and_loops(tmp_path):
    (tmp_path / "directed").mkdir()
    (tmp_path / "directed" / "mail.txt").write_text("0 1\n2 2\n3 0\n")
    (tmp_path / "directed" / "mail-department-labels.txt").write_text("1 10\n0 2\n2 2\n3 10\n")
    graph = load_dataset("directed/mail", tmp_path)
    assert graph.directed
    assert graph.indices.tolist() == [1, 2, 0]
    assert (graph.classes, graph.y.tolist()) == (("2", "10"), [0, 1, 0, 1])


def test_text_ignores_citations_of_unknown_papers_and_keeps_blank_labels(tmp_path):
    folder = tmp_path / "text" / "citeseer_text"
    folder.mkdir(parents=True)
    (folder / "citeseer_texts.txt").write_text("p1\nSome text\nML\np2\nMore\nDB\n")
    (folder / "citeseer.cites").write_text("p1\tp2\np1\tp9\np2\tp2\n")
    graph = load_dataset("text/citeseer_text", tmp_path)
    assert (graph.num_edges, graph.node_ids.tolist(), graph.classes) == (1, ["p1", "p2"], ("DB", "ML"))
    folder = tmp_path / "text" / "cora_cane"
    folder.mkdir()
    (folder / "group.txt").write_text("1\n\n0")
    (folder / "data.txt").write_text("one\n\nthree\n")
    (folder / "graph.txt").write_text("0\t1\n2\t1\n")
    assert load_dataset("text/cora_cane", tmp_path).y.tolist() == [1, -1, 0]


def test_min_class_size_drops_small_classes_and_keeps_unlabelled_nodes(tmp_path):
    folder = tmp_path / "text" / "cora_cane"
    folder.mkdir(parents=True)
    (folder / "group.txt").write_text("5\n\n3\n5\n7\n7")
    (folder / "data.txt").write_text("a\nb\nc\nd\ne\nf\n")
    (folder / "graph.txt").write_text("0\t1\n1\t2\n2\t3\n3\t4\n")
    graph = load_dataset("text/cora_cane", tmp_path, min_class_size=2)
    assert graph.node_ids.tolist() == [0, 1, 3, 4, 5]
    assert (graph.classes, graph.y.tolist()) == (("5", "7"), [0, -1, 0, 1, 1])
    assert (graph.indptr.tolist(), graph.indices.tolist()) == ([0, 1, 2, 3, 4, 4], [1, 0, 3, 2])
    with pytest.raises(DataError, match="min_class_size=3"):
        load_dataset("text/cora_cane", tmp_path, min_class_size=3)


def test_campus_needs_no_files():
    graph = load_dataset("campus")
    assert (graph.name, graph.num_nodes) == ("campus", 4000)
    assert load_dataset("campus", min_class_size=600).num_classes < 6


def test_listed_counts_of_generated_graphs():
    listed = {row.name: row for row in list_datasets()}
    for name in ("campus", "interests"):
        graph, row = load_dataset(name), listed[name]
        assert graph.name == name
        assert (row.num_nodes, row.num_arcs, row.num_features, row.num_classes, row.present) == (
            graph.num_nodes, graph.num_arcs, graph.num_features, graph.num_classes, True,
        )  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (("facebook", "."), "Expected dataset to be a name .*, got 'facebook'"),
        (("facebook100/", "."), "sfumato datasets"),
        (("facebook100/../x", "."), "Expected dataset"),
        (("planetoid/../../cora", "."), "Expected dataset"),
        (("lastfm_asia/x", "."), "Expected dataset"),
        (("npz/cora_ml", None), "Expected data_dir for dataset npz/cora_ml"),
        (("npz/absent", "."), r"Cannot load npz/absent: Expected a file at .*absent\.npz, found none"),
        (
            ("facebook100/Absent1", "."),
            r"Cannot load facebook100/Absent1: Expected a file at .*Absent1\.mat, found none",
        ),
    ],
)
def test_wrong_names_teach(arguments, match):
    with pytest.raises(InputError, match=match) as caught:
        load_dataset(*arguments)
    assert "\n" not in str(caught.value)


def test_wrong_options_teach(tmp_path):
    with pytest.raises(InputError, match="Expected min_class_size to be an integer >= 0"):
        load_dataset("campus", min_class_size=-1)
    with pytest.raises(InputError, match="Expected split to be None for campus"):
        load_dataset("campus", split="public")
    with pytest.raises(InputError, match="Expected split to be one of public"):
        load_dataset("planetoid/cora", tmp_path, split="random")


def assert_cannot_load(name, root, path):
    with pytest.raises(DataError) as caught:
        load_dataset(name, root)
    message = str(caught.value)
    assert message.startswith(f"Cannot load {name}: ")
    assert str(path) in message
    assert "\n" not in message
    return message


def test_broken_mat_files(tmp_path):
    path = write_school(tmp_path, "Reed98", [(0, 1), (1, 2)], INFO)
    content = path.read_bytes()
    for length in (0, 50, 128, 200, len(content) // 2, len(content) - 8):
        path.write_bytes(content[:length])
        assert "truncated" in assert_cannot_load("facebook100/Reed98", tmp_path, path)
    scipy.io.savemat(path, {"A": scipy.sparse.eye(3, format="csc"), "local_info": np.ones((4, 7))})
    assert "local_info" in assert_cannot_load("facebook100/Reed98", tmp_path, path)
    scipy.io.savemat(path, {"other": np.ones(3)})
    assert_cannot_load("facebook100/Reed98", tmp_path, path)


def test_broken_planetoid_files(tmp_path):
    write_planetoid(tmp_path)
    folder = tmp_path / "planetoid"
    (folder / "ind.tiny.test.index").write_text("4\n9\n")
    assert_cannot_load("planetoid/tiny", tmp_path, folder / "ind.tiny.test.index")
    (folder / "ind.tiny.graph").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    assert "'os.system'" in assert_cannot_load("planetoid/tiny", tmp_path, folder / "ind.tiny.graph")
    (folder / "ind.tiny.ty").unlink()
    assert "found none" in assert_cannot_load("planetoid/tiny", tmp_path, folder / "ind.tiny.ty")


def test_broken_csv_json_and_npz_files(tmp_path):
    write_musae(tmp_path, "facebook", "facebook", "id,page_type\n0,a\n1,b\n5,a\n")
    folder = tmp_path / "musae" / "facebook"
    assert_cannot_load("musae/facebook", tmp_path, folder / "facebook_target.csv")
    (folder / "facebook.json").write_text('{"0": [1')
    assert_cannot_load("musae/facebook", tmp_path, folder / "facebook.json")
    (tmp_path / "npz").mkdir()
    np.savez(tmp_path / "npz" / "odd.npz", labels=np.arange(3))
    assert "no adjacency" in assert_cannot_load("npz/odd", tmp_path, tmp_path / "npz" / "odd.npz")


@pytest.mark.data
@pytest.mark.parametrize("name", COUNTS)
def test_published_counts(name, data_dir):
    graph = load_dataset(name, data_dir)
    counts = (graph.num_nodes, graph.num_arcs, graph.num_features, graph.num_classes, graph.merged["self_loops"])
    assert counts == COUNTS[name]
    assert graph.name == name
    assert graph.directed == name.startswith("directed/")
    assert graph.assumed_public == ()
    assert np.unique(graph.y[graph.y >= 0]).tolist() == list(range(graph.num_classes))
    if school := DEGREES.get(name.partition("/")[2]):
        degree = np.diff(graph.indptr)
        assert (round(float(degree.mean()), 1), float(np.median(degree))) == school


@pytest.fixture(scope="module")
def every_school(data_dir):
    return load_dataset("facebook100/all", data_dir)


@pytest.mark.data
def test_the_table_has_the_published_counts_and_those_of_other_files(every_school, data_dir):
    for row in list_datasets(data_dir):
        if row.name in NOT_HERE and not row.present:
            continue
        assert row.present
        counts = row.num_nodes, row.num_arcs, row.num_features, row.num_classes
        if row.name in COUNTS:
            assert counts == COUNTS[row.name][:4]
        elif row.num_nodes is not None and row.name not in ("planetoid/pubmed", "campus", "interests"):
            graph = every_school if row.name == "facebook100/all" else load_dataset(row.name, data_dir)
            assert counts == (graph.num_nodes, graph.num_arcs, graph.num_features, graph.num_classes), row.name


@pytest.mark.data
def test_every_school_in_detail(every_school, data_dir):
    graph = every_school
    assert {row.partition("/")[0] for row in graph.node_ids} == {
        path.stem for path in (data_dir / "facebook100").glob("*.mat")
    }
    berkeley = load_dataset("facebook100/Berkeley13", data_dir)
    mine = np.char.startswith(graph.node_ids, "Berkeley13/")
    assert np.array_equal(graph.node_ids[mine], np.char.add("Berkeley13/", berkeley.node_ids.astype(str)))
    assert np.array_equal(np.diff(graph.indptr)[mine], np.diff(berkeley.indptr))
    assert np.array_equal(graph.y[mine], berkeley.y)
    assert [name.partition("=")[0] for name in graph.feature_names[:9]] == ["status"] * 6 + ["gender"] * 2 + ["major"]


@pytest.mark.data
def test_berkeley_in_detail(data_dir):
    graph = load_dataset("facebook100/Berkeley13", data_dir)
    assert (np.diff(graph.indptr) == 0).sum() == 41
    assert graph.classes == ("2004", "2005", "2006", "2007", "2008", "2009")
    assert np.bincount(graph.y).min() >= 1000
    assert load_dataset("facebook100/Berkeley13", data_dir, min_class_size=0).num_nodes > 18_980


@pytest.mark.data
def test_codes_of_dropped_students_keep_their_columns(data_dir):
    x = load_dataset("facebook100/BU10", data_dir).x
    assert (np.asarray(x.sum(axis=0)).ravel() == 0).sum() == 3


@pytest.mark.data
def test_planetoid_public_splits(data_dir):
    for name, train, missing in (("cora", 140, 0), ("citeseer", 120, 15)):
        graph = load_dataset(f"planetoid/{name}", data_dir, split="public")
        assert np.bincount(graph.roles)[:3].tolist() == [train, 500, 1000]
        assert len(set(np.bincount(graph.y[graph.train_mask]))) == 1, "as many of each class"
        assert (graph.y == -1).sum() == missing
        assert (np.asarray(graph.x[graph.y == -1].sum(axis=1)) == 0).all()


@pytest.mark.data
def test_pubmed_has_no_features_here(data_dir):
    with pytest.warns(UserWarning, match=r"no ind\.pubmed\.allx"):
        graph = load_dataset("planetoid/pubmed", data_dir, split="public")
    assert (graph.num_nodes, graph.num_edges, graph.num_classes, graph.x) == (19_717, 44_324, 3, None)
    assert np.bincount(graph.roles)[:3].tolist() == [60, 500, 1000]


@pytest.mark.data
def test_class_filter_chameleon_bins_and_blank_labels(data_dir):
    filtered = load_dataset("lastfm_asia", data_dir, min_class_size=200)
    assert (filtered.num_classes, filtered.num_nodes, filtered.num_edges) == (10, 7083, 25_814)
    sizes = np.bincount(load_dataset("musae/wiki_chameleon", data_dir).y)
    assert sizes.min() > 0.15 * 2277
    assert (load_dataset("text/cora_cane", data_dir).y == -1).sum() == 66
