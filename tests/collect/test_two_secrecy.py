"""Forward secrecy: once a server opened, its lasting key, its store and all that was ever sent open no report."""

import pytest
from test_two import LABELS
from two_made import JOINT, KEYS, SEALS, SERVERS, Pair

from sfumato.collect.two._message import decode
from sfumato.collect.two._signed import SealKey
from sfumato.errors import CollectionError, InputError


def traces(folder, secrets):
    """Which of these secrets some file of a folder holds, as bytes or in hexadecimal digits."""
    content = b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())
    return [secret for secret in secrets if secret in content or secret.hex().encode() in content]


@pytest.fixture
def recorded(tmp_path):
    """Both servers at work, and all messages that were ever sent to either."""
    pair = Pair(tmp_path)
    pair.enrol()
    sent = {user: pair.drawn(user, LABELS[user]) for user in pair.users}
    for messages in sent.values():
        for server, message in zip(pair.servers, messages, strict=True):
            server.take(message)
    return pair, sent


def shares_with(pair, sent, keys):
    """The shares that these keys open, of all that was recorded."""
    found = []
    for messages in sent.values():
        for server in SERVERS:
            upload = decode(pair.agreement, server, messages[server])
            for key in keys:
                try:
                    found.append(key.unsealed(upload.sealed, upload.header))
                except InputError:
                    continue
    return found


def test_what_is_left_after_the_opening_opens_nothing(tmp_path, recorded):
    pair, sent = recorded
    shares = shares_with(pair, sent, SEALS)
    assert len(shares) == 24
    keys = [seal.secret for seal in SEALS]
    assert traces(tmp_path, [*keys, JOINT]) == [*keys, JOINT], "the scan finds what is there"
    pair.exchange()
    assert traces(tmp_path, [*keys, JOINT, *shares]) == []
    left = [SealKey(key.secret) for key in KEYS]
    assert shares_with(pair, sent, left) == []


def test_shares_are_never_on_disk_in_the_open(tmp_path, recorded):
    """Where the file system keeps blocks of deleted journals, the one key of 32 bytes is all that opens them."""
    pair, sent = recorded
    shares = shares_with(pair, sent, SEALS)
    for step in ("list", "proofs", "accepted"):
        pair.exchange(step)
        assert traces(tmp_path, shares) == []


def test_steps_say_the_same_after_the_keys_are_gone(recorded):
    pair, sent = recorded
    files = {step: pair.exchange(step) for step in ("list", "proofs", "accepted", "opening")}
    assert {step: pair.exchange(step) for step in files} == files
    for server, message in zip(pair.servers, sent["u0"], strict=True):
        assert server.take(message) is True
        with pytest.raises(CollectionError, match="second one"):
            server.take(pair.drawn("u0", "red")[server.me])


def test_late_reports_after_the_keys_are_gone(tmp_path):
    pair = Pair(tmp_path)
    pair.enrol()
    pair.exchange()
    with pytest.raises(CollectionError, match="closed"):
        pair.servers[1].take(pair.drawn("u0", "red")[1])


def test_every_agreement_has_its_own_key(tmp_path):
    """A share that was sealed for another agreement of the same servers stays shut."""
    pair = Pair(tmp_path)
    upload = decode(pair.agreement, 0, pair.drawn("u0", "red")[0])
    with pytest.raises(InputError, match="sealed to this server"):
        SealKey.new().unsealed(upload.sealed, upload.header)
    assert SealKey.new().secret != SealKey.new().secret
