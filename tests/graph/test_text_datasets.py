"""Data sets with texts: small files of the formats of Pokec and of Reddit, and the published files that are here."""

import gzip
import json

import numpy as np
import pytest

from sfumato.datasets._text_parsers import NO_TEXT, POKEC_COLUMNS, favorite
from sfumato.errors import DataError, InputError
from sfumato.graph import list_datasets, load_dataset
from sfumato.privacy.units import NodeLevel

CATS, DOGS, BOTH = "mam macku", "Mám psa", "mam psa, mam macku"


def write_pokec(root, *, zipped=False, cut=False):
    """Seven profiles: user, completion, pets, music."""
    profiles = [
        (1, 60, CATS, "rock and pop"),
        (2, 90, DOGS, "null"),
        (3, 70, BOTH, "jazz"),
        (4, 50, "null", "jazz"),
        (5, 80, CATS, "folk music"),
        (6, 60, CATS, "country"),
        (7, 95, "nemam psa", "techno"),
    ]
    lines = []
    for user, completion, pets, music in profiles:
        cells = dict.fromkeys(POKEC_COLUMNS, "null")
        cells |= {"user_id": str(user), "completion_percentage": str(completion), "pets": pets, "music": music}
        cells |= {"region": "zilinsky kraj, zilina", "hobbies": "sport"}
        lines.append("\t".join(list(cells.values())[: 20 if cut else None]))
    files = {"soc-pokec-profiles.txt": lines, "soc-pokec-relationships.txt": ["1\t2", "2\t1", "5\t2", "3\t1", "6\t9"]}
    folder = root / "text" / "pokec"
    folder.mkdir(parents=True)
    for name, rows in files.items():
        content = "".join(f"{row}\n" for row in rows).encode()
        if zipped:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / name).write_bytes(content)


@pytest.mark.parametrize("zipped", [False, True])
def test_pokec_keeps_the_most_complete_profiles_of_each_class(tmp_path, monkeypatch, zipped):
    monkeypatch.setattr("sfumato.datasets._text_parsers._POKEC_PER_CLASS", 2)
    write_pokec(tmp_path, zipped=zipped)
    graph = load_dataset("text/pokec", tmp_path)
    assert graph.classes == ("cats", "dogs")
    assert graph.node_ids.tolist() == [5, 1, 2], "of users 1 and 6, equally complete, the earlier one"
    assert graph.y.tolist() == [0, 0, 1]
    assert (graph.num_edges, graph.merged["reversed"]) == (2, 1)
    assert {row.name: row.present for row in list_datasets(tmp_path)}["text/pokec"]
    (tmp_path / "words.txt").write_text("folk\nmusic\nmacku\nzilina\nnull\nsport\nrock\n")
    words = load_dataset("text/pokec", tmp_path, text_features=f"bag-of-words:{tmp_path / 'words.txt'}").x.toarray()
    assert words.tolist() == [[1, 1, 0, 0, 0, 1, 0], [0, 0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 1, 0]]


def test_pokec_has_49_columns_of_text():
    assert len(POKEC_COLUMNS) == 59
    assert len(set(POKEC_COLUMNS) - set(NO_TEXT)) == 49
    assert {"user_id", "pets", "last_login"} <= set(NO_TEXT)


@pytest.mark.parametrize(
    ("pets", "expected"),
    [
        ("macka", "cats"),
        ("mačka", "cats"),
        ("MAM MACKU a kocura", "cats"),
        ("pes", "dogs"),
        ("mam psa, fenku", "dogs"),
        ("mam psa, mam macku", None),
        ("mam psa a rybicky", None),
        ("nemam psa", None),
        ("mam rad zvierata", None),
        ("null", None),
        ("", None),
    ],
)
def test_favorite_animals(pets, expected):
    assert favorite(pets) == expected


def test_pokec_files_that_are_absent_or_short(tmp_path):
    with pytest.raises(DataError, match=r"soc-pokec-profiles.txt or .*\.gz .*`sfumato datasets text/pokec` says where"):
        load_dataset("text/pokec", tmp_path)
    write_pokec(tmp_path, cut=True)
    with pytest.raises(DataError, match="a profile of 20 columns, not 59"):
        load_dataset("text/pokec", tmp_path)


def write_reddit(root, num_posts=40, *, numbers=False):
    """Posts on a ring, whose features are their row; rows of the features stand in reverse."""
    ids = [f"t3_{post}" for post in range(num_posts)]
    nodes = [{"id": name, "val": post % 4 == 2, "test": post % 4 == 3} for post, name in enumerate(ids)]
    ends = [(post, (post + 1) % num_posts) for post in range(num_posts)]
    links = [{"source": a if numbers else ids[a], "target": b if numbers else ids[b]} for a, b in ends]
    folder = root / "text" / "reddit"
    folder.mkdir(parents=True)
    graph = {"directed": False, "graph": {}, "multigraph": False, "nodes": nodes, "links": links}
    (folder / "reddit-G.json").write_text(json.dumps(graph))
    (folder / "reddit-class_map.json").write_text(json.dumps({name: post % 3 for post, name in enumerate(ids)}))
    (folder / "reddit-id_map.json").write_text(json.dumps({name: num_posts - 1 - i for i, name in enumerate(ids)}))
    feats = np.arange(num_posts)[::-1, None] * np.array([1.0, -1, 1])
    np.save(folder / "reddit-feats.npy", feats)


