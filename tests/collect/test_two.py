"""Two servers: counts are exact plus both noises, liars weigh one at most, and an honest server does everything once."""

import json
import shutil
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from two_made import CLASSES, HALVES, JOINT, KEYS, OPERATORS, SEALS, SIGN_KEYS, Pair, agreed

from sfumato.collect._client import Device
from sfumato.collect._keys import DeviceKeys, ServerKey
from sfumato.collect.two._agreement import SERVERS, Agreement, Partition
from sfumato.collect.two._book import Book
from sfumato.collect.two._device import drawn, split
from sfumato.collect.two._door import signed_as
from sfumato.collect.two._message import decode, encode, nonce_of
from sfumato.collect.two._opening import join
from sfumato.collect.two._server import Server
from sfumato.collect.two._signed import commitment, joint_key
from sfumato.errors import BudgetExceededError, CollectionError, DataError, InputError, SchemaError
from sfumato.noise._geometric import zero_sum_laplace
from sfumato.noise.coins import SecretWords

LABELS = {f"u{number}": CLASSES[number % 3] for number in range(12)}
NONE = dict.fromkeys(("first_alone", "second_alone", "unlike", "failed", "few"), 0)
REFUSED = (InputError, CollectionError)


@pytest.fixture
def pair(tmp_path):
    made = Pair(tmp_path)
    made.enrol()
    return made


def noise_of(key, pair):
    scale = Fraction(2) / Fraction(pair.agreement.epsilon)
    return zero_sum_laplace(SecretWords(key), scale, pair.partition.num_cells, len(pair.agreement.classes))


def fixed_words(pair):
    """Noise of known keys; returns the sum of both."""
    keys = [bytes([9 + server]) * 32 for server in SERVERS]
    for server, key in zip(pair.servers, keys, strict=True):
        server._words = lambda key=key: SecretWords(key)
    return sum(noise_of(key, pair) for key in keys)


def joined(pair, files):
    return join(pair.agreement, pair.partition, pair.signatures, tuple(files))


def expected(pair, opened, labels, noise):
    """What is opened of these users: nothing of a cell that stayed shut."""
    return np.where(opened.counted[:, None] > 0, pair.exact(labels) + noise, 0)


def test_counts_are_exact_plus_both_noises(pair):
    noise = fixed_words(pair)
    for user, label in LABELS.items():
        pair.report(user, label)
    opened = joined(pair, pair.exchange())
    assert (opened.counts == expected(pair, opened, LABELS, noise)).all()
    assert opened.counted.tolist() == [4, 4, 4]
    assert opened.rows(["u5", "stranger"]).tolist() == [[1, *opened.counts[1]], [-1, 0, 0, 0]]
    assert opened.about["servers"][1]["sign"] == OPERATORS[1].sign_key.hex()
    assert all(one[0] is None for server in pair.servers for one in shares_of(server))


def shares_of(server):
    with server.book.reading() as connection:
        return connection.execute("SELECT share FROM reports").fetchall()


def test_noise_is_fresh_in_every_collection(tmp_path):
    found = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        pair = Pair(tmp_path / name, users=60, size=2)
        pair.stored(np.zeros(60, np.int64))
        found.append(joined(pair, pair.exchange()).counts)
    assert (found[0] != found[1]).any()
    assert found[0].std() > 1


def test_nobody_reported(pair):
    noise = fixed_words(pair)
    files = pair.exchange()
    assert (joined(pair, files).counts == 0).all()
    assert noise.any(), "it was drawn, and is not worth telling"


def test_only_what_both_have_counts(pair):
    noise = fixed_words(pair)
    for user in ("u0", "u5"):
        pair.report(user, LABELS[user])
    pair.servers[0].take(pair.drawn("u1", "red")[0])
    one, other = (
        pair.drawn("u2", "red") for _ in range(2)
    )  # a device that splits twice: no two shares belong together
    pair.servers[0].take(one[0])
    pair.servers[1].take(other[1])
    opened = joined(pair, pair.exchange())
    assert opened.counted.tolist() == [1, 1, 0]
    assert (opened.counts == expected(pair, opened, {user: LABELS[user] for user in ("u0", "u5")}, noise)).all()
    assert opened.about["left_out"] == {"first_alone": 1, "second_alone": 0, "unlike": 1, "failed": 0, "few": 0}


