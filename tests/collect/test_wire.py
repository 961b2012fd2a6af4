"""Messages: golden bits by hand, round trips, and that nothing but what ``encode`` writes is ever accepted."""

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_messages import ASKED, LETTERS, accepted, all_schemas, any_answers, every_answer, features, label, schema_of

from sfumato.collect import _wire as wire
from sfumato.collect._wire import WireError, check_user, decode, encode
from sfumato.errors import SchemaError
from sfumato.noise.coins import SecretWords
from sfumato.randomizers._questions import LABEL_MECHANISMS, MECHANISMS

HEAD = 38  # bytes before the user id

# Answers and the bits of their part, written by hand from the table in wire.py: drawn features, then values.
GOLDEN = {
    "multi-bit": ({"features": (1, 4, 0, 1)}, "001 100 0 1"),
    "multi-bit as a bitmap": ({"features": (0, 2, 3, 5, 1, 0, 0, 1)}, "101101 1 0 0 1"),
    "one-bit": ({"features": (1, 0, 0, 1, 1, 0, 1, 1, 1, 0, 1)}, "10011011101"),
    "laplace": ({"features": (-60 * 2**21, 2**20)}, f"{0:028b} {60 * 2**21 + 2**20:028b}"),
    "laplace a feature": ({"features": (-1, 60 * 2**20)}, f"{60 * 2**20 - 1:027b} {120 * 2**20:027b}"),
    "gaussian": ({"features": (0, -5)}, f"{81442664:028b} {81442664 - 5:028b}"),
    "piecewise": ({"features": (0, 3, 1, 1023)}, "000 011 0000000001 1111111111"),
    "piecewise a feature": ({"features": (2, 0, 512)}, "0000000010 0000000000 1000000000"),
    "pgc": ({"features": (1, 1, 0)}, "110"),
    "collision": ({"features": (10,)}, "01010"),
    "direction": ({"features": (1,)}, "1"),
    "subset": ({"label": (20,)}, "10100"),
    "randomized-response": ({"label": (4,)}, "100"),
    "links": ({"links": (-6, 1, 0, 0, 1, 1)}, "00000 10011"),
}


