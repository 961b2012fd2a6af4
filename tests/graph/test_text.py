"""Encoders of texts against values computed by hand, their files, and their place in a graph."""

import gzip
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from sfumato import _optional
from sfumato.errors import DataError, InputError, MissingDependencyError
from sfumato.graph import Graph, read_csv, read_parquet, read_sql
from sfumato.privacy.units import EdgeLevel, NodeLevel
from sfumato.tables._io import read_texts
from sfumato.tables._newcomers import Newcomers, read_new_nodes
from sfumato.text._bags import BagOfWords, Hashing, TfIdf, inverse_frequencies, read_vocabulary
from sfumato.text._documents import Documents, words
from sfumato.text._embeddings import SentenceTransformer, Transformer, WordVectors
from sfumato.text._encoders import absolute, encoder_named, save_features, with_texts
from sfumato.text._token_vectors import WordLlama

TEXTS = Documents(("text",), [("Cats, cats and a dog",), ("",), ("dog",), ("unknown thing",)])
GLOVE = "cats 1 0\ndog 0.5 -2\nand 0 3\n"


def dense(encoded):
    return encoded.x.toarray() if sp.issparse(encoded.x) else encoded.x


def test_words_are_runs_of_two_letters_or_more_in_lower_case():
    assert words("A B-cell, 20,000 Mačky\n") == ["cell", "20", "000", "mačky"]
    assert list(map(len, words("a" * 250))) == [100, 100, 50]


def test_hashing_adds_signed_counts_and_divides_by_the_norm():
    x = dense(Hashing(1024).encode(TEXTS))
    assert x.dtype == np.float32
    np.testing.assert_allclose(np.sort(np.abs(x[0]))[-3:], np.array([1, 1, 2]) / np.sqrt(6), rtol=1e-6)
    assert not x[1].any()
    assert np.count_nonzero(x[2]) == 1
    assert np.abs(x[0] @ x[2]) == pytest.approx(1 / np.sqrt(6)), "the same word goes to the same column"


@pytest.mark.parametrize(
    "encoder",
    [Hashing(64), BagOfWords(("cats", "dog")), TfIdf(("cats", "dog"), (1.0, 2.0))],
    ids=lambda one: type(one).__name__,
)
def test_a_row_depends_on_its_own_texts_alone(encoder):
    other = Documents(("text",), [*TEXTS.rows[:2], ("a text of other words",), ("cats",)])
    assert not encoder.learned
    np.testing.assert_array_equal(dense(encoder.encode(TEXTS))[:2], dense(encoder.encode(other))[:2])
    np.testing.assert_array_equal(dense(encoder.encode(TEXTS)), dense(encoder.encode(TEXTS)))


def test_a_vocabulary_that_is_read_off_the_texts_is_assumed_public():
    rows = [("graph of words",)] * 9 + [("a graph words",), ("rare",), ("",)]
    found = BagOfWords().encode(Documents(("abstract",), rows))
    assert BagOfWords().learned
    assert found.names == ("abstract=graph", "abstract=words")
    assert found.assumed == ("num_features", "categories of column abstract")
    assert dense(found)[8:].tolist() == [[1, 1], [1, 1], [0, 0], [0, 0]]
    with pytest.raises(DataError, match=r"at least 10 documents, found none. Use hashing"):
        BagOfWords().encode(TEXTS)


def test_tf_idf_weighs_counts_and_divides_by_the_norm():
    found = TfIdf(("cats", "dog", "bird"), (1.0, 3.0, 9.0)).encode(TEXTS)
    assert found.names == ("text=cats", "text=dog", "text=bird")
    expected = [np.array([2, 3, 0]) / np.sqrt(13), [0, 0, 0], [0, 1, 0], [0, 0, 0]]
    np.testing.assert_allclose(dense(found), expected, rtol=1e-6)
    with pytest.raises(InputError, match=r"one weight a word \(2\), got 1"):
        TfIdf(("cats", "dog"), (1.0,))