@pytest.mark.parametrize("numbers", [False, True])
def test_reddit_is_a_sample_by_a_public_seed(tmp_path, monkeypatch, numbers):
    write_reddit(tmp_path, numbers=numbers)
    sample = load_dataset("text/reddit", tmp_path, split="public")
    assert sample.num_nodes == 4
    monkeypatch.setattr("sfumato.datasets._text_parsers._REDDIT_SHARE", 1.0)
    graph = load_dataset("text/reddit", tmp_path, split="public")
    assert (graph.num_nodes, graph.num_edges, graph.classes) == (40, 40, ("0", "1", "2"))
    posts = np.arange(40)
    np.testing.assert_allclose(graph.x, np.stack([np.log1p(posts), -np.log1p(posts), posts], axis=1), rtol=1e-6)
    assert graph.roles.tolist() == [(0, 0, 1, 2)[post % 4] for post in posts]
    assert graph.y.tolist() == (posts % 3).tolist()
    rows = [graph.node_ids.tolist().index(name) for name in sample.node_ids]
    np.testing.assert_array_equal(sample.x, graph.x[rows])
    assert (sample.y.tolist(), sample.roles.tolist()) == (graph.y[rows].tolist(), graph.roles[rows].tolist())
    assert load_dataset("text/reddit", tmp_path).roles is None


def test_reddit_has_vectors_and_no_texts(tmp_path):
    with pytest.raises(DataError, match=r"reddit-G.json or .*`sfumato datasets text/reddit` says where"):
        load_dataset("text/reddit", tmp_path)
    write_reddit(tmp_path)
    with pytest.raises(DataError, match="vectors are published, and no texts"):
        load_dataset("text/reddit", tmp_path, text_features="hashing")
    (tmp_path / "text" / "reddit" / "reddit-class_map.json").write_text('{"t3_0": [0, 1]}')
    with pytest.raises(DataError, match=r"reddit-class_map.json: TypeError"):
        load_dataset("text/reddit", tmp_path)


def test_other_data_sets_have_no_documents():
    with pytest.raises(InputError, match="Only the data sets under text/ have documents"):
        load_dataset("campus", text_features="hashing")


def test_documents_stay_beside_their_nodes(tmp_path):
    folder = tmp_path / "text" / "cora_cane"
    folder.mkdir(parents=True)
    (folder / "group.txt").write_text("5\n\n3\n5")
    (folder / "graph.txt").write_text("0\t1\n1\t3\n")
    (folder / "data.txt").write_text("apple\n\nbanana\ncherry\n")
    (tmp_path / "words.txt").write_text("apple\nbanana\ncherry\n")
    named = f"bag-of-words:{tmp_path / 'words.txt'}"
    graph = load_dataset("text/cora_cane", tmp_path, text_features=named, min_class_size=2)
    assert graph.node_ids.tolist() == [0, 1, 3]
    assert graph.x.toarray().tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 1]]
    assert (graph.y.tolist(), graph.feature_names[0]) == ([0, -1, 0], "text=apple")
    (folder / "data.txt").write_text("apple\nbanana\n")
    with pytest.raises(DataError, match="2 texts for 4 labels"):
        load_dataset("text/cora_cane", tmp_path)


def test_words_read_off_documents_are_of_the_kept_ones_and_stay_assumed(tmp_path):
    folder = tmp_path / "text" / "cora_cane"
    folder.mkdir(parents=True)
    (folder / "group.txt").write_text("\n".join(["5"] * 12 + ["3"] * 11))
    (folder / "graph.txt").write_text("0\t1\n1\t3\n")
    (folder / "data.txt").write_text("apple\n" * 12 + "banana\n" * 11)
    whole = load_dataset("text/cora_cane", tmp_path, text_features="bag-of-words")
    large = load_dataset("text/cora_cane", tmp_path, text_features="bag-of-words", min_class_size=12)
    assert (whole.feature_names, large.feature_names) == (("text=apple", "text=banana"), ("text=apple",))
    assert large.assumed_public == whole.assumed_public == ("num_features", "categories of column text")
    assert large.public_facts(NodeLevel(arcs="incident")).assumed == large.assumed_public


@pytest.mark.data
@pytest.mark.parametrize(("name", "words"), [("citeseer_text", "agent"), ("cora_cane", "genetic")])
def test_published_texts_separate_classes(data_dir, tmp_path, name, words):
    (tmp_path / "words.txt").write_text(words + "\n")
    graph = load_dataset(f"text/{name}", data_dir, text_features=f"bag-of-words:{tmp_path / 'words.txt'}")
    has = graph.x.toarray()[:, 0] > 0
    shares = [has[graph.y == label].mean() for label in range(graph.num_classes)]
    assert max(shares) > 5 * np.median(shares)
