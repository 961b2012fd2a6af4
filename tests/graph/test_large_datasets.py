"""Elliptic, Flickr, Reddit, Amazon: small files of their published formats, made here; others are refused in one line."""

import gzip
import json

import numpy as np
import pytest
import scipy.sparse

from sfumato.datasets._listing import list_datasets
from sfumato.datasets._loading import load_dataset
from sfumato.errors import DataError, InputError

PATH = scipy.sparse.csr_matrix(np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 1]]))


def write_elliptic(
    root,
    columns=167,
    labels=("700,unknown", "500,1", "900,2"),
    edges=("txId1,txId2", "500,900", "900,700"),
    first_id=900,
):
    folder = root / "elliptic"
    folder.mkdir(exist_ok=True)
    rows = [[first_id, 1], [500, 1], [700, 2]]
    lines = [",".join(map(str, [*row, *(0.25 * row[1] + place for place in range(columns - 2))])) for row in rows]
    (folder / "elliptic_txs_features.csv").write_text("\n".join(lines))
    (folder / "elliptic_txs_classes.csv").write_text("\n".join(['"txId","class"', *labels]))
    (folder / "elliptic_txs_edgelist.csv").write_text("\n".join(edges))
    return folder


def write_flickr(root, kinds=(5, 2, 5, 0)):
    folder = root / "flickr"
    folder.mkdir(exist_ok=True)
    scipy.sparse.save_npz(folder / "adj_full.npz", PATH)
    np.save(folder / "feats.npy", np.arange(8.0).reshape(4, 2))
    (folder / "class_map.json").write_text(
        json.dumps({str(node): kind for node, kind in reversed([*enumerate(kinds)])})
    )
    (folder / "role.json").write_text(json.dumps({"tr": [0, 3], "va": [1], "te": [2]}))
    return folder


def write_reddit(root, labels=(3, 3, 1, 3)):
    folder = root / "reddit"
    folder.mkdir(exist_ok=True)
    scipy.sparse.save_npz(folder / "reddit_graph.npz", PATH.tocoo())
    types = np.array([1, 1, 2, 3])
    np.savez(folder / "reddit_data.npz", feature=np.arange(8.0).reshape(4, 2), label=np.array(labels), node_types=types)
    return folder


def write_amazon(root, columns=100, labels=(4, 0, 4), edges=("0,1", "2,1")):
    folder = root / "amazon" / "raw"
    folder.mkdir(parents=True, exist_ok=True)
    features = [",".join(str(node + place / 8) for place in range(columns)) for node in range(3)]
    for name, lines in (("edge", edges), ("node-feat", features), ("node-label", map(str, labels))):
        with gzip.open(folder / f"{name}.csv.gz", "wt") as file:
            file.write("\n".join(lines))
    return folder


def refused(name, root, said, **options):
    with pytest.raises(DataError, match=said) as caught:
        load_dataset(name, root, **options)
    message = str(caught.value)
    assert message.startswith(f"Cannot load {name}: ")
    assert "\n" not in message


def test_elliptic(tmp_path):
    write_elliptic(tmp_path)
    graph = load_dataset("elliptic", tmp_path)
    assert (graph.num_nodes, graph.num_edges, graph.num_features, graph.directed) == (3, 2, 166, False)
    assert graph.node_ids.tolist() == [900, 500, 700]
    assert (graph.classes, graph.y.tolist()) == (("illicit", "licit"), [1, 0, -1])
    assert graph.x[:, :3].tolist() == [[1, 0.25, 1.25], [1, 0.25, 1.25], [2, 0.5, 1.5]], "the time step comes first"
    assert graph.indices.tolist() == [1, 2, 0, 0]


def test_flickr(tmp_path):
    write_flickr(tmp_path)
    graph = load_dataset("flickr", tmp_path)
    assert (graph.num_nodes, graph.num_edges, graph.roles) == (4, 2, None)
    assert graph.merged["self_loops"] == 1
    assert (graph.classes, graph.y.tolist()) == (("0", "2", "5"), [2, 1, 2, 0])
    assert graph.x.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert load_dataset("flickr", tmp_path, split="public").roles.tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize("ids", ["[4]", "[-1]", "[2.0]", '["2"]', "[true]", "[1]", "[2, 2]"])