def test_inverse_frequencies_of_a_public_corpus():
    weights = inverse_frequencies(["the graph", "the edge", "the the node"])
    assert weights["the"] == 1
    assert weights["graph"] == pytest.approx(1 + np.log(4 / 2))


def test_vocabularies_with_and_without_weights(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("Cats\n\ndog\n")
    assert read_vocabulary(path) == (("cats", "dog"), None)
    path.write_text("cats\t1.5\ndog\t0\n")
    assert read_vocabulary(path) == (("cats", "dog"), (1.5, 0.0))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "0 words and 0 weights"),
        ("cats\ncats\n", "got 'cats' again in line 2"),
        ("cats\t1\ndog\n", "2 words and 1 weights"),
        ("cats\tx\n", "but line 1 of those"),
        ("cats\tnan\n", "but line 1 of those"),
        ("cats\t-1\n", "but line 1 of those"),
        ("cats\t1\t2\n", "but line 1 of those"),
        ("two words\n", "but line 1 of those"),
        ("a\n", "but line 1 of those"),
    ],
)
def test_a_malformed_vocabulary_is_refused(tmp_path, content, message):
    path = tmp_path / "words.txt"
    path.write_text(content)
    with pytest.raises(DataError, match=message):
        read_vocabulary(path)


def test_a_vocabulary_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "words").write_bytes(b"caf\xe9\n")
    for name, reason in (("words", "no UTF-8 text"), ("absent", "No such file")):
        with pytest.raises(DataError, match=reason):
            read_vocabulary(tmp_path / name)


@pytest.mark.parametrize("kind", ["glove", "fasttext", "gzip"])
def test_word_vectors_are_averaged_over_the_words_that_the_file_has(tmp_path, kind):
    path = tmp_path / f"vectors.{kind.replace('gzip', 'gz')}"
    content = GLOVE + "dog 7 7\nat home 1 2\n. . . 1 2\n\n"
    if kind == "fasttext":
        content = "6 2\n" + content
    path.write_bytes(gzip.compress(content.encode()) if kind == "gzip" else content.encode())
    found = WordVectors(str(path)).encode(Documents(("text",), [*TEXTS.rows, ("at home",)]))
    np.testing.assert_allclose(found.x, [[2.5 / 4, 1 / 4], [0, 0], [0.5, -2], [0, 0], [0, 0]], rtol=1e-6)
    assert found.names == (f"text:{path.name}:0", f"text:{path.name}:1")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("cats 1 0\ndog 1\n", "a word and 2 finite numbers in each line .* but line 2"),
        ("cats 1 0\ndog 1 2 3\n", "but line 2"),
        ("cats 1 0\nbird 1\n", "but line 2"),  # also of a word that stands in no text
        ("cats\n", "at least one number in each line .* but line 1"),
        (b"\x80\xff binary", "no text"),
    ],
)
def test_malformed_word_vectors_are_refused(tmp_path, content, message):
    path = tmp_path / "vectors.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=message):
        WordVectors(str(path)).encode(TEXTS)


@pytest.mark.parametrize("number", ["x", "nan", "inf", "1e39"])
def test_numbers_that_cannot_be_read_tell_nothing_of_the_texts(tmp_path, number):
    """An error would say that the word of that line stands in a document."""
    (tmp_path / "v.txt").write_text(f"cats 1 0\ndog 1 {number}\n")
    found = WordVectors(str(tmp_path / "v.txt")).encode(Documents(("text",), [("cats dog",), ("cats",), ("dog",)]))
    assert found.x.tolist() == [[1, 0], [1, 0], [0, 0]]


def test_progress_of_word_vectors_counts_lines(tmp_path, monkeypatch):
    monkeypatch.setattr("sfumato.text._embeddings._STEP", 2)
    (tmp_path / "v.txt").write_text(GLOVE)
    seen = []
    WordVectors(str(tmp_path / "v.txt")).encode(TEXTS, lambda *step: seen.append(step))
    assert seen == [("read word vectors", 2, 2)]