@pytest.fixture(scope="module")
def schemas():
    return all_schemas()


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_vectors(schemas, name):
    schema, (answers, bits) = schemas[name], GOLDEN[name]
    digits = bits.replace(" ", "")
    part = int(digits, 2).to_bytes(-(-len(digits) // 8), "big")
    flags = {"features": 1, "label": 2, "links": 4}[next(iter(answers))]
    message = b"SFRP\x01" + bytes.fromhex(schema.sha256) + b"\x03ada" + bytes([flags]) + part
    assert schema.bits == len(digits)
    assert encode(schema, "ada", answers) == message
    assert decode(schema, message) == wire.Message("ada", answers)


@pytest.mark.parametrize("epsilon", [1e-6, 0.3, 1e4])
@pytest.mark.parametrize("mechanism", [*MECHANISMS, *LABEL_MECHANISMS])
@pytest.mark.parametrize("count", [1, 2, 3, 26])
def test_devices_can_answer_whatever_is_asked(mechanism, epsilon, count):
    """From the least budget to the largest, what a device draws is written and read as it is."""
    if mechanism in LABEL_MECHANISMS:
        asked, values = label(max(count, 2), mechanism, epsilon), np.arange(max(count, 2))
    else:
        asked = features(count, mechanism, epsilon, per_feature=mechanism == "pgc", cap=3)
        values = np.linspace([0.0], [1.0], 3) * np.ones(count)
    if mechanism == "gaussian" and epsilon > 100:
        with pytest.raises(SchemaError, match="take all of delta"):
            schema_of(asked)
        return
    question = schema_of(asked)
    ((part, about),) = question.parts.items()
    drawn = about.randomizer.encode(values, SecretWords(bytes(32)))
    for row in range(len(values)):
        answers = {part: drawn.key(row)}
        assert decode(question, encode(question, "ada", answers)).answers == answers


def test_parts_follow_each_other(schemas):
    schema = schemas["features and label"]
    both = encode(schema, "ada", {"label": (2,), "features": (1, 4, 0, 1)})
    assert both[HEAD:] == b"ada\x03" + bytes([0b00110001, 2])
    assert encode(schema, "ada", {"label": (2,)})[HEAD:] == b"ada\x02\x02"
    assert list(decode(schema, both).answers) == ["features", "label"]


def test_every_mechanism_has_a_golden_vector():
    asked = {values.get("mechanism", name) for part in ASKED.values() for name, values in part.items()}
    assert asked == {*MECHANISMS, *LABEL_MECHANISMS, "links"}
    assert {*GOLDEN} == {*ASKED} - {"features and label"}


@st.composite
def reports(draw):
    asked = draw(
        st.sampled_from(
            [
                features(
                    draw(st.integers(1, 26)),
                    draw(st.sampled_from(MECHANISMS[:5])),
                    draw(st.sampled_from([0.1, 3.0, 40.0])),
                ),
                features(
                    draw(st.integers(1, 26)), draw(st.sampled_from(("pgc", "laplace", "piecewise"))), per_feature=True
                ),
                features(
                    draw(st.integers(1, 26)),
                    draw(st.sampled_from(("collision", "direction"))),
                    cap=draw(st.integers(1, 30)),
                ),
                {"links": {"users": draw(st.integers(2, 300)), "roster": "00" * 32, "epsilon": 2.0}},
                {},
            ]
        )
    )
    if "links" not in asked and (not asked or draw(st.booleans())):
        asked |= label(
            draw(st.integers(2, len(LETTERS))),
            draw(st.sampled_from(LABEL_MECHANISMS)),
            draw(st.sampled_from([0.5, 3.0])),
        )
    schema = schema_of(asked)
    names = draw(st.lists(st.sampled_from([*schema.parts]), min_size=1, unique=True))
    user = draw(st.text("aZ0 -é漢", min_size=1, max_size=12).filter(lambda user: user == user.strip()))
    return schema, user, any_answers(schema, draw(st.randoms(use_true_random=False)), names)


@settings(max_examples=100, deadline=None)
@given(reports())
def test_round_trip(report):
    schema, user, answers = report
    message = encode(schema, user, answers)
    assert decode(schema, message) == wire.Message(user, answers)
    bits = sum(layout.bits for name in answers for layout in schema.parts[name].layouts)
    assert len(message) <= HEAD + len(user.encode()) + 1 + bits / 8 + len(answers)


@pytest.mark.parametrize("name", ASKED)
def test_cut_and_longer_messages_are_refused(schemas, name):
    schema = schemas[name]
    message = encode(schema, "ada", any_answers(schema, random.Random(1)))
    for end in range(len(message)):
        assert not accepted(schema, message[:end])
    for more in (b"\0", b"\1", message):
        assert not accepted(schema, message + more)
        assert not accepted(schema, more + message)


@pytest.mark.parametrize("name", ASKED)
def test_a_flipped_bit_is_refused_or_is_another_report(schemas, name):
    schema = schemas[name]
    message = encode(schema, "ada", any_answers(schema, random.Random(2)))
    original = decode(schema, message)
    for place in range(8 * len(message)):
        flipped = bytearray(message)
        flipped[place // 8] ^= 1 << place % 8
        if accepted(schema, bytes(flipped)):
            assert place // 8 >= HEAD
            assert decode(schema, bytes(flipped)) != original


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in ASKED
        if name
        not in ("laplace", "laplace a feature", "gaussian", "piecewise", "piecewise a feature", "features and label")
    ],
)
def test_of_all_bytes_exactly_the_reports_are_accepted(schemas, name):
    fewer = {"one-bit": features(7, "one-bit"), "links": {"links": {**ASKED["links"]["links"], "users": 3}}}
    schema = schema_of(fewer[name]) if name in fewer else schemas[name]
    ((part, question),) = schema.parts.items()
    messages = {encode(schema, "ada", {part: answer}) for answer in every_answer(question.layouts)}
    assert len(messages) == len(every_answer(question.layouts))
    size = wire.size(question.layouts)
    head = min(messages)[:-size]
    assert {
        *(
            head + number.to_bytes(size, "big")
            for number in range(256**size)
            if accepted(schema, head + number.to_bytes(size, "big"))
        )
    } == messages


def test_numbers_that_no_report_has_are_refused(schemas):
    """In a message of two cells: features that descend or repeat, a feature that is none, and a padding bit that is set."""
    schema = schemas["piecewise"]

    def message(first, second, padding=0):
        number = padding << 26 | first << 23 | second << 20 | 7 << 10 | 9
        return encode(schema, "ada", {"features": (0, 1, 7, 9)})[:-4] + number.to_bytes(4, "big")

    assert decode(schema, message(0, 4)).answers == {"features": (0, 4, 7, 9)}
    for fields in ((4, 0), (2, 2), (6, 7), (0, 7), (0, 4, 1), (0, 4, 32)):
        with pytest.raises(WireError):
            decode(schema, message(*fields))


@pytest.mark.parametrize("flags", [0, 2, 3, 4, 5, 8, 9, 128, 255])
def test_parts_that_are_not_asked_are_refused(schemas, flags):
    schema = schemas["multi-bit"]
    message = bytearray(encode(schema, "ada", {"features": (1, 4, 0, 1)}))
    message[HEAD + 3] = flags
    with pytest.raises(WireError, match="flags"):
        decode(schema, bytes(message))


@pytest.mark.parametrize(
    "change",
    [(0, ord("s"), "SFRP"), (4, 2, "version"), (4, 0, "version"), (5, None, "for schema"), (36, None, "for schema")],
)
def test_wrong_heads_are_named(schemas, change):
    place, byte, problem = change
    message = bytearray(encode(schemas["subset"], "ada", {"label": (3,)}))
    message[place] = message[place] ^ 1 if byte is None else byte
    with pytest.raises(WireError, match=problem):
        decode(schemas["subset"], bytes(message))


def test_a_report_for_another_schema_is_refused(schemas):
    message = encode(schemas["subset"], "ada", {"label": (3,)})
    later = schema_of(ASKED["subset"], closes="2027-01-01T00:00:01Z")
    with pytest.raises(WireError, match="for schema"):
        decode(later, message)


BAD_USERS = [
    "",
    " ada",
    "ada ",
    "a\nb",
    "a\0b",
    "e\u0301",
    "\u00a0a",
    "\u200b",
    "\ud800",
    "x" * 65,
    "é" * 33,
    "\ufb01\u0301\u2028",
]


@pytest.mark.parametrize("user", BAD_USERS, ids=ascii)
def test_user_ids_of_another_form_are_refused(schemas, user):
    schema = schemas["direction"]
    for call in (lambda: check_user(user), lambda: encode(schema, user, {"features": (1,)})):
        with pytest.raises(WireError, match="user id"):
            call()
    identity = user.encode(errors="surrogatepass")
    message = encode(schema, "ada", {"features": (1,)})
    with pytest.raises(WireError, match="user id"):
        decode(schema, message[: HEAD - 1] + bytes([len(identity)]) + identity + message[-2:])


@pytest.mark.parametrize("user", ["a", "x" * 64, "é" * 32, "漢字 7", "a@b.c"])
def test_user_ids(schemas, user):
    assert decode(schemas["direction"], encode(schemas["direction"], user, {"features": (0,)})).user == user


def test_bytes_that_are_no_text_are_refused(schemas):
    message = encode(schemas["direction"], "ada", {"features": (1,)})
    for identity in (b"\xff\xfe\xfd", b"\xc0\x80a", b"\xed\xa0\x80", b"a\xc3"):
        with pytest.raises(WireError, match="user id in UTF-8"):
            decode(schemas["direction"], message[: HEAD - 1] + bytes([len(identity)]) + identity + message[-2:])


@pytest.mark.parametrize(
    "answers",
    [
        {},
        {"label": (1,)},
        {"features": (1, 4, 0, 1), "label": (1,)},
        {"features": ()},
        {"features": (1, 4, 0)},
        {"features": (1, 4, 0, 1, 1)},
        {"features": (4, 1, 0, 1)},
        {"features": (1, 1, 0, 1)},
        {"features": (-1, 1, 0, 1)},
        {"features": (1, 7, 0, 1)},
        {"features": (1, 4, 0, 2)},
        {"features": (1, 4, -1, 0)},
        {"features": (1, 4, 0, 1.0)},
        {"features": (1, 4, 0, 0.5)},
        {"features": (1, 4, 0, float("nan"))},
        {"features": (1, 4, 0, "1")},
        {"features": (1, 4, 0, 1 << 70)},
    ],
    ids=str,
)
def test_answers_that_no_device_gives_are_not_written(schemas, answers):
    with pytest.raises(WireError):
        encode(schemas["multi-bit"], "ada", answers)


def test_numpy_integers_are_not_written(schemas):
    """They overflow: a part of more than 64 bits would lose its first ones."""
    with pytest.raises(WireError, match="11 integers"):
        encode(schemas["one-bit"], "ada", {"features": tuple(np.ones(11, np.uint8))})


def test_public_ids_of_collections_differ(schemas):
    ids = [wire.public_id(schema, user) for schema in schemas.values() for user in ("ada", "bob", "ad")]
    assert len({*ids}) == len(ids)
    assert all(0 <= one < 2**63 for one in ids)
    high = Counter(wire.public_id(schemas["subset"], f"user-{one}") >> 60 for one in range(800))
    assert min(high.values()) > 60
    assert wire.public_id(schemas["subset"], "ada") == wire.public_id(schema_of(ASKED["subset"]), "ada")


def test_refusals_hold_no_answer(schemas):
    schema = schemas["piecewise"]
    message = encode(schema, "ada", {"features": (0, 4, 777, 888)})
    with pytest.raises(WireError) as caught:
        decode(schema, message[:-4] + b"\xff" + message[-3:])
    assert "777" not in str(caught.value)
    assert "888" not in str(caught.value)
