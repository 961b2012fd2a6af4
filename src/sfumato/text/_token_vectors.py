"""Means of public token vectors that a package ships, so that no hub and no file is needed."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from sfumato._optional import not_installed, require
from sfumato.errors import InputError
from sfumato.text._documents import Documents, Encoded, Report, numbered

_STEP = 1000
_TOKENIZER, _VECTORS = "tokenizers/l2_supercat_tokenizer_config.json", "weights/l2_supercat_256.safetensors"
_FILES = {
    _TOKENIZER: "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
    _VECTORS: "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
}
"""The files of wordllama 0.4 that are read, and their SHA-256."""


@dataclass(frozen=True)
class WordLlama:
    """Mean of the public vectors of a text's tokens: 256 columns, from the files in the package wordllama.

    A token is a piece of a word, so that a word that no list has is made of pieces, as in fastText. Other files than those
    of version 0.4 are refused: a run would go on with other features than it was trained with. The package's own code is
    not run.

    **Formal guarantee.** The row of a node depends on its own texts alone, to the last bit: each is encoded by itself.

    Source: L. Miller, WordLlama (2024): the token vectors of large language models, made small by training on pairs of
    sentences.
    """

    learned: ClassVar[bool] = False

    def encode(self, documents: Documents, report: Report | None = None) -> Encoded:
        tokenizer, vectors = _loaded()
        x = np.zeros((len(documents.rows), vectors.shape[1]), np.float32)
        for number, text in enumerate(documents.joined()):
            if tokens := tokenizer.encode(text, add_special_tokens=False).ids if text.strip() else []:
                x[number] = vectors[tokens].mean(axis=0, dtype=np.float64)
            if report is not None and (number + 1) % _STEP == 0:
                report("encode texts", number + 1, len(x))
        return Encoded(x, numbered(documents.name, "wordllama", x.shape[1]))


def _loaded() -> tuple[Any, np.ndarray]:
    """The tokenizer, and a row of float16 for each of its tokens."""
    tokenizers, safetensors, spec = require("tokenizers"), require("safetensors.numpy"), find_spec("wordllama")
    if spec is None or not spec.submodule_search_locations:
        raise not_installed("wordllama")
    folder = Path(spec.submodule_search_locations[0])
    for name, expected in _FILES.items():
        path = folder / name
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != expected:
            raise InputError(
                f"Expected {path} to be the file of wordllama 0.4, but it is {'another' if path.exists() else 'absent'}: "
                "features would not be those of other runs. Install that version: pip install 'sfumato[text]'"
            )
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / _TOKENIZER))
    (vectors,) = safetensors.load_file(folder / _VECTORS).values()
    return tokenizer, vectors
