"""Bags of words: a column for each bucket of a hash function, or for each word of a vocabulary. Order is forgotten."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from sfumato._encoding import decoded
from sfumato._optional import require
from sfumato._validate import check_int
from sfumato.errors import DataError, InputError
from sfumato.graph._schema import CATEGORIES
from sfumato.graph._unique import LEAST_NODES
from sfumato.text._documents import Documents, Encoded, Report, numbered, words

LEAST_DOCUMENTS = LEAST_NODES
"""In how many documents a word must stand to enter a vocabulary that is read off the documents."""
_MOST_COLUMNS = 2**20


@dataclass(frozen=True)
class Hashing:
    """Counts of words in buckets of a public hash function: nothing is read off the documents.

    Word w adds s(w) to column h(w), where h is a public hash (MurmurHash3) into ``num_columns`` buckets and s a public sign.
    A row is then divided by its Euclidean norm. Two words in one bucket cannot be told apart: with n columns and the
    signs, the product of two rows of counts is exact on average, with an error that falls like 1 / sqrt(n).

    Source: Weinberger, Dasgupta, Langford, Smola and Attenberg, Feature Hashing for Large Scale Multitask Learning, ICML 2009.
    """

    num_columns: int = 4096
    learned: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_int(low=1, high=_MOST_COLUMNS, num_columns=self.num_columns)

    def encode(self, documents: Documents, report: Report | None = None) -> Encoded:
        text = require("sklearn.feature_extraction.text")
        hashing = text.HashingVectorizer(analyzer=words, n_features=self.num_columns, dtype=np.float32)
        names = numbered(documents.name, "hashing", self.num_columns)
        return Encoded(hashing.transform(documents.joined()), names)


@dataclass(frozen=True)
class BagOfWords:
    """Which words of a vocabulary stand in a text: 1 or 0 a word.

    Without a vocabulary, its words are read off the documents: those in at least ``LEAST_DOCUMENTS`` documents, in
    alphabetic order. Then ``Graph.assumed_public`` lists the column as one whose categories were read off the data, and a
    certificate under a unit that protects features says so.
    """

    vocabulary: tuple[str, ...] | None = None

    @property
    def learned(self) -> bool:
        return self.vocabulary is None

    def encode(self, documents: Documents, report: Report | None = None) -> Encoded:
        text, texts = require("sklearn.feature_extraction.text"), documents.joined()
        if self.vocabulary is not None:
            return Encoded(_counts(texts, self.vocabulary, binary=True), _names(documents, self.vocabulary))
        counter = text.CountVectorizer(analyzer=words, binary=True, min_df=LEAST_DOCUMENTS, dtype=np.float32)
        try:
            x = counter.fit_transform(texts)
        except ValueError:
            raise DataError(
                f"Expected words that stand in at least {LEAST_DOCUMENTS} documents, found none. Use hashing, or name a public "
                "vocabulary file: bag-of-words:FILE."
            ) from None
        names = _names(documents, counter.get_feature_names_out())
        return Encoded(x, names, ("num_features", CATEGORIES + documents.name))


@dataclass(frozen=True)
class TfIdf:
    """Counts of the words of a public vocabulary, each times a public weight; rows are divided by their Euclidean norm.

    The weight of a word is its inverse document frequency in a *public* corpus. It is never read off the documents: then
    one document would change the rows of all others.
    """

    vocabulary: tuple[str, ...]
    weights: tuple[float, ...]
    learned: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if len(self.weights) != len(self.vocabulary):
            raise InputError(
                f"Expected one weight a word ({len(self.vocabulary)}), got {len(self.weights)}. Give each word its weight."
            )

    def encode(self, documents: Documents, report: Report | None = None) -> Encoded:
        counts = _counts(documents.joined(), self.vocabulary, binary=False)
        x = require("sklearn.preprocessing").normalize(counts @ sp.diags(np.array(self.weights, np.float32)))
        return Encoded(sp.csr_matrix(x, dtype=np.float32), _names(documents, self.vocabulary))


def read_vocabulary(path: str | Path) -> tuple[tuple[str, ...], tuple[float, ...] | None]:
    """Read a public vocabulary: one word a line, and its weight after a tab if it has one. Return words and weights."""
    try:
        lines = [line.split("\t") for line in decoded(Path(path).read_bytes()).splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise DataError(f"Expected {path} to be a vocabulary file, got: {reason}. Check the path.") from None
    seen: dict[str, float | None] = {}
    for number, cells in enumerate(lines, start=1):
        word, weight = cells[0].strip().lower(), _weight(cells)
        if words(word) != [word] or len(cells) > 2 or weight == -1:
            raise DataError(
                f"Expected a word of two or more letters or digits in each line of {path}, and after a tab its weight or "
                f"nothing, but line {number} of those with text is another. Correct it or leave it out."
            )
        if word in seen:
            raise DataError(
                f"Expected every word once in {path}, got {word!r} again in line {number}. Remove it there."
            )
        seen[word] = weight
    weighed = [weight for weight in seen.values() if weight is not None]
    if not seen or len(weighed) not in (0, len(seen)):
        raise DataError(
            f"Expected {path} to hold words, all with a weight or all without, got {len(seen)} words and {len(weighed)} "
            "weights. Complete it."
        )
    return tuple(seen), tuple(weighed) or None


def inverse_frequencies(corpus: list[str]) -> dict[str, float]:
    """Compute the inverse document frequency of each word of a *public* corpus: 1 + ln((1 + N) / (1 + documents with it))."""
    text = require("sklearn.feature_extraction.text").TfidfVectorizer(analyzer=words)
    text.fit(corpus)
    return dict(zip(text.get_feature_names_out().tolist(), text.idf_.tolist(), strict=True))


def _weight(cells: list[str]) -> float | None:
    """The weight after the word, None without one, -1 for one that is no weight."""
    if len(cells) < 2:
        return None
    try:
        weight = float(cells[1])
    except ValueError:
        return -1
    return weight if 0 <= weight <= float(np.finfo(np.float32).max) else -1


def _counts(texts: list[str], vocabulary: tuple[str, ...], *, binary: bool) -> sp.csr_matrix:
    text = require("sklearn.feature_extraction.text")
    counter = text.CountVectorizer(analyzer=words, vocabulary=vocabulary, binary=binary, dtype=np.float32)
    return counter.transform(texts)


def _names(documents: Documents, vocabulary: Any) -> tuple[str, ...]:
    return tuple(f"{documents.name}={word}" for word in vocabulary)
