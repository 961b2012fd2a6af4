"""What no agreement may say: what could not be opened in the end, or would cost users epsilon for nothing."""

import json
from dataclasses import replace

import numpy as np
import pytest
from test_two_soak import LOW_ORDER
from two_made import OPERATORS, SIGN_KEYS, Pair, agreed

from sfumato.collect._client import Device
from sfumato.collect.two._agreement import LEAST_EPSILON, Agreement, Partition
from sfumato.collect.two._device import split
from sfumato.collect.two._opening import join
from sfumato.errors import DataError, InputError, SchemaError
from sfumato.local import _shared_counts

PARTITION = Partition.of_rows([(f"u{number}", 0) for number in range(4)])


@pytest.mark.parametrize("key", [*LOW_ORDER, bytes(31) + b"\x80"])
@pytest.mark.parametrize("server", [0, 1])
def test_keys_that_seal_to_everybody_are_refused(tmp_path, key, server):
    """A device would notice it after the charge: users would spend epsilon, and no report would come."""
    agreement, _ = agreed(PARTITION)
    parties = list(agreement.parties)
    parties[server] = replace(parties[server], seal=key.hex())
    with pytest.raises(SchemaError, match="weak"):
        replace(agreement, parties=tuple(parties))
    text = agreement.text.replace(agreement.parties[server].seal, key.hex())
    with pytest.raises(SchemaError):
        Agreement.from_json(text)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, 5e-324, 1e-10, 9.99e-4, 100.1, float("nan"), float("inf"), True, "1"])
def test_epsilon_that_servers_cannot_open_with_is_refused(epsilon):
    with pytest.raises(InputError):
        agreed(PARTITION, epsilon=epsilon)


def test_the_least_epsilon_can_be_opened(tmp_path):
    """Counts of honest servers are far from the bound of what is taken for a count; smaller cells have the same noise."""
    assert LEAST_EPSILON == _shared_counts.LEAST_EPSILON
    pair = Pair(tmp_path, epsilon=LEAST_EPSILON)
    pair.stored(np.arange(12) % 3)
    opened = join(pair.agreement, pair.partition, pair.signatures, tuple(pair.exchange()))
    assert np.abs(opened.counts).max() < 2**31 / 1000
    assert opened.counts.sum(axis=1).tolist() == [4, 4, 4]


@pytest.mark.parametrize(
    "text", ["9" * 5000 + " a\n", "999999999 a\n", "0 a\n" + "1" * 9 + " b\n", "-1 a\n", "² a\n", " a\n"]
)
def test_cells_with_odd_numbers_are_refused(text):
    with pytest.raises(SchemaError):
        Partition.from_text(text)


def test_a_device_that_refuses_is_not_charged(tmp_path):
    agreement, signatures = agreed(PARTITION)
    Device.create(tmp_path / "device", "u3", 5)
    one = ' "a", "b"'
    for classes in (agreement.classes[::-1], ("red", "green", "blue "), (*agreement.classes, one)):
        other = replace(agreement, classes=classes)
        with pytest.raises(SchemaError, match="both servers signed"):
            split(tmp_path / "device", other, PARTITION, signatures, SIGN_KEYS, "red")
    assert Device.open(tmp_path / "device").spent() == (0.0, 0.0)


@pytest.fixture
def opened(tmp_path):
    pair = Pair(tmp_path)
    pair.stored(np.arange(12) % 3)
    return pair, pair.exchange()


def said(file, **change):
    return OPERATORS[0].signed({**json.loads(file.split(b"\n")[0]), **change})


@pytest.mark.parametrize(
    "change",
    [
        {"server": False},
        {"server": 0.0},
        {"counted": [4.0, 4.0, 4.0]},
        {"left_out": {"first_alone": False, "second_alone": 0, "unlike": 0, "failed": 0, "few": 0}},
        {"more": 1},
    ],
)
def test_an_opening_has_one_form(opened, change):
    """JSON has several values that Python takes for one number: files that say the same would have other names."""
    pair, files = opened
    made = (pair.agreement, pair.partition, pair.signatures)
    join(*made, (said(files[0]), files[1]))
    with pytest.raises(DataError):
        join(*made, (said(files[0], **change), files[1]))


def test_an_opening_in_capitals_is_refused(opened):
    pair, files = opened
    sums = json.loads(files[0].split(b"\n")[0])["sums"]
    for other in (sums.upper(), f"{sums[:2]} {sums[2:]}"):
        with pytest.raises(DataError):
            join(pair.agreement, pair.partition, pair.signatures, (said(files[0], sums=other), files[1]))