class FakeTokens(dict):
    """What a tokenizer returns: one token for each letter, and one that the mask hides."""

    def __init__(self, text, limit):
        import torch

        letters = [ord(letter) for letter in text][: limit - 1]
        mask = torch.tensor([[1] * len(letters) + [0]])
        super().__init__(input_ids=torch.tensor([[*letters, 9]]), attention_mask=mask)


class FakePackage:
    """A stand-in for both packages: the state of a token is (its number, 1)."""

    def __init__(self):
        self.calls = []

    def from_pretrained(self, model):
        if model == "absent":
            raise OSError("absent is not a local folder\nand is not a model")
        return self

    model_max_length = 10**30
    config = SimpleNamespace(max_position_embeddings=3)

    def eval(self):
        return self

    def __call__(self, text=None, **given):
        import torch

        if text is not None:
            self.calls.append(text)
            return FakeTokens(text, given["max_length"])
        tokens = given["input_ids"].double()
        return SimpleNamespace(last_hidden_state=torch.stack([tokens, torch.ones_like(tokens)], dim=-1))

    def encode(self, texts, show_progress_bar):
        self.calls += texts
        return [[len(texts[0]), 1.0]]


@pytest.fixture
def fake(monkeypatch):
    """Both packages, replaced."""
    package = FakePackage()
    kinds = {"AutoTokenizer": package, "AutoModel": package, "SentenceTransformer": package.from_pretrained}
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(**kinds))
    monkeypatch.setitem(sys.modules, "sentence_transformers", SimpleNamespace(**kinds))
    return package


PROFILES = Documents(("music", "films"), [("a", "c"), ("", "c"), ("", " "), ("abc", "abc")])


def test_a_transformer_averages_tokens_that_the_mask_keeps_then_columns(fake):
    seen = []
    found = Transformer("tiny").encode(PROFILES, lambda *step: seen.append(step))
    a, b, c = 97, 98, 99
    np.testing.assert_allclose(found.x, [[(a + c) / 2, 1], [c, 1], [0, 0], [(a + b) / 2, 1]])
    assert found.names == ("music+films:tiny:0", "music+films:tiny:1")
    assert fake.calls.count("c") == 1, "equal texts are encoded once"
    assert seen[-1] == ("encode texts", 4, 4)


def test_a_sentence_transformer_averages_columns(fake):
    found = SentenceTransformer("folder/tiny").encode(PROFILES)
    np.testing.assert_allclose(found.x, [[1, 1], [1, 1], [0, 0], [3, 1]])
    assert found.names[0] == "music+films:tiny:0"
    for encoder in (SentenceTransformer, Transformer):
        with pytest.raises(InputError, match=r"'absent' .* cannot be loaded \(absent is not a local folder and is not"):
            encoder("absent").encode(PROFILES)


@pytest.mark.parametrize(
    ("encoder", "package", "remedy"),
    [
        (Transformer("tiny"), "transformers", r"'sfumato\[text\]'"),
        (SentenceTransformer("tiny"), "sentence_transformers", "sentence-transformers"),
        (WordLlama(), "tokenizers", r"'sfumato\[text\]'"),
    ],
)
def test_an_absent_package_names_its_remedy(encoder, package, remedy, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependencyError, match=f"pip install {remedy}$"):
        encoder.encode(PROFILES)


def test_a_package_that_does_not_fit_the_others_names_its_remedy(monkeypatch):
    real = _optional.import_module

    def fails(name):
        if name == "transformers":
            raise ImportError("tokenizers>=0.22 is required,\n but found 0.19")
        return real(name)

    monkeypatch.setattr(_optional, "import_module", fails)
    told = (
        r"does not work .* \(tokenizers>=0.22 is required, but found 0.19\).* pip install --upgrade 'sfumato\[text\]'$"
    )
    with pytest.raises(MissingDependencyError, match=told):
        Transformer("tiny").encode(PROFILES)