def test_device_splits_once_for_ever(tmp_path, pair):
    folder = tmp_path / "device"
    Device.create(folder, "u3", 1.5)
    first = split(folder, pair.agreement, pair.partition, pair.signatures, SIGN_KEYS, "blue")
    assert split(folder, pair.agreement, pair.partition, pair.signatures, SIGN_KEYS, "red") == first
    assert decode(pair.agreement, 0, first[0]).user == decode(pair.agreement, 1, first[1]).user == "u3"
    other, signatures = agreed(pair.partition, name="again")
    with pytest.raises(BudgetExceededError, match="1 asked"):
        split(folder, other, pair.partition, signatures, SIGN_KEYS, "blue")
    assert Device.open(folder).spent() == (1.0, 0.0)


def test_device_refuses_what_not_both_signed(tmp_path, pair):
    folder = tmp_path / "device"
    Device.create(folder, "u3", 5)
    with pytest.raises(SchemaError, match="both servers signed"):
        split(folder, pair.agreement, pair.partition, (pair.signatures[0],) * 2, SIGN_KEYS, "red")
    with pytest.raises(SchemaError, match="whose keys this device knows"):
        split(folder, pair.agreement, pair.partition, pair.signatures, SIGN_KEYS[::-1], "red")
    others = Partition({**pair.partition.cells, "u3": 2})
    with pytest.raises(SchemaError, match="cells that both"):
        split(folder, pair.agreement, others, pair.signatures, SIGN_KEYS, "red")
    assert Device.open(folder).spent() == (0.0, 0.0)


def test_cells_that_overlap_are_refused(tmp_path):
    with pytest.raises(SchemaError, match="stands there twice"):
        Partition.of_rows([("a", 0), ("b", 0), ("a", 1)])
    with pytest.raises(SchemaError, match="stands there twice"):
        Partition.from_text("0 a\n1 a\n")
    with pytest.raises(SchemaError, match="each with a user"):
        Partition({"a": 0, "b": 2})
    part = Partition({"a": 0})
    agreement, signatures = agreed(part)
    with pytest.raises(SchemaError, match="cells"):
        Server.create(
            tmp_path / "x", 0, agreement, Partition({"a": 0, "b": 0}), signatures, KEYS[0], JOINT, SEALS[0].secret
        )
    with pytest.raises(InputError, match="key of the first server"):
        Server.create(tmp_path / "x", 0, agreement, part, signatures, KEYS[1], JOINT, SEALS[0].secret)
    with pytest.raises(InputError, match="verification key"):
        Server.create(tmp_path / "x", 0, agreement, part, signatures, KEYS[0], bytes(32), SEALS[0].secret)
    with pytest.raises(InputError, match="sealed to"):
        Server.create(tmp_path / "x", 0, agreement, part, signatures, KEYS[0], JOINT, SEALS[1].secret)
    assert signed_as(1, agreement, KEYS[1], JOINT, SEALS[1].secret) == signatures[1]
    moved = replace(agreement, parties=(agreement.parties[0], replace(agreement.parties[1], seal="ab" * 32)))
    with pytest.raises(InputError, match="sealed to"):  # devices would seal the second server's shares to another
        signed_as(1, moved, KEYS[1], JOINT, SEALS[1].secret)
    assert not (tmp_path / "x").exists()


def test_agreement_has_one_form_and_two_servers(pair):
    agreement = pair.agreement
    assert Agreement.from_json(agreement.text) == agreement
    values = json.loads(agreement.text)
    for change in (
        {"epsilon": -1},
        {"classes": ["a"]},
        {"parties": [values["parties"][0]] * 2},
        {"more": 1},
        {"partition": 3},
    ):
        with pytest.raises(InputError):
            Agreement.from_json(json.dumps({**values, **change}))
    with pytest.raises(SchemaError, match="canonical"):
        Agreement.from_json(json.dumps(values))


def test_only_the_code_of_a_user_enrols_it(pair, tmp_path):
    keys, server = DeviceKeys.new(), pair.servers[1]
    with pytest.raises(CollectionError, match="code"):
        server.enrol("u1", keys.sign_key, pair.servers[0].code("u1"))
    with pytest.raises(CollectionError, match="code"):
        server.enrol("stranger", keys.sign_key, pair.servers[1].code("stranger"))
    with pytest.raises(CollectionError, match="another one"):
        server.enrol("u1", keys.sign_key, pair.servers[1].code("u1"))
    assert server.enrol("u1", pair.devices["u1"].sign_key, pair.servers[1].code("u1")) is True


