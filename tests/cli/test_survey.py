"""`sfumato collect` and anonymous surveys: each has a key of tokens that signs for no other."""

import pytest
from collect_fake import FakeServer

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


def test_a_schema_that_a_server_gives_is_compared_with_the_published_one(folder, sfumato):
    """The attack: each device gets a schema with a key of its own, whose reports the server knows apart."""
    init = sfumato("collect", "init", "questions.toml")
    asked = Schema.read(folder / "schema.json")
    assert f"The SHA-256 of this schema is {asked.sha256}." in init.out
    assert "Compare the SHA-256 below" in init.out
    codes = sfumato("collect", "codes", "schema.json", "--users", "users.txt")
    assert codes.out.endswith(f"all users see the same one: {asked.sha256}\n")
    code = (folder / "codes.csv").read_text().split("u1,")[1][:32]
    of_u1 = ("--state", "u1", "--values", "values.toml", "--user", "u1", "--cap", "3", "--code", code, "--yes")
    assert sfumato("collect", "init", "questions.toml", "--out", "own.json", "--token-key", "own.key").code == 0
    own = FakeServer(Schema.read(folder / "own.json"))
    with own.listening() as url:
        none = sfumato("collect", "report", url, *of_u1)
        other = sfumato("collect", "report", url, *of_u1, "--schema-sha256", asked.sha256)
        file = sfumato("collect", "report", "own.json", "--server", url, *of_u1, "--schema-sha256", asked.sha256)
        assert (none.code, "--schema-sha256 with an anonymous survey" in none.err) == (2, True)
        for refused in (other, file):
            assert (refused.code, "to be that of the schema" in refused.err) == (2, True)
            assert own.schema.sha256 not in refused.out + refused.err
        assert not (folder / "u1").exists()
        assert {path for path, _ in own.requests} == {"/schema"}
        sfumato("collect", "report", url, *of_u1, "--schema-sha256", own.schema.sha256.upper())
        assert "/users" in {path for path, _ in own.requests}
