"""Token vectors that a package ships: their means, and what is refused."""

import hashlib
import sys
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import save_file

from sfumato.errors import InputError
from sfumato.text import _token_vectors
from sfumato.text._documents import Documents
from sfumato.text._token_vectors import WordLlama


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """A package wordllama with two token vectors, and a tokenizer that splits at spaces."""
    (tmp_path / "wordllama" / "tokenizers").mkdir(parents=True)
    (tmp_path / "wordllama" / "weights").mkdir()
    (tmp_path / "wordllama" / "__init__.py").write_text("raise RuntimeError('its code is not run')")
    files = [tmp_path / "wordllama" / name for name in _token_vectors._FILES]
    files[0].write_text("cats dog")
    save_file({"embedding.weight": np.array([[1, 2], [3, 4]], np.float16)}, files[1])
    sums = {
        name: hashlib.sha256(file.read_bytes()).hexdigest()
        for name, file in zip(_token_vectors._FILES, files, strict=True)
    }
    monkeypatch.setattr(_token_vectors, "_FILES", sums)
    package = spec_from_file_location("wordllama", tmp_path / "wordllama" / "__init__.py")
    monkeypatch.setattr(_token_vectors, "find_spec", lambda name: package if name == "wordllama" else None)

    class Tokenizer:
        def __init__(self, path):
            self.words = Path(path).read_text().split()

        def encode(self, text, add_special_tokens):
            assert not add_special_tokens
            return SimpleNamespace(ids=[self.words.index(word) for word in text.split() if word in self.words])

    made = SimpleNamespace(Tokenizer=SimpleNamespace(from_file=Tokenizer))
    monkeypatch.setitem(sys.modules, "tokenizers", made)
    monkeypatch.delitem(sys.modules, "wordllama", raising=False)
    return files


def test_shipped_vectors_are_averaged_over_tokens(shipped, monkeypatch):
    monkeypatch.setattr(_token_vectors, "_STEP", 2)
    seen = []
    documents = Documents(("a", "b"), [("cats dog", "dog"), ("", "dog"), (" ", ""), ("none", "")])
    found = WordLlama().encode(documents, lambda *step: seen.append(step))
    np.testing.assert_allclose(found.x, [[7 / 3, 10 / 3], [3, 4], [0, 0], [0, 0]], rtol=1e-6)
    assert found.names == ("a+b:wordllama:0", "a+b:wordllama:1")
    assert found.assumed == ()
    assert seen == [("encode texts", 2, 4), ("encode texts", 4, 4)]


@pytest.mark.parametrize(("number", "change"), [(0, "another"), (1, "another"), (1, "absent")])
def test_shipped_vectors_of_another_version_are_refused(shipped, number, change):
    shipped[number].write_bytes(b"other") if change == "another" else shipped[number].unlink()
    with pytest.raises(InputError, match=rf"{shipped[number].name} .* is {change}: .*pip install 'sfumato\[text\]'$"):
        WordLlama().encode(Documents(("a",), [("cats",)]))


def test_real_shipped_vectors():
    for package in ("tokenizers", "wordllama"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed: pip install 'sfumato[text]'")
    texts = [("graph neural networks",), ("deep learning on graphs",), ("a recipe for apple pie",), ("",)]
    found = WordLlama().encode(Documents(("a",), texts)).x
    near, far = (found[0] @ found[other] / np.linalg.norm(found[other]) for other in (1, 2))
    assert found.shape == (4, 256)
    assert near > 2 * far
    assert not found[3].any()
    np.testing.assert_array_equal(found[1:2], WordLlama().encode(Documents(("a",), texts[1:2])).x)
