"""Features of texts: which encoder a word names, what it makes of a graph's documents, and the file that keeps that.

An encoder is named as ``KIND`` or ``KIND:WHAT``:

* ``hashing`` or ``hashing:COLUMNS``: counts of words in buckets of a public hash function (4,096 by default);
* ``bag-of-words:FILE``: which words of a public vocabulary stand in a text; without a file, the vocabulary is read off the
  documents and listed as assumed public;
* ``tf-idf:FILE``: counts of the words of a public vocabulary, times the public weights in that file;
* ``word-vectors:FILE``: means of public word vectors (fastText, GloVe);
* ``wordllama``: means of public token vectors that the package wordllama ships;
* ``transformer:MODEL`` or ``sentence-transformer:MODEL``: means of what a public pretrained network says of a text;
* ``FILE.npz``: what ``sfumato text features`` wrote.

Vocabularies, weights, vectors and networks are public inputs: they must come from elsewhere than the documents.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sfumato._files import whole_file
from sfumato._pickles import read_npz
from sfumato._validate import check_choice, fail
from sfumato.errors import DataError, InputError
from sfumato.text._bags import BagOfWords, Hashing, TfIdf, read_vocabulary
from sfumato.text._documents import Documents, Encoded, Encoder, Report
from sfumato.text._embeddings import SentenceTransformer, Transformer, WordVectors
from sfumato.text._token_vectors import WordLlama

if TYPE_CHECKING:
    from sfumato.graph._graph import Graph

KINDS = ("hashing", "bag-of-words", "tf-idf", "word-vectors", "wordllama", "transformer", "sentence-transformer")
"""The words that name an encoder."""
_SAVED = ".npz"


@dataclass(frozen=True)
class SavedFeatures:
    """Features that :func:`save_features` wrote, found by the id of the node; ``learned`` if they were read off the documents."""

    path: str
    learned: bool = False

    def rows(self, ids: Sequence[Any]) -> Encoded:
        members = read_npz(self.path, "about", "ids", "x", "data", "indices", "indptr", "shape")
        try:
            about = json.loads(str(members["about"]))
            row_of = {str(name): row for row, name in enumerate(members["ids"].tolist())}
            parts = [members[part] for part in ("data", "indices", "indptr")] if "data" in members else []
            x = sp.csr_matrix(tuple(parts), shape=tuple(members["shape"])) if parts else members["x"]
            names, assumed = tuple(about["names"]), tuple(about["assumed"])
        except (KeyError, TypeError, ValueError):
            raise DataError(
                f"Expected {self.path} to hold text features. Write it by `sfumato text features`."
            ) from None
        lacking = next((str(name) for name in ids if str(name) not in row_of), None)
        if lacking is not None:
            raise DataError(
                f"Expected {self.path} to have a row for every node, but node {lacking!r} has none. Write the features of "
                "this table by `sfumato text features`."
            )
        return Encoded(x[[row_of[str(name)] for name in ids]], names, assumed)


def encoder_named(text_features: str) -> Encoder | SavedFeatures:
    """Build the encoder that a word names, such as ``hashing:1024``; a file that it names is read or looked for now."""
    if text_features.endswith(_SAVED):
        return SavedFeatures(str(_file(text_features)))
    kind, colon, what = text_features.partition(":")
    if colon and not what:
        raise fail("text_features", text_features, "to name something after its colon", "Name it, or drop the colon.")
    check_choice(KINDS, f"Or name a file of features that ends in {_SAVED}.", text_features=kind)
    if kind == "hashing":
        if what and not (what.isascii() and what.isdecimal()):
            raise fail("text_features", text_features, "to be hashing:COLUMNS", "Write an integer, such as 4096.")
        return Hashing(int(what)) if what else Hashing()
    if kind == "wordllama":
        if what:
            raise fail("text_features", text_features, "to be wordllama alone", "Its vectors lie in the package.")
        return WordLlama()
    if kind == "bag-of-words":
        return BagOfWords(read_vocabulary(_file(what))[0] if what else None)
    if not what:
        named = "a file" if kind in ("tf-idf", "word-vectors") else "a folder or hub name"
        raise fail("text_features", text_features, f"to name {named} too", f"Write {kind}:... with what is public.")
    if kind == "tf-idf":
        vocabulary, weights = read_vocabulary(_file(what))
        if weights is None:
            raise DataError(
                f"Expected {what} to hold the weight of each word after a tab, got words alone. Write it from a public corpus "
                "by `sfumato text vocabulary`, or use bag-of-words."
            )
        return TfIdf(vocabulary, weights)
    if kind == "word-vectors":
        return WordVectors(str(_file(what)))
    return Transformer(what) if kind == "transformer" else SentenceTransformer(what)


def absolute(text_features: str) -> str:
    """Return the same name with the whole path of its file or folder, so that it means the same elsewhere."""
    kind, _, what = ("", "", text_features) if text_features.endswith(_SAVED) else text_features.partition(":")
    path = str(Path(what).resolve()) if what and Path(what).exists() else what
    return ":".join(filter(None, (kind, path)))


def with_texts(
    graph: Graph, documents: Documents, text_features: str, report: Report | None = None, trained: Sequence[str] = ()
) -> Graph:
    """Return the graph with the features of its documents, after those that it has."""
    encoder = encoder_named(text_features)
    if trained and encoder.learned:
        start = f"{documents.name}="
        encoder = BagOfWords(tuple(name.removeprefix(start) for name in trained if name.startswith(start)))
    if isinstance(encoder, SavedFeatures):
        encoded = encoder.rows(range(graph.num_nodes) if graph.node_ids is None else graph.node_ids.tolist())
    else:
        encoded = encoder.encode(documents, report)
    if not trained and not abs(encoded.x).max():
        raise DataError(
            f"Expected {', '.join(map(repr, documents.columns[:3]))} to hold words that {text_features} knows, found none. Name "
            "another column, or look whether both are of one language."
        )
    named = graph.feature_names or tuple(f"x{column}" for column in range(graph.num_features))
    assumed = dict.fromkeys((*graph.assumed_public, *encoded.assumed))
    x = _beside(graph.x, encoded.x)
    return replace(graph, x=x, feature_names=(*named, *encoded.names), assumed_public=tuple(assumed))


def of_texts(feature_name: str, columns: tuple[str, ...]) -> bool:
    """Say whether a feature was made of texts in these columns, by its name."""
    name = Documents(columns, ()).name
    return feature_name.startswith((f"{name}=", f"{name}:"))


def save_features(path: Path, graph: Graph, text_features: str) -> None:
    """Write the features of a graph's texts to a new file, whole or not at all."""
    check_new(path)
    about = {"text_features": text_features, "names": graph.feature_names, "assumed": graph.assumed_public}
    x, ids = graph.x, np.arange(graph.num_nodes) if graph.node_ids is None else graph.node_ids
    assert x is not None
    parts: dict[str, Any] = {"x": x}
    if isinstance(x, sp.csr_matrix):
        parts = {"data": x.data, "indices": x.indices, "indptr": x.indptr, "shape": np.array(x.shape)}
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path, 0o600) as file:
        np.savez_compressed(file, about=np.array(json.dumps(about)), ids=ids, **parts)


def check_new(path: Path) -> None:
    """Refuse a file of features that exists already, or that would not be recognized by its name."""
    if path.suffix != _SAVED:
        raise fail("out", str(path), f"to end in {_SAVED}", "It is recognized by that ending.")
    if path.exists():
        raise fail("out", str(path), "to be a new file", "Features are never overwritten: name another file.")


def _beside(x: Any, more: Any) -> Any:
    if x is None:
        return more
    if sp.issparse(x) or sp.issparse(more):
        return sp.hstack([sp.csr_matrix(x), sp.csr_matrix(more)], format="csr", dtype=np.float32)
    return np.hstack([x, more])


def _file(path: str) -> Path:
    if not Path(path).is_file():
        raise InputError(f"Expected text_features to name a file, but there is none at {path!r}. Check the path.")
    return Path(path)