def test_roles_that_are_no_nodes_or_overlap_are_refused(tmp_path, ids):
    (write_flickr(tmp_path) / "role.json").write_text(f'{{"tr": [0], "va": [1], "te": {ids}}}')
    refused("flickr", tmp_path, r"role\.json: .*integers from 0 to 3, each in one role at most")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": b"csc"}, "expected a matrix of format csr, found csc"),
        ({"format": b"bsr"}, "expected a matrix of format csr, found bsr"),
        ({"indptr": PATH.indptr[:-1]}, r"expected 5 row pointers that end at 5, found 4 that end at 4"),
        ({"indptr": [*PATH.indptr, 5]}, r"expected 5 row pointers that end at 5, found 6 that end at 5"),
        ({"indptr": [0, 1, 3, 4, 4]}, r"expected 5 row pointers that end at 5, found 5 that end at 4"),
        ({"data": [1, 1, 1, 1]}, "5 sources, 5 targets and 4 entries"),
    ],
)
def test_a_damaged_matrix_is_refused(tmp_path, changes, said):
    path = write_flickr(tmp_path) / "adj_full.npz"
    np.savez(path, **(dict(np.load(path)) | changes))
    refused("flickr", tmp_path, rf"adj_full\.npz: .*{said}")


def test_zeros_that_a_matrix_stores_are_no_edges(tmp_path):
    matrix = PATH.copy()
    matrix[[0, 1], [1, 0]] = 0
    assert matrix.nnz == 5
    scipy.sparse.save_npz(write_flickr(tmp_path) / "adj_full.npz", matrix)
    scipy.sparse.save_npz(write_reddit(tmp_path) / "reddit_graph.npz", matrix.tocoo())
    for name in ("flickr", "reddit"):
        assert load_dataset(name, tmp_path, min_class_size=0).indices.tolist() == [2, 1]
    matrix[0, 1] = 1
    scipy.sparse.save_npz(tmp_path / "flickr" / "adj_full.npz", matrix)
    refused("flickr", tmp_path, "Expected both arcs of every edge")


def test_reddit(tmp_path):
    write_reddit(tmp_path)
    graph = load_dataset("reddit", tmp_path, min_class_size=0)
    assert (graph.num_nodes, graph.num_edges, graph.classes, graph.y.tolist()) == (4, 2, ("1", "3"), [1, 1, 0, 1])
    assert graph.x.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    large = load_dataset("reddit", tmp_path, min_class_size=2)
    assert (large.classes, large.node_ids.tolist(), large.num_edges) == (("3",), [0, 1, 3], 1)
    refused("reddit", tmp_path, "min_class_size=10000")


def test_amazon(tmp_path):
    write_amazon(tmp_path)
    graph = load_dataset("amazon", tmp_path, min_class_size=0)
    assert (graph.num_nodes, graph.num_edges, graph.num_features) == (3, 2, 100)
    assert (graph.classes, graph.y.tolist()) == (("0", "4"), [1, 0, 1])
    assert graph.x[2, :3].tolist() == [2, 2.125, 2.25]
    assert (graph.indptr.tolist(), graph.indices.tolist()) == ([0, 1, 3, 4], [1, 0, 2, 1])
    refused("amazon", tmp_path, "min_class_size=100000")


