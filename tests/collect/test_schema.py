"""Schemas: everything derived is checked, each agreement has one text, and users read true numbers."""

import hashlib
import json
from datetime import UTC, datetime
from fractions import Fraction
from math import inf, nan, nextafter

import pytest
from wire_messages import ASKED, COMMON, all_schemas, features, label, schema_of

from sfumato.collect._questions import Features, Label, Links
from sfumato.collect._schema import Schema
from sfumato.errors import SchemaError

# SHA-256 of the canonical JSON. Another one is another agreement: reports and closed collections of this version are lost.
GOLDEN = {
    "multi-bit": "a8902538444e76f42eaf5b6a87a23e5b67f03d8bfe7b4d6f28b85540bb580109",
    "multi-bit as a bitmap": "9d7e6d079f016a1f0ea80eafdc1de0551ada27ba6c9e298ad99d564284111ac0",
    "one-bit": "0de2df9a3384320b405a743b06e22d3a0a7d14bc3a278c7d285d4d5c7a107517",
    "laplace": "a1e89edfbdb259890f60957737be5fc9e9d83d3a8be6cf6bf87046e04fc34798",
    "laplace a feature": "5f21c6d82106d445ab55dfc6319770c719e0b641aad132818b1ca0556b8101ab",
    "gaussian": "dc1cbf71e3b5be3e14bd1032a0378b422e7f685beed892f641de4b9aaa0bd848",
    "piecewise": "506366e5bfed84a13ad3be8d4c16312c35755e1a0c7a32b9c75775d4fabf774a",
    "piecewise a feature": "e93222b4aa4e79ada1534e2686196f381160f406ed6fe259b13d0370ff4b0083",
    "pgc": "e4b4c1db758f9487170184b12f5546cf2a3caf2badffdbe44d333a1c7bff676a",
    "collision": "5b8f12ccbaca4c793fe3d8540d577de00773280f8376cdb9192649b23c692edd",
    "direction": "7d7fdc6c251827602364a3db7ffc271d5d2338efb48b49bd9fb90d1864b66dac",
    "subset": "b2bea6d8732d856436193610bf9df2630ccc7e7a2bdc931b106799327d350925",
    "randomized-response": "5398a583e8b9d31eb1036013c980827b800c4da4082f79ce958157d789f213c3",
    "features and label": "e60c2f919845f563d03ff4659cbe54a1f77df06a324c9316e65decafe71ec477",
    "links": "6bb63ccc16ef44e5de811e986a220d60578b94f44b2f1cf3d65c7d272f2d2fdc",
}
LINKS = ASKED["links"]["links"]
DEEP = json.loads("[" * 400 + "]" * 400)


def changed(values, path, new):
    """A copy of nested tables with another value at a path such as ``totals.epsilon``."""
    copy = json.loads(json.dumps(values))
    *tables, last = path.split(".")
    inner = copy
    for table in tables:
        inner = inner[table]
    inner[last] = new
    return copy


def refuse(values, problem="Expected"):
    """The refusal of a finished schema; it is that of its JSON."""
    with pytest.raises(SchemaError, match=problem):
        Schema.from_json(json.dumps(values))


@pytest.mark.parametrize("name", ASKED)
def test_text_is_canonical_and_golden(name):
    schema = schema_of(ASKED[name])
    assert json.dumps(json.loads(schema.text), sort_keys=True, separators=(",", ":"), ensure_ascii=False) == schema.text
    assert schema.sha256 == hashlib.sha256(schema.text.encode()).hexdigest() == GOLDEN[name]
    for text in (schema.text, schema.text.encode(), json.dumps(json.loads(schema.text), indent=1)):
        assert Schema.from_json(text) == schema
        assert Schema.from_json(text).sha256 == schema.sha256


def test_another_agreement_has_another_name():
    names = {schema.sha256 for schema in all_schemas().values()}
    others = {"collection": "b", "purpose": "b", "opens": "2026-12-01T00:00:01Z", "server_key": "01" * 32}
    names |= {schema_of(ASKED["subset"], **{key: value}).sha256 for key, value in others.items()}
    assert len(names) == len(ASKED) + len(others)


