"""Public keys that no device drew are not enrolled: under a point of small order anybody can sign anything."""

import pytest
from devices import SERVER_KEY, FakeDevice, label_schema

from sfumato.collect._intake import Intake
from sfumato.collect._keys import DeviceKeys, is_strong, verify
from sfumato.collect._store import Enrolment, Store

SCHEMA = label_schema()
ADA = FakeDevice("ada", SCHEMA)
P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P


def added(one, other):
    """The sum of two points of Ed25519 in affine coordinates (RFC 8032, section 5.1.4)."""
    (x1, y1), (x2, y2) = one, other
    both = D * x1 * x2 * y1 * y2
    return (x1 * y2 + x2 * y1) * pow(1 + both, -1, P) % P, (y1 * y2 + x1 * x2) * pow(1 - both, -1, P) % P


def times(number, point):
    found = (0, 1)
    for bit in bin(number)[2:]:
        found = added(found, found)
        found = added(found, point) if bit == "1" else found
    return found


def lifted(y):
    """A point with this second coordinate, or None."""
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    root = pow(square, (P + 3) // 8, P)
    for x in (root, root * pow(2, (P - 1) // 4, P) % P):
        if x * x % P == square:
            return x, y
    return None


def small_points():
    """The eight points of small order: multiples of the prime order's multiple of some point."""
    order = 2**252 + 27742317777372353535851937790883648493
    y = next(y for y in range(2, 100) if (point := lifted(y)) and times(4 * order, point) != (0, 1))
    generator = times(order, lifted(y))
    points = [times(number, generator) for number in range(8)]
    assert len(set(points)) == 8
    assert times(8, generator) == (0, 1)
    return points


def encoded(x, y):
    return (y | (x & 1) << 255).to_bytes(32, "little")


def weak_keys():
    """All encodings of these points, and other forms of points than the canonical one."""
    found = {encoded(*point) for point in small_points()}
    found |= {(y | sign << 255).to_bytes(32, "little") for _, y in small_points() for sign in (0, 1)}
    found |= {(y | sign << 255).to_bytes(32, "little") for y in range(P, 2**255) for sign in (0, 1)}
    return sorted(found)


def test_the_keys_of_devices_are_strong_and_no_other_points_are_refused():
    assert all(is_strong(DeviceKeys.new().sign_key) for _ in range(50))
    assert not any(map(is_strong, weak_keys()))
    assert is_strong((2).to_bytes(32, "little"))
    assert is_strong((P - 2).to_bytes(32, "little"))


def test_nobody_signs_under_a_point_of_small_order():
    """R = the neutral point and S = 0 are a signature of every message under the neutral point, as libraries check it."""
    neutral = encoded(0, 1)
    forged = neutral + bytes(32)
    assert not verify(neutral, b"any report", forged)


@pytest.fixture(scope="module")
def intake(tmp_path_factory):
    store = Store.create(str(tmp_path_factory.mktemp("weak") / "reports.sqlite"), SCHEMA)
    yield Intake(SCHEMA, store, SERVER_KEY)
    store.dispose()


def test_weak_keys_are_refused_at_enrolment(intake):
    asked = [{**ADA.code, "sign_key": key.hex()} for key in weak_keys()]
    answers = intake.enrolments([*asked, ADA.code])
    assert [one.status for one in answers[:-1]] == [422] * len(asked)
    assert isinstance(answers[-1], Enrolment)
    assert all("secret key" in one.detail for one in answers[:-1])
