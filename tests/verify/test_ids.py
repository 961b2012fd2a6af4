"""The list of ids beside a release is the one whose digest its spec holds, a line a node."""

import hashlib

import pytest

from sfumato.verify._folder import IDS, id_faults


def spec(content: bytes, nodes: int) -> dict:
    return {"graph": {"ids_digest": hashlib.sha256(content).hexdigest(), "num_nodes": nodes}}


def test_a_release_without_ids_and_one_with_its_own_ids_are_accepted(tmp_path):
    assert list(id_faults(tmp_path, spec(b"a\nb", 2))) == []
    (tmp_path / IDS).write_bytes(b"a\nb")
    assert list(id_faults(tmp_path, spec(b"a\nb", 2))) == []


@pytest.mark.parametrize(
    ("content", "known", "fragment"),
    [
        (b"a\nc", spec(b"a\nb", 2), "SHA-256 differs"),
        (b"a\nb", {}, "SHA-256 differs"),
        (b"a\nb\nJane Doe", spec(b"a\nb\nJane Doe", 2), "holds 3 lines, expected 2"),
        (b"a\x1b[2J\nb", spec(b"a\x1b[2J\nb", 2), "printable"),
    ],
)
def test_any_other_list_is_a_problem(tmp_path, content, known, fragment):
    (tmp_path / IDS).write_bytes(content)
    (problem,) = id_faults(tmp_path, known)
    assert fragment in problem