def numbers(values, path=""):
    """The paths of all numbers and whole numbers in text."""
    for key, value in values.items():
        where = f"{path}.{key}".strip(".")
        if isinstance(value, dict):
            yield from numbers(value, where)
        elif not isinstance(value, bool) and (isinstance(value, (int, float)) or value.isdecimal()):
            yield where, value


@pytest.mark.parametrize("name", ASKED)
def test_derived_numbers_must_follow(name):
    values = schema_of(ASKED[name]).to_dict()
    derived = {key: values[key] for key in ("randomizers", "totals")}
    found = dict(numbers(derived))
    assert {"totals.epsilon", "totals.delta", "totals.bits"} < {*found}
    assert sum("thresholds" in path for path in found) >= 3
    for path, number in found.items():
        if isinstance(number, str):
            near = [str(int(number) + 1), str(int(number) - 1), int(number), "0" + number, number + " "]
        elif isinstance(number, int):
            near = [number + 1, number - 1, float(number), str(number), True]
        else:
            near = [nextafter(number, inf), nextafter(number, -inf), nan, inf, str(number), True, None, False]
            near += [int(number)] * (number == int(number))
        for other in near:
            refuse(changed(values, path, other), "to follow from|canonical form")


@pytest.mark.parametrize(
    "path", ["randomizers", "totals", "randomizers.label", "totals.epsilon", "format", "randomizers.label.bits"]
)
def test_finished_schemas_say_all_that_follows(path):
    values = schema_of(ASKED["subset"]).to_dict()
    *tables, last = path.split(".")
    inner = values
    for table in tables:
        inner = inner[table]
    del inner[last]
    refuse(values, "finished|follow")


@pytest.mark.parametrize(
    "path",
    [
        "surprise",
        "label.surprise",
        "totals.surprise",
        "randomizers.surprise",
        "features.surprise",
        "features.low",
        "randomizers.label.thresholds.surprise",
    ],
)
def test_unknown_keys_are_refused(path):
    refuse(changed(schema_of(ASKED["features and label"]).to_dict(), path, 1), "surprise|range")


@pytest.mark.parametrize("key", [*COMMON, "label"])
def test_missing_keys_are_refused(key):
    values = schema_of(ASKED["subset"]).to_dict()
    del values[key]
    refuse(values)


WRONG = {
    "format": [2, 0, "1", True, 1.0, None, [1]],
    "collection": ["", "a b", "a" * 65, "é", 7, None, ["a"], "a/b", "a\n"],
    "purpose": ["", "a" * 1001, "a\nb", "a\u202eb", 7, None, "\ud800"],
    "opens": ["2026-12-01", "2026-12-01T00:00:00", "2026-12-01T00:00:00+00:00", "2026-12-01 00:00:00Z", 20261201, None, {},
              "2026-12-01T00:00:00.0Z", "2026-12-1T00:00:00Z", "2026-12-01T24:00:00Z", "2026-12-01T00:00:60Z",
              "2026-13-01T00:00:00Z", "2026-12-01t00:00:00z", " 2026-12-01T00:00:00Z", "٢٠٢٦-12-01T00:00:00Z",
              "0026-12-01T00:00:00Z"],
    "closes": ["2026-12-01T00:00:00Z", "2026-11-30T23:59:59Z", "never"],
    "server_key": ["", "00" * 31, "00" * 33, "AB" * 32, "zz" * 32, "0x" + "00" * 31, "0 " * 32, 7, None, ["0"] * 64],
    "features": [None, [], 7, "features", {}],
    "features.epsilon": [0.0, -1.0, 1e-7, 1e5, nan, inf, 10**400, 1, True, "1", None, [1.0], DEEP],
    "features.mechanism": ["", "none", "Multi-Bit", 7, None, ["multi-bit"], {}],
    "features.cap": [0, -1, 2**17 + 1, 5.5, 3.0, 10**400, nan, True, "3", None],
    "features.per_feature": [True, 1, 0, "false", None],
    "features.delta": [0.0, 1.0, -1e-10, nan, 1, True, "0.1", 10**400],
    "features.names": [[], ["a"] * 7, ["a", ""], ["a", "b\n"], ["a", 7], ["a", None], "abc", {"a": 1}, ["x" * 101], None],
    "label.classes": [[], ["a"], ["a", "a"], ["a", 7], "ab", {"a": 0, "b": 1}, None, ["a", "b\t"]],
    "label.epsilon": [0.0, nan, 10**400, True, "1"],
    "label.mechanism": ["multi-bit", "local-hashing", None],
    "label.name": ["", 7, None, "x" * 101],
}  # fmt: skip


