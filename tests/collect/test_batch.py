"""Batches have one form: what encode_batch writes is read back, and anything else is refused with WireError."""

import random

import pytest
from collect_fake import KEY, schema_of

from sfumato.collect import _batch as batch
from sfumato.collect._batch import MOST_BYTES, decode_batch, encode_batch, most_reports
from sfumato.collect._keys import MAC_BYTES, DeviceKeys, mac, verify_batch
from sfumato.collect._wire import WireError, encode

SCHEMA = schema_of(label={"classes": ["crime", "poetry", "science"], "epsilon": 1.0})
DEVICES = {name: DeviceKeys(bytes([place]) * 32, bytes([place + 9]) * 32) for place, name in enumerate(("ada", "bö"))}


def reports():
    found = []
    for user, keys in DEVICES.items():
        message = encode(SCHEMA, user, {"label": (1,)})
        found.append((message, mac(keys.mac_key(KEY.public, user), message)))
    return tuple(found)


BATCH = encode_batch(SCHEMA, "ada", DEVICES["ada"], reports())


def test_batch_is_read_back():
    read = decode_batch(SCHEMA, BATCH)
    assert (read.sender, read.reports) == ("ada", reports())
    assert read.signed + read.signature == BATCH
    assert verify_batch(DEVICES["ada"].sign_key, read.signed, read.signature)
    assert not verify_batch(DEVICES["bö"].sign_key, read.signed, read.signature)


def test_codes_are_those_that_the_server_computes():
    for user, (message, code) in zip(DEVICES, decode_batch(SCHEMA, BATCH).reports, strict=True):
        assert code == mac(KEY.mac_key(DEVICES[user].agree_key, user), message)
        assert code != mac(KEY.mac_key(DEVICES[user].agree_key, "eve"), message)


def test_head_is_as_written_down():
    assert BATCH[:5] == b"SFRB\x01"
    assert BATCH[5:37] == SCHEMA.digest
    assert BATCH[37:41] == b"\x03ada"
    first = reports()[0][0]
    assert BATCH[41:45] == len(first).to_bytes(4, "big")
    assert BATCH[45:].startswith(first)


def test_every_cut_is_refused():
    """A cut by one whole report leaves the form whole; then the signature is wrong."""
    whole = len(reports()[1][0]) + MAC_BYTES + 4
    for size in range(len(BATCH)):
        if size == len(BATCH) - whole:
            read = decode_batch(SCHEMA, BATCH[:size])
            assert not verify_batch(DEVICES["ada"].sign_key, read.signed, read.signature)
        else:
            with pytest.raises(WireError):
                decode_batch(SCHEMA, BATCH[:size])


def test_longer_batch_is_refused():
    for extra in (1, 4, 35, MAC_BYTES + 3):
        with pytest.raises(WireError):
            decode_batch(SCHEMA, BATCH + bytes(extra))


def test_batch_of_nothing_is_refused():
    with pytest.raises(WireError, match="1 report or more"):
        encode_batch(SCHEMA, "ada", DEVICES["ada"], ())
    with pytest.raises(WireError):
        decode_batch(SCHEMA, BATCH[:41] + bytes(64))


def test_of_too_many_reports_no_more_are_read(monkeypatch):
    monkeypatch.setattr(batch, "MOST_REPORTS", 2)
    assert decode_batch(SCHEMA, BATCH).reports == reports()
    long = encode_batch(SCHEMA, "ada", DEVICES["ada"], reports() * 2)
    for data in (long, long[:-70] + b"x" * 70):  # what follows is not looked at
        with pytest.raises(batch.LongBatchError, match="at most 2 reports"):
            decode_batch(SCHEMA, data)


def test_another_schema_is_named():
    with pytest.raises(WireError, match="another"):
        decode_batch(SCHEMA, BATCH[:5] + bytes(32) + BATCH[37:])


def test_what_is_accepted_has_one_form():
    """Damage either leaves the form whole (and then the codes or the signature fail) or is refused."""
    rng, accepted = random.Random(1), 0
    for _ in range(3000):
        data = bytearray(BATCH)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        try:
            read = decode_batch(SCHEMA, bytes(data))
        except WireError:
            continue
        accepted += 1
        assert not verify_batch(DEVICES["ada"].sign_key, read.signed, read.signature)
        framed = b"".join(len(message).to_bytes(4, "big") + message + code for message, code in read.reports)
        identity = read.sender.encode()
        head = b"SFRB\x01" + SCHEMA.digest + bytes([len(identity)]) + identity
        assert head + framed + read.signature == bytes(data)
    assert accepted


def test_as_many_reports_as_fit():
    users = 50_000
    links = schema_of(links={"users": users, "roster": "0" * 64, "epsilon": 1.0, "degree_share": 0.1})
    message = encode(links, f"{1:064}", {"links": (0, *[0] * (users - 1))})  # no user id is longer
    coded = [(message, bytes(MAC_BYTES))] * (most_reports(links) + 1)
    assert len(encode_batch(links, f"{1:064}", DEVICES["ada"], coded[1:])) <= MOST_BYTES
    assert len(encode_batch(links, f"{1:064}", DEVICES["ada"], coded)) > MOST_BYTES
    assert most_reports(SCHEMA) == 2000
