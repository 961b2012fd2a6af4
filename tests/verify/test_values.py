"""Kinds of values refuse near misses."""

import pytest

from sfumato.verify._values import is_kind, kind_faults

NEAR_MISSES = [
    ("flag", [True, False], [1, 0, None, "true"]),
    ("index", [0, 2**53], [-1, True, 0.0, None, 2**53 + 1]),
    ("count", [1, 2**53], [0, True, 1.0, "1", 2**53 + 1, -1, None]),
    ("count or null", [1, None], [0, False, "null"]),
    ("counts", [[], [1, 3]], [[0], 3, [1.5], None, [True]]),
    ("number", [-1e300, 0, 2.5], [True, None, float("inf"), float("nan"), -(10**400)]),
    ("amount", [0, 1e300], [-1e-9, True, None]),
    ("budget or null", [0, 0.0, 1e300, None], [-1e-9, True, "1"]),
    ("positive", [1, 1e-300, 1e300], [0, -1.0, True, float("nan"), float("inf"), 10**400]),
    ("share", [1, 1.0, 1e-9], [0, 1.0000001, None, True]),
    ("part", [0.5, 1e-9], [0.0, 1.0, 1, None]),
    ("fraction", [0, 0.0, 0.999], [1, 1.0, -1e-9, True, None]),
    ("votes", [2**-10, 40, 2.0**15], [2**-11, 0, -1.0, 32768.1, True]),
    ("name", ["", "\u0430", "a" * 200], [None, "a" * 201, ["a"]]),
    ("device", ["cpu", "cuda", "cuda:1"], ["", "cpu ", "cpu\n", "cuda:arc", None]),
    ("object", [{}], [[], None, "x"]),
    ("one of a, b", ["a", "b"], ["c", "a, b", "", None, ["a"]]),
]


@pytest.mark.parametrize(("kind", "right", "wrong"), NEAR_MISSES, ids=[row[0] for row in NEAR_MISSES])
def test_every_kind_refuses_near_misses(kind, right, wrong):
    assert all(is_kind(value, kind) for value in right)
    assert not any(is_kind(value, kind) for value in wrong)


@pytest.mark.parametrize("kind", ["count or null up to 10", "number up to 10"])
def test_a_bound_is_named_and_never_lowers_a_value(kind):
    assert not list(kind_faults({"a": 10}, {"a": kind}, "settings", "a setting"))
    (text,) = kind_faults({"a": 11}, {"a": kind}, "settings", "a setting")
    assert text == "settings.a: 11 is beyond what can be verified here: at most 10"
    assert bool(list(kind_faults({"a": None}, {"a": kind}, "settings", "a setting"))) == (kind == "number up to 10")


def test_a_bound_is_one_of_the_magnitude():
    assert not list(kind_faults({"a": -10.0}, {"a": "number up to 10"}, "settings", "a setting"))
    assert list(kind_faults({"a": -10.5}, {"a": "number up to 10"}, "settings", "a setting"))