@pytest.mark.parametrize("path", WRONG)
def test_wrong_values_are_refused(path):
    values = schema_of(ASKED["features and label"]).to_dict()
    assert Schema.from_json(json.dumps(values))
    for new in WRONG[path]:
        refuse(changed(values, path, new))


@pytest.mark.parametrize(
    ("low", "high"), [(1, 1), (2, 1), (nan, 1), (0, inf), (-1e16, 1), (0, 10**400), (True, 2), ("0", 1), (None, 1)]
)
def test_ranges_are_checked(low, high):
    table = {"columns": [{"name": "a", "min": low, "max": high}], "epsilon": 1.0}
    with pytest.raises(SchemaError, match="feature 'a'"):
        schema_of({"features": table})


@pytest.mark.parametrize(
    "column",
    [
        {},
        {"name": "a"},
        {"name": "a", "min": 0, "max": 1, "mean": 0},
        {"name": 7, "min": 0, "max": 1},
        {"name": ["a"], "min": 0, "max": 1},
        7,
    ],
)
def test_columns_are_checked(column):
    with pytest.raises(SchemaError):
        schema_of({"features": {"columns": [column], "epsilon": 1.0}})


def test_names_and_columns_exclude_each_other():
    for more in ({}, {"names": ["a"], "columns": [{"name": "a", "min": 0, "max": 1}]}):
        with pytest.raises(SchemaError, match="either columns or names"):
            schema_of({"features": {"epsilon": 1.0, **more}})


def test_columns_from_0_to_1_have_one_form():
    columns = {"columns": [{"name": "a", "min": 0.0, "max": 1.0}], "epsilon": 1.0}
    schema = schema_of({"features": columns})
    assert schema == schema_of(features(1))
    values = schema.to_dict()
    del values["features"]["names"]
    refuse({**values, "features": {**values["features"], **columns}}, "canonical")


@pytest.mark.parametrize(
    "table",
    [
        {"users": 1},
        {"users": 2**17 + 1},
        {"users": 5.0},
        {"users": True},
        {"roster": "AB" * 32},
        {"roster": "ab" * 31},
        {"roster": 7},
        {"roster": "ab" * 32 + "\n"},
        {"epsilon": 0.0},
        {"epsilon": 1e-6},
        {"degree_share": 0.0},
        {"degree_share": 1.0},
        {"degree_share": nan},
        {"degree_share": 10**400},
        {"degree_share": "0.1"},
        {"surprise": 1},
    ],
)
def test_links_are_checked(table):
    with pytest.raises(SchemaError):
        schema_of({"links": {**LINKS, **table}})


@pytest.mark.parametrize("beside", [label(3), features(2)])
def test_links_are_asked_alone(beside):
    with pytest.raises(SchemaError, match="alone"):
        schema_of({"links": LINKS, **beside})


def test_something_is_asked():
    with pytest.raises(SchemaError, match="Ask for something"):
        schema_of({})


@pytest.mark.parametrize("mechanism", ["multi-bit", "one-bit", "gaussian", "collision", "direction"])
def test_only_some_spend_on_each_feature(mechanism):
    with pytest.raises(SchemaError, match="per_feature"):
        schema_of(features(2, mechanism, per_feature=True))
    with pytest.raises(SchemaError, match="pgc"):
        schema_of(features(2, "pgc"))


