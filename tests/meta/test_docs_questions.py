"""The page of questions names every key and mechanism, and its values fit its questions."""

import re
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from sfumato.collect._drawing import values_of
from sfumato.collect._questions import Features, Label, Links
from sfumato.collect._schema import Schema
from sfumato.randomizers._questions import LABEL_MECHANISMS, MECHANISMS

TEXT = (Path(__file__).parents[2] / "docs" / "collection-questions.md").read_text()
BLOCKS = dict(re.findall(r"^```toml\n# ([\w-]+)\.toml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL))
ROSTER = tuple(f"user-{place}" for place in range(50))
ASKED = [name for name in BLOCKS if not name.endswith("-values")]


@pytest.mark.parametrize("kind", [Features, Label, Links])
def test_every_key_is_explained(kind):
    section = TEXT.split(f"## `[{kind.__name__.lower()}]`\n")[1].split("\n## ")[0]
    written = {field.name for field in fields(kind)} - {"users", "roster"}  # which init adds
    assert {key for key in written if not re.search(rf"^\| `{key}` \|", section, re.MULTILINE)} == set()


def test_every_mechanism_is_explained():
    table = set(re.findall(r'^\| "([\w-]+)" \|', TEXT, re.MULTILINE))
    assert table == set(MECHANISMS)
    assert all(f'"{name}"' in TEXT for name in LABEL_MECHANISMS)


@pytest.mark.parametrize("name", ASKED)
def test_values_fit_the_questions(name, tmp_path):
    path = tmp_path / "questions.toml"
    path.write_text(BLOCKS[name])
    schema = Schema.from_toml(path, "00" * 32, ROSTER)
    places = {user: place for place, user in enumerate(ROSTER)}
    found = values_of(schema, "user-0", tomllib.loads(BLOCKS[f"{name}-values"]), places)
    if schema.label:
        assert found.labels[0] >= 0
    if schema.links:
        assert len(found.links[0]) == 3


def test_all_parts_have_an_example():
    keys = {key for name in ASKED for key in tomllib.loads(BLOCKS[name])}
    assert keys == {"collection", "purpose", "opens", "closes", "features", "label", "links"}