def test_reports_replayed_under_another_name_are_refused(pair):
    """The malicious first server has all that reached the second, and users who sign whatever it likes."""
    for server in SERVERS:
        message, own = pair.drawn("u0", "red")[server], pair.devices["u1"]
        part = decode(pair.agreement, server, message)
        renamed = message[:38] + b"\x02u1" + message[41:-64]
        for forged in (part.signed + own.sign(part.signed), renamed + own.sign(renamed), renamed + message[-64:]):
            with pytest.raises(REFUSED):
                pair.servers[server].take(forged)
        header = decode(pair.agreement, server, pair.drawn("u1", "red")[server]).header
        moved = header + part.sealed
        with pytest.raises(InputError, match="sealed to this server for this user"):
            pair.servers[server].take(moved + own.sign(moved))
        with pytest.raises(REFUSED):
            pair.servers[1 - server].take(message)
        pair.servers[server].take(message)
        with pytest.raises(CollectionError, match="second one"):
            pair.servers[server].take(pair.drawn("u0", "blue")[server])
        assert pair.servers[server].take(message) is True
        assert len(shares_of(pair.servers[server])) == 1


def test_report_of_another_cell_or_agreement_is_refused(pair):
    keys = pair.devices["u0"]
    with pytest.raises(CollectionError, match="cell of this user"):
        pair.servers[0].take(drawn(pair.agreement, "u0", 2, keys, "red")[0])
    other, _ = agreed(pair.partition, epsilon=9.0)
    with pytest.raises(InputError, match="this agreement"):
        pair.servers[0].take(drawn(other, "u0", 0, keys, "red")[0])


def lies(pair, rng, user):
    """Both messages of a user who holds two servers' keys in contempt: what is sealed is not what the protocol asks for."""
    prio, cell, keys = pair.agreement.prio, pair.partition.cells[user], pair.devices[user]
    salt = rng.bytes(16)
    nonce = np.frombuffer(nonce_of(pair.agreement, user, cell, salt), np.uint8)[None]
    vectors = np.zeros((1, prio.length, 2), np.uint64)
    vectors[0, :, 0] = rng.choice([0, 1, 2, 1000, 2**63], prio.length)
    vectors[0, 0, 0] += np.uint64(vectors[0, :, 0].tolist() in ([1, 0, 0], [0, 1, 0], [0, 0, 1]))
    coins = np.frombuffer(rng.bytes(prio.coins_size), np.uint8)[None]
    made = prio.shard_vectors(vectors, nonce, coins) if rng.random() < 0.5 else prio.shard([0], nonce, coins)
    parts = [made.public_share[0].copy(), *(share[0].copy() for share in made.input_shares)]
    spoilt = rng.integers(3)
    parts[spoilt][rng.integers(len(parts[spoilt]))] ^= np.uint8(rng.integers(1, 256))
    public = parts[0].tobytes()
    messages = [encode(pair.agreement, s, user, cell, salt, public, parts[1 + s].tobytes()) for s in SERVERS]
    return [message + keys.sign(message) for message in messages]


def spoilt(rng, message, keys):
    """A message with changed, missing or additional bytes, and a right signature of its user over all of it, or a wrong one."""
    body = bytearray(message[:-64])
    kind = rng.integers(3)
    if kind == 0:
        body[rng.integers(len(body))] ^= int(rng.integers(1, 256))
    elif kind == 1:
        del body[rng.integers(len(body)) :]
    else:
        body[rng.integers(len(body)) : 0] = rng.bytes(int(rng.integers(1, 40)))
    return bytes(body) + (keys.sign(bytes(body)) if rng.random() < 0.8 else rng.bytes(64))


