"""Files that people write are read in any UTF with a byte order mark, whatever their line ends, or refused as no UTF-8."""

import codecs
from pathlib import Path

import pytest
from collect_fake import KEY, schema_of

from sfumato.cli._pairs import _read as read_pairs
from sfumato.collect._schema import Schema as Questions
from sfumato.collect._tables import read_answers, read_codes, read_roster, read_values
from sfumato.errors import DataError, SfumatoError
from sfumato.experiments._spec import SPECS, Spec
from sfumato.graph._schema import Schema
from sfumato.text._bags import read_vocabulary

COLLECTED = schema_of()


def values(path):
    return [(block.users, block.labels) for block in read_values(path, COLLECTED)]


def questions(path):
    return Questions.from_toml(path, KEY.public.hex()).to_dict()


def spec(path):
    return [cell.id for cell in Spec.read(path).cells()]


FILES = {
    "list of users": (read_roster, "users.txt", "ada\nZoë\n"),
    "pairs of a link question": (read_pairs, "pairs.csv", "one,two\nada,Zoë\n"),
    "values of users": (values, "values.csv", "user,age,books,genre\nZoë,1,2,crime\n"),
    "codes of users": (read_codes, "codes.csv", "user,code\nZoë,xyz\n"),
    "answers": (read_answers, "answers.toml", 'genre = "Zoë"\n'),
    "answers as JSON": (read_answers, "answers.json", '{"genre": "Zoë"}'),
    "vocabulary": (read_vocabulary, "words.txt", "graph\nzoë\n"),
    "schema": (Schema.read, "schema.toml", 'label = "Zoë"\nclasses = ["a", "b"]\n'),
    "specification": (spec, "spec.toml", (SPECS / "gap-table-4-2.toml").read_text(encoding="utf-8") + "# Zoë\n"),
}
WRITTEN = {
    "mark": lambda text: codecs.BOM_UTF8 + text.encode(),
    "UTF-16": lambda text: text.encode("utf-16"),
    "UTF-16 of another order": lambda text: codecs.BOM_UTF16_BE + text.encode("utf-16-be"),
    "UTF-32": lambda text: text.encode("utf-32"),
    "Windows": lambda text: codecs.BOM_UTF8 + text.replace("\n", "\r\n").encode(),
}


@pytest.mark.parametrize("kind", FILES)
def test_every_file_is_read_with_a_byte_order_mark(kind, tmp_path):
    read, name, text = FILES[kind]
    path = Path(tmp_path, name)
    path.write_text(text, encoding="utf-8")
    plain = read(path)
    for form, encode in WRITTEN.items():
        path.write_bytes(encode(text))
        assert read(path) == plain, form


@pytest.mark.parametrize("kind", FILES)
def test_other_bytes_are_refused_with_their_reason(kind, tmp_path):
    read, name, text = FILES[kind]
    path = Path(tmp_path, name)
    for other in (text.encode("latin-1"), text.encode("utf-16")[:-1]):
        path.write_bytes(other)
        with pytest.raises(SfumatoError, match=r"(?i)utf-?(8|16)"):
            read(path)


def test_a_file_of_questions_is_read_by_its_mark(tmp_path):
    path = tmp_path / "questions.toml"
    for form, encode in WRITTEN.items():
        path.write_bytes(encode('collection = "c"\n'))
        with pytest.raises((DataError, SfumatoError), match=r"questions\.toml") as caught:
            questions(path)
        assert "TOML, got an error" not in str(caught.value), form