@pytest.mark.parametrize(
    ("key", "first"), [("epsilon", "9.0"), ("epsilon", "1.0"), ("label", "{}"), ("collection", '"x"')]
)
def test_a_key_that_stands_twice_is_refused(key, first):
    """Readers differ in which value they take, so a device could show another budget than it spends."""
    text = schema_of(ASKED["subset"]).text
    with pytest.raises(SchemaError, match="twice"):
        Schema.from_json(text.replace(f'"{key}":', f'"{key}":{first},"{key}":', 1))


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "7", "null", '"a"', "NaN", "{}", b"\xff\xfe", b"\x00", "[" * 100000, '{"a":' * 100000, "9" * 5000],
)
def test_other_text_is_refused(text):
    with pytest.raises(SchemaError):
        Schema.from_json(text)


@pytest.mark.parametrize("depth", [10, 500, 950, 990, 2000])
@pytest.mark.parametrize("before", ['"epsilon":', '"randomizers":', '"purpose":', '"totals":'])
def test_deep_nesting_is_refused(before, depth):
    deep = "[" * depth + "]" * depth
    with pytest.raises(SchemaError):
        Schema.from_json(schema_of(ASKED["multi-bit"]).text.replace(before, f'{before}{deep},"x":', 1))


def test_size_is_bounded():
    with pytest.raises(SchemaError, match="at most 16777216 bytes"):
        Schema.from_json(" " * (2**24 + 1))


def test_totals_are_sums_rounded_upward():
    schema = schema_of({**features(5, epsilon=0.1), **label(3, epsilon=0.2)})
    parts = [Fraction(part.cost) for part in schema.parts.values()]
    assert nextafter(schema.epsilon, 0) < sum(parts) <= schema.epsilon
    assert schema.bits == sum(facts["bits"] for facts in schema.to_dict()["randomizers"].values())
    assert schema.delta == 0
    assert schema_of(ASKED["gaussian"]).delta == 1e-6
    assert schema_of(features(7, "pgc", epsilon=0.5, per_feature=True)).epsilon == pytest.approx(3.5, rel=1e-12)


def test_many_classes_are_quick_to_price():
    """A label of as many classes as there may be: its randomizer must not search through all sizes of sets."""
    names = tuple(f"class {one}" for one in range(1000))
    assert Label(names, epsilon=1.0).layouts[0].bits == 10


TOML = """
collection = "reading-2026"
purpose = "Learn which kinds of books readers like."
opens = 2026-12-01T00:00:00Z
closes = 2027-01-01T00:00:00Z

[label]
classes = ["a", "b", "c", "d", "e", "f", "g"]
epsilon = 1
"""


NOW = datetime(2026, 6, 1, tzinfo=UTC)


def toml(folder, old="", new=""):
    assert old in TOML
    path = folder / "questions.toml"
    path.write_text(TOML.replace(old, new, 1), encoding="utf-8")
    return Schema.from_toml(path, COMMON["server_key"], now=NOW)