def test_a_real_tiny_network(tmp_path):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    import torch

    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cats", "dog"]
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = transformers.BertConfig(vocab_size=len(vocabulary), max_position_embeddings=16, **sizes)
    network = transformers.BertModel(config).eval()
    network.save_pretrained(tmp_path / "tiny")
    found = Transformer(str(tmp_path / "tiny")).encode(Documents(("a", "b"), [("cats dog", ""), ("dog", "cats " * 99)]))
    with torch.no_grad():
        states = network(torch.tensor([[2, 5, 6, 3]])).last_hidden_state[0]
    np.testing.assert_allclose(found.x[0], states.mean(0), rtol=1e-5, atol=1e-6)
    assert found.x.shape == (2, 8)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hash", "one of hashing, bag-of-words"),
        ("hashing:many", "to be hashing:COLUMNS"),
        ("hashing:0", "num_columns to be an integer >= 1"),
        ("tf-idf", "to name a file too"),
        ("word-vectors", "to name a file too"),
        ("transformer", "to name a folder or hub name too"),
        ("wordllama:256", "to be wordllama alone"),
        ("bag-of-words:absent.txt", "there is none at 'absent.txt'"),
        ("word-vectors:absent.txt", "there is none at 'absent.txt'"),
        ("absent.npz", "there is none at 'absent.npz'"),
    ],
)
def test_a_wrong_name_of_an_encoder_is_refused(name, message):
    with pytest.raises(InputError, match=message):
        encoder_named(name)


def test_names_of_encoders(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("cats\ndog\n")
    assert encoder_named("hashing") == Hashing(4096)
    assert encoder_named("bag-of-words") == BagOfWords()
    assert encoder_named(f"bag-of-words:{path}") == BagOfWords(("cats", "dog"))
    assert encoder_named(f"word-vectors:{path}") == WordVectors(str(path))
    assert encoder_named("wordllama") == WordLlama()
    assert encoder_named("sentence-transformer:name") == SentenceTransformer("name")
    with pytest.raises(DataError, match="sfumato text vocabulary"):
        encoder_named(f"tf-idf:{path}")
    path.write_text("cats\t2\n")
    assert encoder_named(f"tf-idf:{path}") == TfIdf(("cats",), (2.0,))


def test_absolute_names_mean_the_same_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.npz").touch()
    assert absolute("a.npz") == str(tmp_path / "a.npz")
    (tmp_path / "words.txt").touch()
    assert absolute("tf-idf:words.txt") == f"tf-idf:{tmp_path / 'words.txt'}"
    assert absolute("transformer:hub/name") == "transformer:hub/name"
    assert absolute("hashing") == "hashing"


@pytest.fixture
def tables(written, tmp_path):
    rows = ["id,title,age,notes,topic", "p1,Cats and dog,3,,x", 'p2,"dog, of 007",4,007,y', "p3,,5,thing cats,x"]
    (tmp_path / "words.txt").write_text("007\ncats\ndog\n")
    return written("\n".join(rows) + "\n", "a,b\np1,p2\np3,p2\n")


def test_texts_stand_after_the_other_features_and_are_no_categories(tables, tmp_path):
    how = {"label": "topic", "text": ["title", "notes"], "text_features": f"bag-of-words:{tmp_path / 'words.txt'}"}
    graph = read_csv(*tables, **how)
    assert graph.feature_names == ("age", "title+notes=007", "title+notes=cats", "title+notes=dog")
    expected = [[3, 0, 1, 1], [4, 1, 0, 1], [5, 0, 1, 0]]
    assert graph.x.toarray().tolist() == expected
    assumed = graph.assumed_public
    assert assumed == ("num_features", "classes", "rare classes"), "age is no column of a schema; words are public"
    alone = read_csv(*tables, **{**how, "text": ["title"], "features": []})
    assert alone.feature_names == ("title=007", "title=cats", "title=dog")
    assert alone.assumed_public == ("classes", "rare classes")
    read = read_csv(*tables, **{**how, "text_features": "hashing", "features": []})
    assert (sp.issparse(read.x), read.x.shape) == (True, (3, 4096))


def test_parquet_and_sql_read_texts_too(tables, tmp_path):
    import duckdb

    texts = {"text": ["title"], "text_features": "hashing:32", "features": []}
    with duckdb.connect() as connection:
        for path in tables:
            connection.read_csv(str(path)).write_parquet(str(path.with_suffix(".parquet")))
        queries = [f"SELECT * FROM '{path}'" for path in tables]
        from_sql = read_sql(connection, *queries, **texts)
    from_parquet = read_parquet(*(path.with_suffix(".parquet") for path in tables), **texts)
    from_csv = read_csv(*tables, **texts)
    for graph in (from_sql, from_parquet):
        np.testing.assert_array_equal(graph.x.toarray(), from_csv.x.toarray())


def test_certificates_list_a_vocabulary_under_units_that_protect_features(written):
    rows = "".join(f"{i},some graph words,{i % 2}\n" for i in range(20))
    schema, files = {"classes": ["0", "1"]}, written("id,abstract,topic\n" + rows, "a,b\n0,1\n")
    texts = {"text": ["abstract"], "schema": schema, "label": "topic"}
    graph = read_csv(*files, text_features="bag-of-words", **texts)
    assert graph.feature_names == ("abstract=graph", "abstract=some", "abstract=words")
    node, edge = NodeLevel(3), EdgeLevel(directed=False)
    assert graph.public_facts(node).assumed == ("num_features", "categories of column abstract")
    assert graph.public_facts(edge).assumed == ()
    assert read_csv(*files, text_features="hashing", **texts).public_facts(node).assumed == ()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"text": ["abstract"]}, "together, got text="),
        ({"text_features": "hashing"}, "together, got text="),
        ({"text": ["titel"], "text_features": "hashing"}, "Did you mean 'title'"),
        (
            {"text": ["age"], "text_features": "hashing", "features": []},
            "'age' to hold words that hashing knows, found none",
        ),
        (
            {"text": ["topic"], "text_features": "hashing", "label": "topic"},
            "other than id, label and role, got 'topic'",
        ),
        ({"text": ["id"], "text_features": "hashing"}, "other than id, label and role, got 'id'"),
        (
            {"text": ["title"], "text_features": "hashing", "schema": {"columns": {"title": {}}}},
            "read as id, label, role or",
        ),
    ],
)
def test_wrong_columns_of_texts_are_refused(tables, how, message):
    with pytest.raises(InputError, match=message):
        read_csv(*tables, **how)


