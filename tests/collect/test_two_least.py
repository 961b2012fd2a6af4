"""Cells with fewer reports than an agreement asks for stay shut in both openings; and one book of an agreement."""

import json
from functools import partial

import numpy as np
import pytest
from test_two import LABELS, NONE, expected, fixed_words, joined
from test_two_kills import died
from two_made import JOINT, KEYS, OPERATORS, SEALS, Pair, agreed

from sfumato.collect.two._agreement import SERVERS, Agreement
from sfumato.collect.two._device import drawn
from sfumato.collect.two._message import decode, encode
from sfumato.collect.two._server import Server
from sfumato.errors import DataError, InputError


@pytest.fixture
def pair(tmp_path):
    """Four reports in the first cell, two in the second, none in the third; three are needed."""
    made = Pair(tmp_path, least=3)
    made.enrol()
    for user in made.users[:6]:
        made.report(user, LABELS[user])
    return made


def body(data):
    return json.loads(data.split(b"\n")[0])


def test_cells_with_fewer_reports_stay_shut(pair):
    noise = fixed_words(pair)
    files = pair.exchange()
    opened = joined(pair, files)
    assert opened.counted.tolist() == [4, 0, 0]
    labels = {user: LABELS[user] for user in pair.users[:4]}
    assert (opened.counts == expected(pair, opened, labels, noise)).all()
    assert opened.about["left_out"] == {**NONE, "few": 2}
    for file in files:
        assert set(body(file)["sums"][96 * 1 :]) == {"0"}


def test_which_cells_stay_shut_depends_on_no_class(tmp_path):
    """All labels of six users alike, or none of them: the same cells are open, and the same numbers are told."""
    told = set()
    for number, labels in enumerate(
        [("red",) * 6, ("red", "blue") * 3, ("blue", "green", "red") * 2, ("no class",) * 6]
    ):
        (tmp_path / str(number)).mkdir()
        pair = Pair(tmp_path / str(number), least=3)
        pair.enrol()
        for user, label in zip(pair.users[:6], labels, strict=True):
            pair.report(user, label)
        opened = joined(pair, pair.exchange())
        told.add((*opened.counted.tolist(), *opened.about["left_out"].items()))
    assert len(told) == 1


def test_enough_is_enough(tmp_path):
    for least, counted in ((2, [4, 2, 0]), (1, [4, 2, 0]), (4, [4, 0, 0]), (5, [0, 0, 0])):
        (tmp_path / str(least)).mkdir()
        pair = Pair(tmp_path / str(least), least=least)
        pair.enrol()
        for user in pair.users[:6]:
            pair.report(user, LABELS[user])
        assert joined(pair, pair.exchange()).counted.tolist() == counted


def test_join_refuses_a_cell_that_should_be_shut(pair):
    """Near misses: one report less than is needed, counted; and a cell that counts none and is not zero."""
    files = pair.exchange()
    both = [body(file) for file in files]
    told = [OPERATORS[s].signed({**both[s], "counted": [4, 2, 0]}) for s in SERVERS]
    with pytest.raises(DataError, match="3 reports or more"):
        joined(pair, told)
    sums = np.frombuffer(bytes.fromhex(both[0]["sums"]), np.uint8).reshape(3, -1).copy()
    sums[2, 0] = 1
    with pytest.raises(DataError, match="zeros for all others"):
        joined(pair, [OPERATORS[0].signed({**both[0], "sums": sums.tobytes().hex()}), files[1]])
    joined(pair, files)


def test_least_is_a_number_of_users(pair):
    assert pair.agreement.least == 3
    assert Agreement.from_json(pair.agreement.text) == pair.agreement
    assert agreed(pair.partition)[0].sha256 != pair.agreement.sha256
    for least in (0, -1, 1.5, True, 1 << 31):
        with pytest.raises(InputError, match="least"):
            agreed(pair.partition, least=least)