def test_toml(tmp_path):
    assert toml(tmp_path) == schema_of(ASKED["subset"])
    (tmp_path / "schema.json").write_text(toml(tmp_path).text)
    assert Schema.read(tmp_path / "schema.json") == schema_of(ASKED["subset"])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("closes", "closed"),
        ("2026-12-01T00:00:00Z", "2026-12-01T00:00:00"),
        ("2026-12-01T00:00:00Z", "2026-12-01T00:00:00.5Z"),
        ("2026-12-01T00:00:00Z", "2026-12-01"),
        ("2026-12-01T00:00:00Z", "1"),
        ("epsilon = 1", "epsilon = nan"),
        ("epsilon = 1", "epsilon = inf"),
        ("epsilon = 1", "epsilon = " + "9" * 400),
        ("epsilon = 1", "epsilon = " + "9" * 5000),
        ("epsilon = 1", "epsilon = " + "[" * 3000),
        ("epsilon = 1", "epsilon = " + "[" * 300 + "]" * 300),
        ("epsilon = 1", "epsilon = 1\nepsilon = 1"),
        ("[label]", 'server_key = ""\n[label]'),
        ("[label]", "[totals]\nepsilon = 1\n[label]"),
        ("[label]", "[[label]]"),
        ("[label]", "[label"),
        ("2027-01-01T00:00:00Z", "2027-01-01T01:00:00+01:00"),
    ],
)  # fmt: skip
def test_wrong_toml_is_refused(tmp_path, old, new):
    with pytest.raises(SchemaError):
        toml(tmp_path, old, new)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("purpose", "purpse", "Expected questions.toml to have .*, got 'purpse'. Did you mean 'purpose'"),
        ("epsilon", "epsilom", r"Expected \[label\] to have .*, got 'epsilom'. Did you mean 'epsilon'"),
        ("purpose", "zzz", "got 'zzz'. Remove it"),
        ("closes", "# closes", "Expected questions.toml to have closes"),
        ('["a", ', "[2004, ", 'got 2004. Write them in quotes: "2004"'),
        ("2026-12-01T00:00:00Z", "2026-12-01", "got '2026-12-01'. Write date and time, and Z at the end"),
        ("2026-12-01T00:00:00Z", "2026-12-01T00:00:00", "got '2026-12-01T00:00:00'. Write"),
        ("[label]", '[label]\nname = "user"', "'user', the column of user ids"),
        ("[label]", '[features]\nnames = ["label"]\nepsilon = 1.0\n[label]', "'label', the name of the label"),
        ("[label]", '[features]\nnames = ["user"]\nepsilon = 1.0\n[label]', "'user', the column of user ids"),
        ("[label]", "[features]\nlow = 0\nhigh = 9\nepsilon = 1.0\n[label]", "Write columns = .*min = 0, max = 120"),
        ("[label]", '[features]\nnames = ["x"]\nmechanism = "pgc"\nepsilon = 1.0\n[label]', "Add per_feature = true"),
    ],
)
def test_refused_questions_say_what_to_write(tmp_path, old, new, problem):
    with pytest.raises(SchemaError, match=problem):
        toml(tmp_path, old, new)


def test_links_need_their_roster(tmp_path):
    path = tmp_path / "questions.toml"
    path.write_text(TOML[: TOML.index("[label]")] + "[links]\nepsilon = 4.0\n")
    with pytest.raises(SchemaError, match="--roster FILE"):
        Schema.from_toml(path, COMMON["server_key"], now=NOW)
    assert Schema.from_toml(path, COMMON["server_key"], ("a", "b"), now=NOW).links.users == 2


def test_a_collection_that_is_over_is_not_opened(tmp_path):
    path = tmp_path / "questions.toml"
    path.write_text(TOML)
    for over in (datetime(2027, 1, 1, tzinfo=UTC), datetime(2028, 1, 1, tzinfo=UTC)):
        with pytest.raises(SchemaError, match="closes to be in the future, got 2027-01-01T00:00:00Z"):
            Schema.from_toml(path, COMMON["server_key"], now=over)
    assert Schema.from_toml(path, COMMON["server_key"], now=datetime(2026, 12, 31, 23, tzinfo=UTC)).parts


@pytest.mark.parametrize(
    ("path", "new", "field"),
    [
        ("totals.epsilon", 1.5, "totals.epsilon to follow from the questions, which give 5.0, got 1.5"),
        ("randomizers.label.epsilon", 0.5, "randomizers.label.epsilon to follow .* give 1.0, got 0.5"),
        ("totals", 7, "totals to follow"),
        ("totals." + "x" * 5000, "y" * 5000, "totals.x+ to follow"),
    ],
)
def test_difference_is_one_sentence_about_one_field(path, new, field):
    values = changed(schema_of(ASKED["features and label"]).to_dict(), path, new)
    with pytest.raises(SchemaError, match=field) as caught:
        Schema.from_dict(values)
    assert len(str(caught.value)) < 400


def test_toml_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "questions.toml").write_bytes(b'collection = "\xff"')
    with pytest.raises(SchemaError, match=r"questions\.toml to be TOML"):
        Schema.from_toml(tmp_path / "questions.toml", COMMON["server_key"])


def test_parts_can_be_built_alone():
    assert Features({"a": (0.0, 1.0)}, 1.0, cap=5).to_dict() == schema_of(features(1, cap=5)).features.to_dict()
    assert Links(**LINKS).cost == schema_of(ASKED["links"]).epsilon