def test_parquet_columns_of_numbers_are_no_texts(tables):
    import duckdb

    with duckdb.connect() as connection:
        connection.read_csv(str(tables[0])).write_parquet(str(tables[0].with_suffix(".pq")))
    with pytest.raises(DataError, match="column 'age' to hold texts, got int64"):
        read_texts(tables[0].with_suffix(".pq"), ["age"], "hashing")


def test_texts_without_a_known_word_are_refused(tables, tmp_path):
    (tmp_path / "words.txt").write_text("bird\n")
    (tmp_path / "empty.csv").write_text("id,title\np1,\np2,a\n")
    for path, name in ((tables[0], f"bag-of-words:{tmp_path / 'words.txt'}"), (tmp_path / "empty.csv", "hashing")):
        with pytest.raises(DataError, match=r"'title' to hold words that .* knows, found none"):
            read_texts(path, ["title"], name)


def test_saved_features_are_found_by_id(tables, tmp_path):
    texts = read_texts(tables[0], ["title"], "hashing:32")
    assert (texts.num_edges, texts.feature_names[0]) == (0, "title:hashing:0")
    save_features(tmp_path / "f.npz", texts, "hashing:32")
    lines = tables[0].read_text().splitlines()
    tables[0].write_text("\n".join([lines[0], *lines[:0:-1]]) + "\n")
    how = {"label": "topic", "text": ["title"]}
    read = read_csv(*tables, **how, text_features=str(tmp_path / "f.npz"))
    again = read_csv(*tables, **how, text_features="hashing:32")
    np.testing.assert_array_equal(read.x.toarray(), again.x.toarray())
    assert (read.feature_names, read.assumed_public) == (again.feature_names, again.assumed_public)
    tables[0].write_text(tables[0].read_text() + "p4,new,6,,x\n")
    with pytest.raises(DataError, match="node 'p4' has none"):
        read_csv(*tables, **how, text_features=str(tmp_path / "f.npz"))


