"""Many reports in one transaction: each has the outcome that it would have alone, after those before it."""

import numpy as np
import pytest
from test_two import LABELS, spoilt
from two_made import CLASSES, Pair

from sfumato.collect._keys import DeviceKeys
from sfumato.collect.two._message import encode, nonce_of
from sfumato.errors import CollectionError, SfumatoError


def kinds(outcomes):
    return [(type(one), str(one)) if isinstance(one, Exception) else one for one in outcomes]


def alone(server, messages):
    found = []
    for message in messages:
        try:
            found.append(server.take(message))
        except SfumatoError as error:
            found.append(error)
    return kinds(found)


def stored(server):
    with server.book.reading() as connection:
        rows = connection.execute("SELECT user, message, nonce, public, sealed FROM reports ORDER BY rowid").fetchall()
        return rows, connection.execute("SELECT * FROM users").fetchall()


@pytest.fixture
def twins(tmp_path):
    """One collection twice, with the same keys and users."""
    pairs = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        pairs.append(Pair(tmp_path / name))
        pairs[-1].enrol(pairs[-1].users[:10])
    return pairs


def mixed(pair, server, seed):
    """Reports of all kinds, in an order that nobody chose: honest, sent twice, second ones, spoilt ones, and of strangers."""
    rng = np.random.default_rng(seed)
    messages = []
    for user in pair.users:
        first, second = (pair.drawn(user, CLASSES[rng.integers(3)])[server] for _ in range(2))
        messages += [first, first, second, b"", spoilt(rng, first, pair.devices[user]), second[:-1], first]
    rng.shuffle(messages)
    return messages


@pytest.mark.parametrize("server", [0, 1])
def test_a_batch_is_its_messages_one_after_the_other(twins, server):
    batched, single = (pair.servers[server] for pair in twins)
    for seed in range(3):
        messages = mixed(twins[0], server, seed)
        assert kinds(batched.take_all(messages)) == alone(single, messages)
        assert stored(batched) == stored(single)
    assert len(stored(batched)[0]) == 10
    for pair in twins:
        pair.exchange("list")
    messages = mixed(twins[0], server, 9)
    assert kinds(batched.take_all(messages)) == alone(single, messages)
    assert batched.take_all([]) == []


def test_two_users_with_one_sealed_share(twins):
    """The second report has the bytes of the first, sealed to another header: it opens under none but its own."""
    pair = twins[0]
    first = pair.drawn("u0", "red")[0]
    second = pair.drawn("u1", "red")[0]
    outcomes = pair.servers[0].take_all([first, second, first, second])
    assert outcomes == [False, False, True, True]


def test_one_nonce_in_one_batch(twins, monkeypatch):
    """Nonces of two users differ by a hash; where they were equal, the second report would be refused."""
    pair = twins[0]
    monkeypatch.setattr("sfumato.collect.two._door.nonce_of", lambda *_: b"n" * 16)
    outcomes = pair.servers[0].take_all([pair.drawn("u0", "red")[0], pair.drawn("u1", "red")[0]])
    assert outcomes[0] is False
    assert isinstance(outcomes[1], CollectionError)
    assert "nonce" in str(outcomes[1])
    assert len(stored(pair.servers[0])[0]) == 1


def test_nothing_to_write_takes_no_lock(twins):
    """Whoever sends bad bytes does not keep others waiting."""
    server = twins[0].servers[0]
    with server.book.writing():
        assert len(server.take_all([b"", twins[0].drawn("u11", "red")[0]])) == 2


def test_many_users_enrol_at_once(twins):
    pair = twins[0]
    server, strangers = pair.servers[0], DeviceKeys.new().sign_key
    codes = {user: pair.servers[0].code(user) for user in (*pair.users, "nobody")}
    late = pair.devices["u11"].sign_key
    asking = [
        ("u0", pair.devices["u0"].sign_key, codes["u0"]),
        ("u11", late, codes["u10"]),
        ("u11", late, codes["u11"]),
        ("u11", late, codes["u11"]),
        ("u11", strangers, codes["u11"]),
        ("nobody", strangers, codes["nobody"]),
        ("u10", bytes(32), codes["u10"]),
        ("u10", b"", codes["u10"]),
        ("\ud800", strangers, "\ud800"),
    ]
    outcomes = server.enrol_all(asking)
    assert [one if isinstance(one, bool) else type(one) for one in outcomes] == [
        True, CollectionError, False, True, *[CollectionError] * 5,
    ]  # fmt: skip
    with pytest.raises(CollectionError, match="another one"):
        server.enrol("u11", strangers, codes["u11"])
    assert server.take_all([pair.drawn("u11", LABELS["u11"])[0]]) == [False]


def test_a_share_that_is_not_for_this_server_spoils_no_other(twins):
    pair = twins[0]
    agreement, keys = pair.agreement, pair.devices["u1"]
    public, size = bytes(64), agreement.prio.input_share_size(0)
    wrong = encode(agreement, 1, "u1", 0, b"s" * 16, public, bytes(size))
    moved = b"SFRS\1\0" + wrong[6:]
    outcomes = pair.servers[0].take_all(
        [pair.drawn("u0", "red")[0], moved + keys.sign(moved), pair.drawn("u2", "red")[0]]
    )
    assert [outcomes[0], outcomes[2]] == [False, False]
    assert isinstance(outcomes[1], SfumatoError)
    assert nonce_of(agreement, "u1", 0, b"s" * 16) not in {row[2] for row in stored(pair.servers[0])[0]}
