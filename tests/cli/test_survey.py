"""`sfumato collect` and anonymous surveys: each has a key of tokens that signs for no other."""

import pytest

from sfumato.collect._schema import Schema
from sfumato.collect._tokens import TokenKey

QUESTIONS = """
collection = "A"
purpose = "Learn which kinds of books readers like."
opens = 2026-01-01T00:00:00Z
closes = 2126-01-01T00:00:00Z
upload = "anonymous"
least_reports = 100

[label]
name = "genre"
classes = ["crime", "poetry", "science"]
epsilon = 1.0
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder as the current one, with questions and users."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sfumato.collect._ticks.SECONDS", 0.0)
    (tmp_path / "questions.toml").write_text(QUESTIONS)
    (tmp_path / "users.txt").write_text("".join(f"u{i}\n" for i in range(3)))
    (tmp_path / "values.toml").write_text('label = "poetry"\n')
    return tmp_path


def test_each_survey_has_its_own_token_key(folder, sfumato):
    assert sfumato("collect", "init", "questions.toml", "--out", "a.json").code == 0
    kept = {name: (folder / name).read_bytes() for name in ("a.json", "token.key", "server.key")}
    assert sfumato("collect", "init", "questions.toml", "--out", "a.json").code == 0
    (folder / "questions.toml").write_text(QUESTIONS.replace('"A"', '"B"'))
    for out in ("b.json", "a.json"):
        done = sfumato("collect", "init", "questions.toml", "--out", out)
        assert (done.code, done.out) == (2, "")
    done = sfumato("collect", "init", "questions.toml", "--out", "b.json")
    assert "to be a new file, as a key is for one survey" in done.err
    assert not (folder / "b.json").exists()
    assert sfumato("collect", "init", "questions.toml", "--out", "b.json", "--token-key", "b.key").code == 0
    assert {name: (folder / name).read_bytes() for name in kept} == kept
    one, other = (Schema.read(folder / name).anonymous.public for name in ("a.json", "b.json"))
    assert (one, other) == tuple(TokenKey.read(folder / name).public for name in ("token.key", "b.key"))
    assert one != other