def test_servers_say_in_which_cell_they_differ(pair):
    accepted = pair.exchange("accepted")
    said = body(accepted[0])
    assert len(said["accepted"]) == 3
    assert len({*said["accepted"]}) == 3
    other = {**said, "accepted": [*said["accepted"][:1], "0" * 64, *said["accepted"][2:]]}
    with pytest.raises(DataError, match="others in cell 1"):
        pair.servers[1].opening(OPERATORS[0].signed(other))
    for change in ({"count": 7}, {"accepted": None}, {"accepted": said["accepted"][:2]}):
        with pytest.raises(DataError, match="other numbers"):
            pair.servers[1].opening(OPERATORS[0].signed({**said, **change}))


def test_halves_of_two_splits_do_not_count(tmp_path):
    """A device signs for each server its own half and both parts of the joint randomness: that binds the other half."""
    pair = Pair(tmp_path)
    pair.enrol()
    noise, cell = fixed_words(pair), pair.partition.cells
    keys, prio = pair.devices, pair.agreement.prio
    pair.report("u0", LABELS["u0"])
    for user, own in (("u1", False), ("u2", True)):
        one, other = (drawn(pair.agreement, user, cell[user], keys[user], label) for label in ("red", "blue"))
        first, second = decode(pair.agreement, 0, one[0]), decode(pair.agreement, 1, other[1])
        share = SEALS[1].unsealed(second.sealed, second.header)
        public = second.public_share if own else first.public_share
        forged = encode(pair.agreement, 1, user, cell[user], first.salt, public, share)
        pair.servers[0].take(one[0])
        pair.servers[1].take(forged + keys[user].sign(forged))
    assert prio.public_share_size == 64
    opened = joined(pair, pair.exchange())
    assert opened.about["left_out"] == {**NONE, "failed": 1, "unlike": 1}
    assert (opened.counts == expected(pair, opened, {"u0": LABELS["u0"]}, noise)).all()


class TestOneBook:
    """The register lies beside the lasting key."""

    @pytest.fixture
    def made(self, tmp_path):
        pair = Pair(tmp_path)
        args = (0, pair.agreement, pair.partition, pair.signatures, KEYS[0], JOINT)

        def create(name, seal=SEALS[0].secret, **options):
            return Server.create(tmp_path / name, *args, seal, **options)

        return pair, create, tmp_path / "key.agreements"

    def test_a_second_book_is_refused(self, made, tmp_path):
        pair, create, register = made
        create("one", register=register)
        for name in ("one", "two"):
            with pytest.raises(InputError, match="of which it made one"):
                create(name, register=register)
        (tmp_path / "one").unlink()
        with pytest.raises(InputError, match="of which it made one"):
            create("one", register=register)
        assert not (tmp_path / "two").exists()
        agreement, signatures = agreed(pair.partition, name="another")
        made = (0, agreement, pair.partition, signatures, KEYS[0], JOINT, SEALS[0].secret)
        Server.create(tmp_path / "two", *made, register=register)

    def test_no_book_without_the_one_sealing_key(self, made):
        """This holds without a register: the key is in the first book alone, and from the opening on in none."""
        _, create, _ = made
        with pytest.raises(InputError, match="sealed to"):
            create("two", seal=bytes(32))
        create("two")  # by a copy of the key: what only a register refuses

    @pytest.mark.parametrize("after", [False, True])
    def test_every_death_while_it_is_made(self, made, tmp_path, after):
        """A dead process leaves no book or one; it is made again in the same place, and nowhere else."""
        _, create, register = made

        def work():
            create("one", register=register)
            return b"made"

        deaths = 0
        for place in range(20):
            _, dead = died(partial(work), place, after)
            deaths += dead
            with pytest.raises(InputError, match="of which it made one"):
                create("two", register=register)
            if not dead:
                break
            (tmp_path / "one").unlink(missing_ok=True)
        assert deaths > 1
        with pytest.raises(InputError, match="of which it made one"):
            create("one", register=register)
