"""The files of two servers have one form each, and say what they are in their first line."""

import pytest
from two_made import Pair

from sfumato.collect.two._files import AGREED, OPENED, Agreed, OpenedFile, kind_of
from sfumato.errors import InputError


@pytest.fixture
def opened(tmp_path):
    pair = Pair(tmp_path, users=4, size=2)
    pair.enrol()
    pair.report("u0", "red")
    agreed = Agreed(pair.agreement, pair.partition, pair.signatures)
    return OpenedFile(agreed, tuple(pair.exchange()))


def test_files_are_read_as_they_were_written(tmp_path, opened):
    opened.write(tmp_path / "opened")
    (tmp_path / "agreement").write_text(opened.agreed.text)
    read = OpenedFile.read(tmp_path / "opened")
    assert read == opened
    assert read.sha256 == opened.sha256
    assert read.join().counted.tolist() == [1, 0]
    assert Agreed.from_json((tmp_path / "agreement").read_text()) == opened.agreed
    assert [kind_of(tmp_path / name) for name in ("opened", "agreement", "0.sqlite")] == [OPENED, AGREED, None]


def test_other_files_are_refused(opened):
    text = opened.content.decode()
    forged = opened.agreed.text.replace(opened.agreed.signatures[0][:8], opened.agreed.signatures[1][:8])
    for other in (
        opened.agreed.text,
        text[:-1],
        text + "\n",
        text.replace("{", "{ ", 1),
        text.replace("sfumato", "x", 1),
        "",
        "{",
    ):
        with pytest.raises(InputError):
            OpenedFile.from_bytes(other.encode())
    for other in (text, forged, opened.agreed.text[:-2], "[" * 100_000):
        with pytest.raises(InputError):
            Agreed.from_json(other)
    with pytest.raises(InputError):
        OpenedFile.from_bytes(b"\xff")
    with pytest.raises(InputError):
        OpenedFile.from_bytes(OpenedFile(opened.agreed, opened.openings[::-1]).content)