WRITERS = {"elliptic": write_elliptic, "flickr": write_flickr, "reddit": write_reddit, "amazon": write_amazon}
SMALLEST = r"\.(npz|csv\.gz): .*expected labels to be (integers|whole numbers) >= 0"
OTHER = [
    ("elliptic", {"columns": 166}, r"elliptic_txs_features\.csv: .*166 columns, not 167"),
    ("elliptic", {"labels": ("700,unknown", "500,1")}, r"elliptic_txs_classes\.csv: .*one for each transaction"),
    ("elliptic", {"labels": ("700,unknown", "500,1", "900,3")}, r"elliptic_txs_classes\.csv: .*1, 2 or unknown"),
    ("elliptic", {"labels": ("700,unknown", "500,1", "901,2")}, r"elliptic_txs_classes\.csv: .*not among those of"),
    (
        "elliptic",
        {"labels": ("700,unknown", "500,1", "500,2")},
        r"elliptic_txs_classes\.csv: .*a transaction has no row",
    ),
    ("elliptic", {"first_id": 900.5}, r"elliptic_txs_features\.csv: .*expected ids to be (integers|whole numbers)"),
    ("elliptic", {"edges": ("txId1,txId2", "500,800")}, r"elliptic_txs_edgelist\.csv: .*not among those of"),
    ("elliptic", {"edges": ("500,900", "900,700")}, r"a header .* in the first line of .*elliptic_txs_edgelist\.csv"),
    ("flickr", {"kinds": (5, 2, 5)}, r"class_map\.json: .*one class number for each of 4 nodes"),
    ("flickr", {"kinds": ([1, 0], [0, 1], [1, 1], [0, 0])}, r"class_map\.json: .*one class number"),
    ("flickr", {"kinds": (5, 2, 5, -1)}, r"class_map\.json: .*one class number"),
    ("reddit", {"labels": (3, 3, 1)}, r"reddit_data\.npz: .*for 4 nodes of reddit_graph\.npz"),
    *(("reddit", {"labels": (3, 3, 1, last)}, "reddit_data" + SMALLEST) for last in (-1, 0.5, np.nan)),
    ("amazon", {"columns": 99}, r"node-feat\.csv\.gz: .*\(3, 99\), not \[3, 100\]"),
    ("amazon", {"edges": ("0,1,2",)}, r"edge\.csv\.gz: .*3 columns, not 2"),
    ("amazon", {"labels": (4, 0)}, r"node-feat\.csv\.gz: .*one row for each label"),
    *(("amazon", {"labels": (4, 0, last)}, "node-label" + SMALLEST) for last in (-1, 0.5, "nan")),
]


@pytest.mark.parametrize(("name", "changes", "said"), OTHER)
def test_another_form_is_refused(tmp_path, name, changes, said):
    WRITERS[name](tmp_path, **changes)
    refused(name, tmp_path, said)


@pytest.mark.parametrize(
    ("name", "file", "change", "said"),
    [
        ("flickr", "class_map.json", lambda path: path.write_text('{"0": 1, "1": 1, "2": 1, "3": 1, "3": 0}'),
         r"class_map\.json: .*each key of a JSON object once"),
        ("flickr", "feats.npy", lambda path: np.save(path, np.zeros((3, 2))), r"feats\.npy: .*\(3, 2\) for 4 nodes"),
        ("flickr", "adj_full.npz", lambda path: scipy.sparse.save_npz(path, PATH[:3]),
         r"adj_full\.npz: .*\[3, 4\], which is not square"),
        ("reddit", "reddit_data.npz", lambda path: np.savez(path, feature=np.zeros((4, 2))), r"reddit_data\.npz: .*label"),
        ("amazon", "edge.csv.gz", lambda path: path.write_bytes(path.read_bytes()[:-5]), r"edge\.csv\.gz"),
    ],
)  # fmt: skip
def test_a_file_of_another_form_is_refused(tmp_path, name, file, change, said):
    change(WRITERS[name](tmp_path) / file)
    refused(name, tmp_path, said)


@pytest.mark.parametrize(
    ("name", "gone"),
    [
        ("elliptic", "elliptic_txs_classes.csv"),
        ("flickr", "role.json"),
        ("reddit", "reddit_data.npz"),
        ("amazon", "node-label.csv.gz"),
    ],
)
def test_a_missing_file_is_named_with_who_says_where_to_get_it(tmp_path, name, gone):
    folder = WRITERS[name](tmp_path)
    assert next(row for row in list_datasets(tmp_path) if row.name == name).present
    (folder / gone).unlink()
    refused(name, tmp_path, rf"Expected .* in {folder}, but {gone} is not there\. `sfumato datasets {name}` says where")
    for path in folder.iterdir():
        path.unlink()
    refused(name, tmp_path, "are not there")
    assert not next(row for row in list_datasets(tmp_path) if row.name == name).present


def test_names_and_splits_that_do_not_fit(tmp_path):
    with pytest.raises(InputError, match="Expected dataset"):
        load_dataset("reddit/x", tmp_path)
    with pytest.raises(InputError, match="Expected split to be None for amazon"):
        load_dataset("amazon", tmp_path, split="public")