def attacked(folder, tries, liars, seed):
    """Honest users report among liars; returns counts without noise, and what they should be."""
    rng = np.random.default_rng(seed)
    honest = [f"u{number}" for number in range(6)]
    pair = Pair(folder, users=6 + liars, size=8)
    pair.enrol()
    noise = fixed_words(pair)
    victims = {user: pair.drawn(user, LABELS[user]) for user in honest}
    for _ in range(tries):
        user, server = honest[rng.integers(6)], int(rng.integers(2))
        with pytest.raises(REFUSED):
            pair.servers[server].take(spoilt(rng, victims[user][server], pair.devices[user]))
    assert not shares_of(pair.servers[0])
    assert not shares_of(pair.servers[1])
    for user in pair.users[6:]:
        for server, message in zip(pair.servers, lies(pair, rng, user), strict=True):
            server.take(message)
    for user in honest:
        for server, message in zip(pair.servers, victims[user], strict=True):
            server.take(message)
    opened = joined(pair, pair.exchange())
    return pair, opened, noise


def test_2000_bad_reports_are_refused_or_neutralised(tmp_path):
    pair, opened, noise = attacked(tmp_path, 1960, 40, 5)
    labels = {user: LABELS[user] for user in pair.users[:6]}
    assert (opened.counts == expected(pair, opened, labels, noise)).all()
    assert opened.about["left_out"] == {**NONE, "failed": 40}


@pytest.mark.soak
def test_100000_bad_reports_are_refused_or_neutralised(tmp_path):
    pair, opened, noise = attacked(tmp_path, 98_000, 2000, 6)
    labels = {user: LABELS[user] for user in pair.users[:6]}
    assert (opened.counts == expected(pair, opened, labels, noise)).all()
    assert opened.about["left_out"] == {**NONE, "failed": 2000}


def test_a_lie_that_is_a_class_weighs_one(pair):
    noise = fixed_words(pair)
    pair.report("u0", "no class at all")
    opened = joined(pair, pair.exchange())
    assert (opened.counts == expected(pair, opened, {"u0": "red"}, noise)).all()


