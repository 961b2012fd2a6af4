"""Means of vectors: of public word vectors in a text file, or of what a public pretrained network says of each token."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from sfumato._optional import require
from sfumato.errors import DataError, InputError
from sfumato.text._documents import Documents, Encoded, Report, numbered, words

_STEP = 100_000
_TOKENS = 512


@dataclass(frozen=True)
class WordVectors:
    """Mean of the public vectors of a text's words; each word counts as often as it stands there.

    The file has one word a line, then its numbers, with single spaces between: the text format of fastText (whose first line
    is the number of words and that of columns) and of GloVe (without such a line). It is read line by line, and only words
    that stand in some document are kept. If a word stands twice in the file, its first line counts. A line whose numbers cannot
    be read is passed over, since an error would tell that its word stands in a document.

    Source: Joulin, Grave, Bojanowski and Mikolov, Bag of Tricks for Efficient Text Classification, EACL 2017; Pennington,
    Socher and Manning, GloVe, EMNLP 2014.
    """

    path: str
    learned: ClassVar[bool] = False

    def encode(self, documents: Documents, report: Report | None = None) -> Encoded:
        rows = [words(text) for text in documents.joined()]
        vectors, width = self._read({word for row in rows for word in row}, report)
        x = np.zeros((len(rows), width), np.float32)
        for number, row in enumerate(rows):
            found = [vectors[word] for word in row if word in vectors]
            if found:
                x[number] = np.mean(found, axis=0, dtype=np.float64)
        return Encoded(x, numbered(documents.name, Path(self.path).name, width))

    def _read(self, wanted: set[str], report: Report | None) -> tuple[dict[str, np.ndarray], int]:
        vectors: dict[str, np.ndarray] = {}
        width = count = 0
        for number, line in enumerate(self._lines(), start=1):
            if number == 1:
                first = line.split(" ")
                header = len(first) == 2 and all(cell.isdigit() for cell in first)
                width, count = (int(first[1]), int(first[0])) if header else (len(first) - 1, 0)
                if width < 1:
                    raise self._malformed(1, "at least one number")
                if header:
                    continue
            if line.count(" ") != width:
                self._check_several(line, width, number)
                continue
            word = line[: line.find(" ")]
            if word in wanted and word not in vectors and (vector := _vector(line.split(" ")[1:])) is not None:
                vectors[word] = vector
            if report is not None and number % _STEP == 0:
                report("read word vectors", number, max(count, number))
        return vectors, width

    def _check_several(self, line: str, width: int, number: int) -> None:
        """Refuse a line that is neither empty nor an entry of several words, as some GloVe files have."""
        cells = line.split(" ")
        if line and (len(cells) <= width or _are_numbers(cells[1:])):
            raise self._malformed(number, f"{width} finite numbers")

    def _malformed(self, number: int, expected: str) -> DataError:
        return DataError(
            f"Expected a word and {expected} in each line of {self.path}, separated by single spaces, but line {number} has "
            "something else. Take the text format of fastText (.vec) or GloVe (.txt), not the binary one."
        )

    def _lines(self) -> Iterator[str]:
        path = Path(self.path)
        opener: Any = gzip.open if path.suffix == ".gz" else open
        try:
            with opener(path, "rt", encoding="utf-8", newline="\n") as file:
                for line in file:
                    yield line.rstrip()
        except (OSError, EOFError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "a damaged file, or one that is no text"
            raise DataError(f"Expected {path} to hold word vectors as text, got: {reason}. Check the path.") from None


@dataclass(frozen=True)
class Transformer:
    """Mean of a public pretrained network's last layer over the tokens of a text, then over the columns that have text.

    A text becomes tokens t_1, ..., t_n, with those that the tokenizer adds at both ends; a longer text than the network takes
    is cut. Its vector is the mean of the last hidden states of the tokens that the attention mask keeps. A column without
    text is left out of the mean over columns, and a row without text is zero.

    **Formal guarantee.** Each text is encoded by itself, never in a batch with others, whose length would change its
    rounding: the row of a node depends on its own texts alone, to the last bit. Equal texts are encoded once.

    Source: Devlin, Chang, Lee and Toutanova, BERT, NAACL 2019.
    """

    model: str
    learned: ClassVar[bool] = False

    def encode(self, documents: Documents, report: Report | None = None) -> Encoded:
        torch, transformers = require("torch"), require("transformers")
        tokenizer, network = _loaded(self.model, transformers.AutoTokenizer, transformers.AutoModel)
        network.eval()
        limit = min(tokenizer.model_max_length, getattr(network.config, "max_position_embeddings", _TOKENS))

        def vector(text: str) -> np.ndarray:
            tokens = tokenizer(text, return_tensors="pt", truncation=True, max_length=limit)
            with torch.no_grad():
                states = network(**tokens).last_hidden_state[0]
            kept = tokens["attention_mask"][0, :, None].to(states.dtype)
            return ((states * kept).sum(0) / kept.sum()).numpy()

        return _mean_of_columns(documents, self.model, vector, report)


@dataclass(frozen=True)
class SentenceTransformer:
    """Vector of a public pretrained sentence encoder for each text by itself, then the mean over the columns that have text.

    Source: Reimers and Gurevych, Sentence-BERT, EMNLP 2019.
    """

    model: str
    learned: ClassVar[bool] = False

    def encode(self, documents: Documents, report: Report | None = None) -> Encoded:
        package = require("sentence_transformers")
        (network,) = _loaded(self.model, package.SentenceTransformer)

        def vector(text: str) -> np.ndarray:
            return np.asarray(network.encode([text], show_progress_bar=False)[0])

        return _mean_of_columns(documents, self.model, vector, report)


def _vector(cells: list[str]) -> np.ndarray | None:
    """The numbers of a line, or None if they are no finite float32."""
    try:
        with np.errstate(over="ignore"):
            vector = np.array(cells, np.float64).astype(np.float32)
    except ValueError:
        return None
    return vector if np.isfinite(vector).all() else None


def _are_numbers(cells: list[str]) -> bool:
    try:
        return all(np.isfinite(float(cell)) for cell in cells)
    except ValueError:
        return False


def _loaded(model: str, *classes: Any) -> list[Any]:
    try:
        return [getattr(one, "from_pretrained", one)(model) for one in classes]
    except (OSError, ValueError) as error:
        raise InputError(
            f"Expected {model!r} to be the folder or hub name of a pretrained encoder, which cannot be loaded "
            f"({' '.join(str(error).split())[:200]}). Check the path, or download the encoder first."
        ) from None


def _mean_of_columns(
    documents: Documents, model: str, vector: Callable[[str], np.ndarray], report: Report | None
) -> Encoded:
    known, width = cache(vector), len(vector("a"))
    x = np.zeros((len(documents.rows), width), np.float32)
    for number, row in enumerate(documents.rows):
        found = [known(text) for text in row if text.strip()]
        if found:
            x[number] = np.mean(found, axis=0, dtype=np.float64)
        if report is not None:
            report("encode texts", number + 1, len(x))
    return Encoded(x, numbered(documents.name, Path(model).name, width))
