"""Public keys that no device drew are not enrolled: under a point of small order anybody can sign anything."""

import pytest
from devices import SERVER_KEY, FakeDevice, label_schema

from sfumato.collect._intake import Intake
from sfumato.collect._keys import DeviceKeys, is_strong, verify
from sfumato.collect._store import Enrolment, Store

SCHEMA = label_schema()
ADA = FakeDevice("ada", SCHEMA)
P = 2**255 - 19
SMALL = [  # second coordinates of the points of order 1, 2, 4 and 8 of Ed25519, as any list of them has them
    1,
    P - 1,
    0,
    int.from_bytes(bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"), "little"),
    int.from_bytes(bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"), "little"),
]


def weak_keys():
    """All encodings of these points, and other forms of points than the canonical one."""
    return [(y | sign << 255).to_bytes(32, "little") for y in (*SMALL, *range(P, 2**255)) for sign in (0, 1)]


def test_the_keys_of_devices_are_strong_and_no_other_points_are_refused():
    assert all(is_strong(DeviceKeys.new().sign_key) for _ in range(50))
    assert not any(map(is_strong, weak_keys()))
    assert is_strong((2).to_bytes(32, "little"))
    assert is_strong((P - 2).to_bytes(32, "little"))


def test_nobody_signs_under_a_point_of_small_order():
    """R = the neutral point and S = 0 are a signature of every message under the neutral point, as libraries check it."""
    neutral = (1).to_bytes(32, "little")
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