class TestMaliciousServer:
    """Server 0 has its key and says what it likes; server 1 follows the protocol."""

    @pytest.fixture
    def pair(self, pair):
        pair.stored(np.arange(12) % 3)
        return pair

    def says(self, pair, step, **body):
        head = {"step": step, "agreement": pair.agreement.sha256, "server": 0}
        return OPERATORS[0].signed({**head, **body})

    def body(self, data):
        return json.loads(data.split(b"\n")[0])

    def test_another_set_after_the_first(self, pair):
        bad, good = pair.servers
        first = bad.close()
        good.close()
        answer = good.proofs(first)
        fewer = self.body(first)
        fewer["reports"] = fewer["reports"][:1]
        with pytest.raises(DataError, match="taken once"):
            good.proofs(OPERATORS[0].signed(fewer))
        assert good.proofs(first) == answer
        other = {**self.body(bad.proofs(good.close())), "lists": ["0" * 64] * 2}
        with pytest.raises(DataError, match="lists"):
            good.accepted(OPERATORS[0].signed(other))

    def test_another_key_than_the_committed_one(self):
        commitments = tuple(commitment(server, half) for server, half in enumerate(HALVES))
        assert joint_key(HALVES, commitments) == JOINT
        for halves, told in (
            ((b"\3" * 32, HALVES[1]), commitments),
            ((HALVES[1], HALVES[1]), (commitments[1], commitments[1])),  # the commitment of the other server, repeated
        ):
            with pytest.raises(DataError, match="committed"):
                joint_key(halves, told)

    def test_reports_are_checked_again_with_the_same_bytes(self, pair, tmp_path):
        """A book that is restored from a copy proves nothing new: no key but that of the agreement is ever used."""
        bad, good = pair.servers
        first, _ = bad.close(), good.close()
        shutil.copy(good.book._path, tmp_path / "copy")
        told = good.proofs(first)
        assert Server(Book(tmp_path / "copy"), KEYS[1]).proofs(first) == told

    def test_second_opening(self, pair, tmp_path):
        good = pair.servers[1]
        accepted = pair.exchange("accepted")
        shutil.copy(good.book._path, tmp_path / "copy")
        opened = good.opening(accepted[0])
        good._words = None  # no noise is drawn again
        assert good.opening(accepted[0]) == opened
        with pytest.raises(DataError, match="taken once"):
            good.opening(OPERATORS[0].signed({**self.body(accepted[0]), "more": 1}))
        assert Server(Book(good.book._path), KEYS[1]).opening(accepted[0]) == opened
        shutil.copy(tmp_path / "copy", good.book._path)  # a copy that was made before the opening is restored
        restored = Server(Book(good.book._path), KEYS[1], None)
        assert restored.opening(accepted[0]) == opened
        assert {one[0] for one in shares_of(restored)} == {None}

    def test_neither_opens_if_they_accept_different_reports(self, pair):
        accepted = pair.exchange("accepted")
        with pytest.raises(DataError, match="accepted"):
            pair.servers[1].opening(OPERATORS[0].signed({**self.body(accepted[0]), "accepted": "0" * 64}))

    def test_proofs_that_fail_all_but_one(self, pair):
        """It may leave out whom it likes; what is opened has the whole noise still, and both say how many were left out."""
        noise = noise_of(b"\7" * 32, pair)
        proofs = pair.exchange("proofs")
        spoilt = self.body(proofs[0])
        size = pair.agreement.prio.verifier_share_size * 2
        spoilt["shares"] = spoilt["shares"][:size] + "ff" * ((len(spoilt["shares"]) - size) // 2)
        good = pair.servers[1]
        good._words = lambda: SecretWords(b"\7" * 32)
        said = self.body(good.accepted(OPERATORS[0].signed(spoilt)))
        body = self.body(good.opening(OPERATORS[0].signed({**said, "server": 0})))
        assert body["left_out"] == {"first_alone": 0, "second_alone": 0, "unlike": 0, "failed": 11, "few": 0}
        assert body["counted"] == [1, 0, 0]
        sums = np.frombuffer(bytes.fromhex(body["sums"]), np.uint8).reshape(3, -1)
        assert not sums[1:].any()
        with good.book.reading() as connection:
            assert connection.execute("SELECT count(*) FROM secrets").fetchone() == (0,)
        share = np.frombuffer(SEALS[0].opened(shares_of(pair.servers[0])[0][0], "u0")[:48], np.uint8)
        assert (pair.agreement.prio.unshard([sums[:1], share[None]]) - noise[:1] == [[1, 0, 0]]).all()

    @pytest.mark.parametrize(
        "reports",
        [
            None,
            3,
            [["u0"]],
            [["stranger", "a", "b"]],
            [["u1", "a", "b"], ["u0", "c", "d"]],
            [["u0", "a", "b"], ["u1", "a", "b"]],
            [[1, 2, 3]],
        ],
    )
    def test_malformed_lists(self, pair, reports):
        good = pair.servers[1]
        good.close()
        with pytest.raises(InputError):
            good.proofs(self.says(pair, "list", reports=reports))

    def test_files_out_of_order_or_of_others(self, pair):
        bad, good = pair.servers
        first, second = bad.close(), good.close()
        with pytest.raises(DataError, match="before 'accepted'"):
            good.accepted(first)
        with pytest.raises(DataError, match="signed"):
            good.proofs(second)  # its own
        with pytest.raises(DataError, match="signed"):
            good.proofs(first[:-10] + b"0" * 9 + b"\n")
        with pytest.raises(DataError, match="step = list"):
            good.proofs(self.says(pair, "accepted"))
        stranger = ServerKey.new()
        with pytest.raises(InputError, match="key of the second server"):
            Server(good.book, stranger)

    def test_no_report_after_the_list(self, pair, tmp_path):
        (tmp_path / "more").mkdir()
        late = Pair(tmp_path / "more")
        late.enrol()
        late.servers[1].close()
        with pytest.raises(CollectionError, match="closed"):
            late.servers[1].take(late.drawn("u0", "red")[1])

    def test_join_refuses_what_does_not_add_up(self, pair):
        files = pair.exchange()
        joined(pair, files)
        more = self.body(files[0])
        sums = np.frombuffer(bytes.fromhex(more["sums"]), np.uint8).reshape(3, -1)
        more["sums"] = pair.agreement.prio.add_noise(sums, [[1, 0, 0], [0] * 3, [0] * 3]).tobytes().hex()
        with pytest.raises(DataError, match="add up"):
            joined(pair, [OPERATORS[0].signed(more), files[1]])
        other = {**self.body(files[0]), "accepted": "00"}
        with pytest.raises(DataError, match="accepted"):
            joined(pair, [OPERATORS[0].signed(other), files[1]])
        with pytest.raises(DataError, match="signed"):
            joined(pair, files[::-1])
