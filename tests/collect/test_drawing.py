"""Values become answers to what the schema asks: by name, in its order, scaled from its ranges."""

import math

import numpy as np
import pytest
from collect_fake import schema_of
from scipy import sparse

from sfumato.collect._checks import roster_sha256
from sfumato.collect._drawing import Values, draw, oddities, scaled
from sfumato.collect._wire import decode, public_id
from sfumato.noise.coins import SecretWords

COLUMNS = [{"name": "age", "min": 0, "max": 120}, {"name": "books", "min": -10, "max": 10}]
SURE = 400.0


def answers_of(schema, values, key=None):
    return [decode(schema, message).answers for message in draw(schema, values, SecretWords(key))]


def test_values_are_scaled_from_their_ranges():
    features = schema_of(features={"columns": COLUMNS, "epsilon": 1.0}).features
    given = [[0.0, -10.0], [120.0, 10.0], [30.0, 5.0], [-1.0, 99.0], [math.inf, -math.inf], [math.nan, 0.0]]
    expected = [[0, 0], [1, 1], [0.25, 0.75], [0, 1], [1, 0], [math.nan, 0.5]]
    np.testing.assert_array_equal(scaled(features, np.array(given)), expected)


def test_sure_answers_are_the_values():
    asked = schema_of(
        features={"columns": COLUMNS, "epsilon": SURE, "mechanism": "one-bit"},
        label={"classes": ["a", "b", "c"], "epsilon": SURE, "mechanism": "randomized-response"},
    )
    values = Values(("u", "v", "w"), np.array([[0.0, 10.0], [120.0, -10.0], [120.0, 10.0]]), (2, None, -1))
    assert answers_of(asked, values) == [
        {"features": (0, 1), "label": (2,)},
        {"features": (1, 0)},
        {"features": (1, 1), "label": (0,)},
    ]


@pytest.mark.parametrize("mechanism", ["collision", "direction"])
def test_public_hashes_are_those_of_user_and_schema(mechanism):
    asked = schema_of(features={"names": list("abcdefgh"), "epsilon": 1.0, "mechanism": mechanism, "cap": 3})
    users, rows = ("u", "v"), np.eye(8)[[1, 5]]
    ids = np.array([public_id(asked, user) for user in users])
    expected = asked.features.randomizer.encode(rows, SecretWords(bytes(32)), ids)
    found = answers_of(asked, Values(users, rows), bytes(32))
    assert [one["features"] for one in found] == [expected.key(0), expected.key(1)]


def test_blocks_follow_the_law_of_the_randomizer():
    asked = schema_of(label={"classes": ["a", "b"], "epsilon": 1.0, "mechanism": "randomized-response"})
    users = tuple(f"u{i}" for i in range(4000))
    kept = sum(one["label"] == (1,) for one in answers_of(asked, Values(users, labels=(1,) * 4000), bytes(32)))
    right = math.e / (1 + math.e)
    assert abs(kept / 4000 - right) < 4 * math.sqrt(right * (1 - right) / 4000)
    assert abs(kept / 4000 - 2 / 3 * right) > 8 * math.sqrt(right * (1 - right) / 4000)


def test_links_of_some_users_are_those_of_all():
    """The rows of a block are randomized as they would be among all rows."""
    asked = schema_of(links={"users": 11, "roster": "00" * 32, "epsilon": 800.0, "degree_share": 0.5})
    rng = np.random.default_rng(1)
    dense = rng.random((11, 11)) < 0.4
    places = (7, 0, 10)
    lists = tuple(tuple(np.flatnonzero(dense[place]).tolist()) for place in places)
    found = answers_of(asked, Values(("h", "a", "k"), links=lists, places=places))
    reports = asked.links.randomizer.encode(sparse.csr_matrix(dense), SecretWords())
    bits = np.unpackbits(reports.bits, axis=1, count=11, bitorder="little")
    for place, answer in zip(places, found, strict=True):
        assert answer["links"] == (reports.degrees[place], *np.delete(bits[place], place))


