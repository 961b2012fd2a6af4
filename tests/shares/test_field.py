"""The field against Python's integers, at random and where carries run."""

import itertools
import random

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.shares import _field as field
from sfumato.shares._field import MODULUS, elements

EDGES = [
    *(0, 1, 2, 27, 28, 29, 2**32 - 1, 2**32, 2**63, 2**64 - 1, 2**64, 2**64 + 1, 28 * 2**64 - 1, 28 * 2**64, 2**96),
    *(2**127, MODULUS // 2, MODULUS - 2**64, MODULUS - 2, MODULUS - 1),
    *((2**63 << 64) + 2**64 - 1, ((2**63 - 1) << 64) + 2**64 - 1),
    *(2**128 - 2**32 - 28 * 2**64, ((2**64 - 29) << 64) + 2**64 - 1, ((2**64 - 28) << 64)),
]
RANDOM = random.Random(0)
VALUES = EDGES + [RANDOM.randrange(MODULUS) for _ in range(100)]
LEFT, RIGHT = zip(*itertools.product(VALUES, VALUES), strict=True)


def integers(values):
    return [(high << 64) + low for low, high in values.reshape(-1, 2).tolist()]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (field.add, lambda a, b: a + b),
        (field.subtract, lambda a, b: a - b),
        (field.multiply, lambda a, b: a * b),
        (lambda a, _: field.negative(a), lambda a, _: -a),
    ],
)
def test_arithmetic_is_that_of_integers(ours, theirs):
    expected = [theirs(a, b) % MODULUS for a, b in zip(LEFT, RIGHT, strict=True)]
    assert integers(ours(elements(LEFT), elements(RIGHT))) == expected


def test_the_modulus_is_the_drafts_prime():
    assert MODULUS == 2**66 * 4611686018427387897 + 1
    assert all(pow(base, MODULUS - 1, MODULUS) == 1 for base in (2, 3, 5, 7, 11))
    assert [pow(field.root_of_unity(2**k), 2**k, MODULUS) for k in range(1, 12)] == [1] * 11
    assert field.root_of_unity(2) == MODULUS - 1


def test_sums_are_exact():
    left, right = elements(LEFT), elements(RIGHT)
    assert integers(field.inner(left, right)) == [sum(a * b for a, b in zip(LEFT, RIGHT, strict=True)) % MODULUS]
    assert integers(field.total(left)) == [sum(LEFT) % MODULUS]
    groups = np.arange(len(left)) % 3
    by_group = integers(field.total_by(left, groups, 4))
    assert by_group == [sum(LEFT[group::3]) % MODULUS for group in range(3)] + [0]


def test_sums_of_the_largest_products_do_not_overflow():
    most = np.broadcast_to(elements([MODULUS - 1]), (2**16, 2))
    assert integers(field.inner(most, most)) == [2**16]
    assert integers(field.total(most)) == [MODULUS - 2**16]


def test_bytes_of_no_element_are_refused_by_row():
    numbers = [0, MODULUS - 1, MODULUS, MODULUS + 1, 2**128 - 1]
    rows = np.frombuffer(b"".join(n.to_bytes(16, "little") + bytes(16) for n in numbers), np.uint8).reshape(-1, 32)
    values, fit = field.from_bytes(rows)
    assert fit.tolist() == [True, True, False, False, False]
    assert integers(values) == [0, 0, MODULUS - 1, 0, 0, 0, 0, 0, 0, 0]
    assert (field.to_bytes(values)[:2] == rows[:2]).all()


@pytest.mark.parametrize("number", [-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 1])
def test_signed_integers_come_back(number):
    assert integers(field.from_signed([number])) == [number % MODULUS]
    assert field.signed(elements([number])).tolist() == [number]


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**64, MODULUS // 2])
def test_what_no_64_bits_hold_is_refused(number):
    with pytest.raises(InputError, match="same reports"):
        field.signed(elements([number]))
