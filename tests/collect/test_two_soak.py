"""Bytes of every kind that no honest device or server sends: none is taken, none changes a book, and later counts are exact."""

import json
from collections import Counter
from hashlib import sha256

import numpy as np
import pytest
from test_two import LABELS, NONE, expected, fixed_words, joined
from test_two_batches import stored
from two_made import CLASSES, KEYS, OPERATORS, SEALS, Pair, agreed

from sfumato.collect._keys import DeviceKeys
from sfumato.collect.two._agreement import Party
from sfumato.collect.two._device import drawn
from sfumato.collect.two._message import decode
from sfumato.collect.two._signed import SealKey
from sfumato.errors import CollectionError, DataError, InputError

LOW_ORDER = [bytes(32), b"\1" + bytes(31), (2**255 - 20).to_bytes(32, "little"), (2**255 - 19).to_bytes(32, "little")]
"""X25519 keys that lead to the same secret whoever uses them."""


class Barrage:
    """Messages to one server. u0, ..., u3 reported what is ``known``; u4, ..., u7 did not report; the others did not enrol."""

    def __init__(self, pair, server, rng, known):
        self.pair, self.server, self.rng = pair, server, rng
        self.agreement, self.me = pair.agreement, server
        self.fresh = [self.new(f"u{number}") for number in range(4, 8)]
        self.known = known
        self.other, _ = agreed(pair.partition, name="elsewhere")
        self.kinds = [getattr(self, name) for name in sorted(vars(Barrage)) if name.startswith("of_")]

    def new(self, user, agreement=None, server=None, cell=None, keys=None):
        agreement, server = agreement or self.agreement, self.me if server is None else server
        cell = self.pair.partition.cells.get(user, 0) if cell is None else cell
        return drawn(agreement, user, cell, keys or self.pair.devices[user], CLASSES[self.rng.integers(3)])[server]

    def one(self):
        """A right message of a user who has not reported, or has."""
        return (self.fresh + self.known)[self.rng.integers(8)]

    def signed(self, message):
        """The body of this message, signed by its own user where the id is whole, or by anybody."""
        user = message[39 : 39 + (message[38] if len(message) > 38 else 0)].decode(errors="replace")
        return message + self.pair.devices.get(user, DeviceKeys.new()).sign(message)

    def flipped(self, message):
        place, found = self.rng.integers(len(message)), bytearray(message)
        found[place] ^= 1 << int(self.rng.integers(8))
        return bytes(found)

    def of_noise(self):
        return self.rng.bytes(int(self.rng.integers(900)))

    def of_noise_with_a_right_head(self):
        return self.one()[:38] + self.rng.bytes(int(self.rng.integers(900)))

    def of_a_flipped_bit(self):
        return self.flipped(self.one())

    def of_a_flipped_bit_that_is_signed(self):
        return self.signed(self.flipped(self.one()[:-64]))

    def of_missing_bytes(self):
        message = self.one()
        return message[: self.rng.integers(len(message))]

    def of_missing_bytes_that_are_signed(self):
        message = self.one()[:-64]
        return self.signed(message[: self.rng.integers(len(message))])

    def of_more_bytes(self):
        return self.one() + self.rng.bytes(int(self.rng.integers(1, 90)))

    def of_more_bytes_that_are_signed(self):
        message, place = self.one()[:-64], int(self.rng.integers(38, 400))
        return self.signed(message[:place] + self.rng.bytes(int(self.rng.integers(1, 90))) + message[place:])

    def of_two_in_one(self):
        return self.one() + self.one()

    def of_a_replay(self):
        """It is stored already, which is what the device is told."""
        return self.known[self.rng.integers(4)]

    def of_a_replay_under_another_name(self):
        message = self.one()[:-64]
        return self.signed(message[:40] + b"%d" % ((message[40] - 48 + 1 + self.rng.integers(7)) % 8) + message[41:])

    def of_a_second_report(self):
        return self.new(f"u{self.rng.integers(4)}")

    def of_the_other_server(self):
        return self.new("u4", server=1 - self.me)

    def of_the_other_server_with_this_number(self):
        message = bytearray(self.new("u4", server=1 - self.me)[:-64])
        message[5] = self.me
        return self.signed(bytes(message))

    def of_another_agreement(self):
        return self.new("u4", agreement=self.other)

    def of_another_agreement_under_this_name(self):
        message = self.new("u4", agreement=self.other)[:-64]
        return self.signed(message[:6] + self.agreement.digest + message[38:])

    def of_another_cell(self):
        return self.new("u4", cell=[0, 2, 3, 2**32 - 1][self.rng.integers(4)])

    def of_a_user_who_did_not_enrol(self):
        return self.new("u8")

    def of_a_stranger(self):
        return self.new("stranger", cell=0, keys=DeviceKeys.new())

    def of_another_device(self):
        message = self.one()[:-64]
        return message + self.pair.devices["u11"].sign(message)

    def of_no_signature(self):
        return self.one()[:-64] + [bytes(64), b"\xff" * 64, b"\1" + bytes(63)][self.rng.integers(3)]

    def of_a_share_of_another_message(self):
        first, second = (decode(self.agreement, self.me, self.new("u4")) for _ in range(2))
        return self.signed(first.header + second.sealed)

    def of_a_key_that_is_not_that_of_this_agreement(self):
        """Sealed to the lasting key, to that of the other server, or to a new one."""
        secret = [KEYS[self.me].secret, SEALS[1 - self.me].secret, SealKey.new().secret][self.rng.integers(3)]
        parties = list(self.agreement.parties)
        parties[self.me] = Party(SealKey(secret).public.hex(), parties[self.me].sign)
        moved = _Moved(self.agreement, tuple(parties))
        return self.new("u5", agreement=moved)

    def of_a_point_of_low_order(self):
        upload = decode(self.agreement, self.me, self.fresh[0])
        return self.signed(upload.header + LOW_ORDER[self.rng.integers(4)] + upload.sealed[32:])

    def of_an_odd_name(self):
        name = [b"\xff\xfe", b"", b"u\x00", b"u\n", "u\u202e".encode(), b"u" * 200][self.rng.integers(6)]
        message = self.one()[:-64]
        return self.signed(message[:38] + bytes([len(name)]) + name + message[41:])

    def of_another_version(self):
        message = bytearray(self.one()[:-64])
        message[self.rng.integers(6)] ^= int(self.rng.integers(1, 256))
        return self.signed(bytes(message))