@pytest.mark.parametrize(
    ("age", "said"),
    [
        (60, []),
        ("60", []),
        (120.0, []),
        ("old", ["age: 'old' is no number and counts as 60."]),
        (math.nan, ["age: nan is no number and counts as 60."]),
        ("", ["age: '' is no number and counts as 60."]),
        ([1], ["age: [1] is no number and counts as 60."]),
        ("x" * 99, [f"age: '{'x' * 39} is no number and counts as 60."]),
        (True, ["age: True counts as 1."]),
        (121, ["age: 121 is outside 0 to 120 and counts as 120."]),
    ],
)
def test_odd_numbers_are_told(age, said):
    asked = schema_of(features={"columns": COLUMNS, "epsilon": 1.0})
    assert oddities(asked, {"features": {"age": age, "books": 0}}, {}) == said


def test_odd_numbers_of_thousands_of_digits_are_told():
    asked = schema_of(features={"columns": COLUMNS, "epsilon": 1.0})
    assert oddities(asked, {"features": {"age": -(10**5000), "books": [10**5000]}}, {}) == [
        "age: -inf is outside 0 to 120 and counts as 0.",
        "books: a value of thousands of digits is no number and counts as 0.",
    ]


@pytest.mark.parametrize(
    "mechanism", ["multi-bit", "one-bit", "laplace", "gaussian", "piecewise", "pgc", "collision", "direction"]
)
def test_what_is_no_number_counts_as_what_is_told(mechanism):
    """The same coins give the same report."""
    alone = {"per_feature": True} if mechanism == "pgc" else {}
    asked = schema_of(features={"columns": COLUMNS, "epsilon": 1.0, "mechanism": mechanism, **alone})
    (said,) = oddities(asked, {"features": {"age": 1, "books": "many"}}, {})
    counted = float(said.split()[-1].rstrip("."))
    assert counted == (-10 if mechanism in ("collision", "direction") else 0)
    for number in range(20):
        drawn = [
            answers_of(asked, Values(("u",), np.array([[1.0, books]])), bytes([number] * 32))
            for books in (math.nan, counted)
        ]
        assert drawn[0] == drawn[1]


def test_odd_classes_and_links_are_told():
    asked = schema_of(label={"name": "year", "classes": ["2004", "2005"], "epsilon": 1.0})
    assert oddities(asked, {"label": "x"}, {}) == ["year: 'x' is no class and counts as 2004."]
    assert oddities(asked, {"label": 2005}, {}) == oddities(asked, {}, {}) == []
    asked = schema_of(links={"users": 3, "roster": "00" * 32, "epsilon": 1.0})
    roster = {"ada": 0, "bob": 1, "cid": 2}
    assert oddities(asked, {"links": ["ada", "eve", 7]}, roster) == [
        "links: 2 of 3 ids are not on the roster and count as no link."
    ]
    assert oddities(asked, {"links": ["ada"]}, roster) == []


ROSTER = [f"u{place}" for place in range(40)]
PARTS = {
    **{
        mechanism: {"features": {"names": [f"f{i}" for i in range(8)], "epsilon": 2.0, "mechanism": mechanism, **more}}
        for mechanism, more in (
            ("multi-bit", {}), ("one-bit", {}), ("direction", {}), ("piecewise", {}), ("laplace", {}),
            ("gaussian", {"delta": 1e-6}), ("pgc", {"per_feature": True}),
        )
    },
    **{
        mechanism: {"label": {"classes": list("abcdef"), "epsilon": 1.0, "mechanism": mechanism}}
        for mechanism in ("randomized-response", "subset")
    },
    "links": {"links": {"users": 40, "roster": roster_sha256(ROSTER), "epsilon": 6.0}},
}  # fmt: skip


@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_as_many_random_bytes_are_drawn_whatever_the_values(parts):
    """But for "collision", which tries again where it missed; fixed moments (test_ticks.py) hide how long any of it takes."""
    asked, drawn = schema_of(**parts), []

    class Counted(SecretWords):
        def bytes(self, count):
            drawn[-1] += count
            return super().bytes(count)

    rows = [[0.0] * 8, [1.0] * 8, [0.3, 1, 0, 0, 1, 0, 1, 0.5], [1.0] + [0.0] * 7]
    for key in range(10):
        drawn.clear()
        for place, row in enumerate(rows):
            links = tuple(range(6, 6 + 11 * place))
            drawn.append(0)
            values = Values(("u5",), np.array([row]), (place,), (links,), (5,))
            draw(asked, values, Counted(bytes([key]) * 32))
        assert len(set(drawn)) == 1
        assert drawn[0] > 0