def test_saved_features_keep_what_is_assumed_and_dense_rows(tmp_path):
    graph = Graph.from_edges([0], [1], 2, directed=False)
    (tmp_path / "v.txt").write_text(GLOVE)
    documents = Documents(("text",), [("cats",), ("dog",)])
    vectors = with_texts(graph, documents, f"word-vectors:{tmp_path / 'v.txt'}")
    save_features(tmp_path / "v.npz", vectors, "word-vectors")
    assert with_texts(graph, documents, str(tmp_path / "v.npz")).x.tolist() == [[1, 0], [0.5, -2]]
    many = Documents(("text",), [("cats",)] * 12)
    graph = Graph.from_edges([0], [1], 12, directed=False)
    learned = with_texts(graph, many, "bag-of-words")
    save_features(tmp_path / "l.npz", learned, "bag-of-words")
    assert with_texts(graph, many, str(tmp_path / "l.npz")).assumed_public == learned.assumed_public != ()


def test_a_file_of_features_is_new_and_whole(tmp_path):
    graph = Graph.from_edges([0], [1], 2, directed=False, x=np.ones((2, 1)))
    with pytest.raises(InputError, match=r"to end in \.npz"):
        save_features(tmp_path / "f.csv", graph, "hashing")
    save_features(tmp_path / "f.npz", graph, "hashing")
    with pytest.raises(InputError, match="never overwritten"):
        save_features(tmp_path / "f.npz", graph, "hashing")
    np.savez(tmp_path / "g.npz", x=np.ones((2, 1)))
    with pytest.raises(DataError, match="to hold text features"):
        with_texts(graph, TEXTS, str(tmp_path / "g.npz"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f.npz", "g.npz"]


@pytest.mark.parametrize("learned", [False, True])
def test_nodes_that_arrive_are_encoded_as_the_trained_ones(written, tmp_path, learned):
    rows = "".join(f"{i},{i % 7},graph words,{i % 2}\n" for i in range(20))
    (tmp_path / "new.csv").write_text("id,age,abstract,topic\n90,3,a new graph,0\n91,4,,1\n")
    texts = {"text": ["abstract"], "text_features": "bag-of-words" if learned else "hashing:16", "label": "topic"}
    trained = read_csv(*written("id,age,abstract,topic\n" + rows, "a,b\n0,1\n"), **texts)
    new = read_new_nodes(trained, tmp_path / "new.csv", **texts)
    assert new.feature_names == trained.feature_names
    if learned:
        assert new.x.toarray().tolist() == [[3, 1, 0], [4, 0, 0]]
    else:
        expected = Hashing(16).encode(Documents(("abstract",), [("a new graph",), ("",)])).x.toarray()
        np.testing.assert_array_equal(new.x.toarray()[:, 1:], expected)
    assert Newcomers.join(new, [trained], [0], [2]).num_features == trained.num_features


@pytest.mark.parametrize("named", ["bag-of-words:", "hashing:", "tf-idf:", "hashing:²"])
def test_an_encoder_with_nothing_or_no_number_after_its_colon_is_refused(named):
    """An empty name must not fall back to a vocabulary that is read off the texts."""
    with pytest.raises(InputError, match="Expected text_features"):
        encoder_named(named)


def test_a_weight_beyond_float32_is_refused(tmp_path):
    (tmp_path / "w.txt").write_text("cats\t1e39\n")
    with pytest.raises(DataError, match="its weight"):
        encoder_named(f"tf-idf:{tmp_path / 'w.txt'}")


def test_an_ordinary_column_named_text_is_not_taken_for_texts(read):
    nodes = "id,title,notes,text,y\na,cats,dog,red,0\nb,dog,cats,blue,1\n"
    graph = read(nodes, "source,target\na,b\n", label="y", text=("title", "notes"), text_features="hashing:4")
    assert graph.feature_names[:2] == ("text=blue", "text=red")
    assert graph.feature_names[2:] == tuple(f"title+notes:hashing:{k}" for k in range(4))