class _Moved:
    """An agreement with other keys, under the name of the first."""

    def __init__(self, agreement, parties):
        self._agreement, self.parties = agreement, parties

    def __getattr__(self, name):
        return getattr(self._agreement, name)


def content(server):
    return sha256(server.book._path.read_bytes()).hexdigest(), stored(server)


def ready(folder):
    pair = Pair(folder, least=2)
    pair.enrol(pair.users[:8])
    return pair


def barrage(folder, number, count, seed, size=400):
    """Send messages of all kinds, in batches; return the collection, and how many there were of each kind."""
    rng = np.random.default_rng(seed)
    pair, refused, known = ready(folder), Counter(), []
    server = pair.servers[number]
    for user in pair.users[:4]:
        messages = pair.drawn(user, LABELS[user])
        assert [one.take(message) for one, message in zip(pair.servers, messages, strict=True)] == [False, False]
        known.append(messages[number])
    sender, before = Barrage(pair, number, rng, known), content(server)
    while refused.total() < count:
        batch = [sender.kinds[place] for place in rng.integers(len(sender.kinds), size=size)]
        messages = [kind() for kind in batch]
        for kind, message, outcome in zip(batch, messages, server.take_all(messages), strict=True):
            if kind == sender.of_a_replay:
                assert outcome is True
            else:
                assert isinstance(outcome, InputError | CollectionError), f"{kind.__name__}: {message.hex()}"
            refused[kind.__name__[3:]] += 1
    assert content(server) == before
    return pair, refused


def ends_well(pair):
    """What honest users reported before and report after it is opened, and nothing else."""
    noise = fixed_words(pair)
    for user in pair.users[4:8]:
        pair.report(user, LABELS[user])
    opened = joined(pair, pair.exchange())
    assert (opened.counts == expected(pair, opened, {user: LABELS[user] for user in pair.users[:8]}, noise)).all()
    assert opened.about["left_out"] == NONE


@pytest.mark.parametrize("number", [0, 1])
def test_1000_bad_messages_change_nothing(tmp_path, number):
    pair, refused = barrage(tmp_path, number, 1000, 3)
    assert len(refused) == 26
    ends_well(pair)


@pytest.mark.soak
def test_100000_bad_messages_change_nothing(tmp_path):
    pair, refused = barrage(tmp_path, 1, 100_000, 4)
    print(refused.total(), "messages of", len(refused), "kinds, none taken:", dict(refused.most_common()))
    ends_well(pair)


def bad_files(rng, file, body):
    """Files of a step: changed without a signature, and what the other server signs and no honest one says."""
    place, found = int(rng.integers(len(file))), bytearray(file)
    found[place] ^= 1 << int(rng.integers(8))
    yield bytes(found)
    yield file[:place]
    yield file[:place] + rng.bytes(3) + file[place:]
    yield OPERATORS[1].signed(body)
    text = file.split(b"\n")[0]
    for other in (text[:-1], b" " + text, b"[" * 5000, text + b"\n", text.replace(b":", b": ", 1)):
        yield other + b"\n" + OPERATORS[0].signature(other).hex().encode() + b"\n"
    for name in body:
        nothing = [] if name != "reports" else [[]]  # a list of no reports is one
        for value in (None, -1, 2**70, nothing, {}, "zz", [[None]], [["u0", "00", 3]], body["agreement"][:-1] + "g"):
            yield OPERATORS[0].signed({**body, name: value})
        yield OPERATORS[0].signed({key: value for key, value in body.items() if key != name})


def files(folder, rounds, seed):
    """Give the second server bad files at every step; return how many it refused."""
    rng, refused = np.random.default_rng(seed), 0
    pair = ready(folder)
    for user in pair.users[:4]:
        pair.report(user, LABELS[user])
    noise, good = fixed_words(pair), pair.servers[1]
    given = [server.close() for server in pair.servers]
    for step in ("proofs", "accepted", "opening"):
        body, before = json.loads(given[0].split(b"\n")[0]), content(good)
        for _ in range(rounds):
            for bad in bad_files(rng, given[0], body):
                with pytest.raises(DataError):
                    getattr(good, step)(bad)
                refused += 1
        assert content(good) == before
        given = [getattr(server, step)(theirs) for server, theirs in zip(pair.servers, reversed(given), strict=True)]
    opened = joined(pair, given)
    assert (opened.counts == expected(pair, opened, {user: LABELS[user] for user in pair.users[:4]}, noise)).all()
    return refused


def test_bad_files_of_the_other_server_change_nothing(tmp_path):
    assert files(tmp_path, 1, 5) > 150


@pytest.mark.soak
def test_many_bad_files_of_the_other_server_change_nothing(tmp_path):
    print(files(tmp_path, 100, 6), "files refused")
