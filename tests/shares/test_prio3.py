"""Prio3Histogram: the draft's vectors, sums of valid reports, refusal of all others."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from shares_mutations import TAMPERINGS, Sent, verified, wrong_vectors
from shares_vectors import CONTEXT, VECTORS, counting, row

from sfumato.errors import InputError
from sfumato.shares._field import MODULUS, elements, from_signed, root_of_unity
from sfumato.shares._prio3 import NONCE_SIZE, Prio3Histogram
from sfumato.shares._randomness import Randomness
from sfumato.shares._rows import rows

PRIO = Prio3Histogram(7, 3, b"tests")
KEY = bytes(range(32))


def draw(random, *shape):
    return random.integers(0, 256, shape, dtype=np.uint8)


def honest(prio, classes, random):
    nonces = draw(random, len(classes), NONCE_SIZE)
    return Sent(nonces, prio.shard(classes, nonces, draw(random, len(classes), prio.coins_size)))


@pytest.mark.parametrize("case", VECTORS["reports"], ids=["0", "1", "2"])
def test_reports_are_those_of_the_draft(case):
    prio = Prio3Histogram(case["length"], case["chunk_length"], CONTEXT, case["shares"])
    nonce, coins, key = counting(NONCE_SIZE), counting(prio.coins_size), bytes(range(32))
    reports = prio.shard([case["measurement"]], nonce, coins)
    assert reports.public_share.tobytes().hex() == case["public_share"]
    if "leader_share" in case:
        assert reports.input_shares[0].tobytes().hex() == case["leader_share"]
    for at, helper in enumerate(reports.input_shares[1:]):
        assert (helper == coins[:, 64 * at : 64 * (at + 1)]).all()
    states, shares = zip(
        *(
            prio.verify_init(key, at, nonce, reports.public_share, share)
            for at, share in enumerate(reports.input_shares)
        ),
        strict=True,
    )
    assert [share.tobytes().hex() for share in shares] == case["verifier_shares"]
    message, valid = prio.verifier_shares_to_message(shares)
    assert message.tobytes().hex() == case["verifier_message"]
    assert all(prio.verify_next(state, message, valid).all() for state in states)
    sums = [prio.aggregate(state, valid) for state in states]
    if "agg_shares" in case:
        assert [share.tobytes().hex() for share in sums] == case["agg_shares"]
        assert prio.unshard(sums)[0].tolist() == case["agg_result"]
    assert prio.unshard(sums)[0].tolist() == np.eye(case["length"], dtype=int)[case["measurement"]].tolist()


@pytest.mark.parametrize("case", VECTORS["bad"], ids=lambda case: case["name"])
def test_bad_reports_of_the_draft_are_refused(case):
    prio = Prio3Histogram(5, 2, CONTEXT)
    given = [row(share) for share in case["input_shares"]]
    made = [prio.verify_init(KEY, at, counting(16), row(case["public_share"]), share) for at, share in enumerate(given)]
    for (_, share), expected in zip(made, case["verifier_shares"], strict=False):
        assert share.tobytes().hex() == expected
    if "verifier_message" in case:
        assert not prio.verify_next(made[0][0], row(case["verifier_message"]), np.array([True])).any()
    else:
        message, valid = prio.verifier_shares_to_message([share for _, share in made])
        assert not valid.any()
        assert not message.any()


@pytest.mark.parametrize(("length", "chunk", "shares"), [(2, 1, 2), (2, 2, 2), (7, 3, 3), (40, 6, 2), (65, 8, 2)])
def test_counts_are_exact_by_cell(length, chunk, shares):
    prio, random = Prio3Histogram(length, chunk, b"", shares), np.random.default_rng(length)
    classes, cells = random.integers(0, length, 1500), random.integers(0, 4, 1500)
    sent = honest(prio, classes, random)
    states, accepted, valid = verified(prio, [KEY] * shares, sent)
    assert valid.all()
    assert np.all(accepted)
    expected = np.zeros((5, length), int)
    np.add.at(expected, (cells, classes), 1)
    sums = [prio.aggregate(state, valid, cells, 5) for state in states]
    assert (prio.unshard(sums) == expected).all()
    noise = [random.integers(-(10**9), 10**9, (5, length)) for _ in states]
    noised = [prio.add_noise(share, drawn) for share, drawn in zip(sums, noise, strict=True)]
    assert (prio.unshard(noised) == expected + sum(noise)).all()


def tampered(prio, count, seed):
    """A share of reports changed in some way, the others honest; which are honest, and all classes."""
    random = np.random.default_rng(seed)
    classes = random.integers(0, prio.length, count)
    kind = random.integers(0, len(TAMPERINGS) + 2, count)  # the last two: honest, and vectors that are not one-hot
    sent = honest(prio, classes, random)
    wrong = np.flatnonzero(kind == len(TAMPERINGS) + 1)
    coins = draw(random, len(wrong), prio.coins_size)
    bad = prio.shard_vectors(wrong_vectors(prio.length, len(wrong), random), sent.nonces[0][wrong], coins)
    for server, share in enumerate(bad.input_shares):
        sent.public[server][wrong] = bad.public_share
        sent.inputs[server][wrong] = share
    for number, change in enumerate(TAMPERINGS):
        change(sent, np.flatnonzero(kind == number), random)
    return sent, kind == len(TAMPERINGS), classes


def test_malformed_reports_are_refused_and_the_others_counted():
    count = 112_500  # of which more than 100,000 are malformed
    sent, good, classes = tampered(PRIO, count, seed=0)
    states, accepted, _ = verified(PRIO, [KEY, KEY], sent)
    assert (~good).sum() >= 100_000
    for one in accepted:
        assert (one == good).all()
    counts = PRIO.unshard([PRIO.aggregate(state, np.all(accepted, axis=0)) for state in states])
    assert counts[0].tolist() == np.bincount(classes[good], minlength=7).tolist()


@pytest.mark.parametrize("change", TAMPERINGS, ids=lambda change: change.__name__)
def test_each_tampering_is_refused(change):
    random = np.random.default_rng(3)
    sent = honest(PRIO, random.integers(0, 7, 60), random)
    before = [array.copy() for array in sent.arrays()]
    change(sent, np.arange(0, 60, 2), random)
    after = sent.arrays()
    touched = np.any([(old != new).any(axis=1) for old, new in zip(before, after, strict=True)], axis=0)
    assert touched.tolist() == [True, False] * 30
    _, accepted, _ = verified(PRIO, [KEY, KEY], sent)
    assert np.all(accepted, axis=0).tolist() == [False, True] * 30


@pytest.mark.parametrize("part", ["leader", "helper", "public", "nonce"])
def test_each_bit_of_a_report_matters(part):
    random = np.random.default_rng(4)
    prio = Prio3Histogram(2, 1, b"")
    one = honest(prio, [1], random)
    arrays = {"leader": one.inputs[0], "helper": one.inputs[1], "public": one.public[0], "nonce": one.nonces[0]}
    bits = np.unpackbits(arrays[part], axis=1)
    many = np.repeat(bits, bits.shape[1], axis=0) ^ np.eye(bits.shape[1], dtype=np.uint8)
    changed = {name: np.repeat(array, bits.shape[1], axis=0) for name, array in arrays.items()}
    changed[part] = np.packbits(many, axis=1)
    one.inputs = [changed["leader"], changed["helper"]]
    one.public, one.nonces = [changed["public"]] * 2, [changed["nonce"]] * 2
    _, accepted, _ = verified(prio, [KEY, KEY], one)
    assert not np.all(accepted, axis=0).any()


def test_a_vector_that_is_not_one_hot_is_refused_whatever_it_is():
    random = np.random.default_rng(5)
    for length, chunk in [(2, 1), (2, 2), (7, 3), (40, 6)]:
        prio = Prio3Histogram(length, chunk, b"")
        nonces = draw(random, 300, NONCE_SIZE)
        reports = prio.shard_vectors(wrong_vectors(length, 300, random), nonces, draw(random, 300, prio.coins_size))
        _, accepted, valid = verified(prio, [KEY, KEY], Sent(nonces, reports))
        assert not valid.any()
        assert not np.any(accepted)


@pytest.mark.parametrize("chunk", [1, 2, 3, 4])
def test_of_all_small_vectors_those_pass_that_are_one_hot(chunk):
    random, prio = np.random.default_rng(16), Prio3Histogram(4, chunk, b"")
    every = np.array(list(itertools.product([-1, 0, 1, 2], repeat=4)))
    vectors = from_signed(every)
    nonces = draw(random, len(every), NONCE_SIZE)
    reports = prio.shard_vectors(vectors, nonces, draw(random, len(every), prio.coins_size))
    states, accepted, _ = verified(prio, [KEY, KEY], Sent(nonces, reports))
    one_hot = (np.abs(every).sum(axis=1) == 1) & (every.sum(axis=1) == 1)
    assert np.all(accepted, axis=0).tolist() == one_hot.tolist()
    assert prio.unshard([prio.aggregate(state, one_hot) for state in states]).tolist() == [[1, 1, 1, 1]]


@pytest.mark.parametrize("change", [{"context": b"other"}, {"chunk_length": 2}, {"length": 6}, {"shares": 3}])
def test_a_report_is_worth_nothing_elsewhere(change):
    random = np.random.default_rng(6)
    sent = honest(PRIO, [1, 2, 3], random)
    other = dataclasses.replace(PRIO, **change)
    if "context" in change:
        _, accepted, _ = verified(other, [KEY, KEY], sent)
        assert not np.any(accepted)
    else:
        with pytest.raises(InputError, match="to be uint8 of shape"):
            verified(other, [KEY] * other.shares, sent)


def test_servers_with_different_keys_accept_nothing():
    sent = honest(PRIO, [1, 2, 3], np.random.default_rng(7))
    _, accepted, _ = verified(PRIO, [KEY, bytes(32)], sent)
    assert not np.any(accepted)


def test_a_share_that_one_server_cannot_read_is_refused_by_both():
    sent = honest(PRIO, [1, 2, 3], np.random.default_rng(8))
    sent.inputs[0][1, :16] = np.frombuffer(MODULUS.to_bytes(16, "little"), np.uint8)
    states, accepted, _ = verified(PRIO, [KEY, KEY], sent)
    assert [one.tolist() for one in accepted] == [[True, False, True]] * 2
    assert not states[0].out_shares[1].any()
    _, share = PRIO.verify_init(KEY, 0, sent.nonces[0], sent.public[0], sent.inputs[0])
    assert (share == 255).all(axis=1).tolist() == [False, True, False]
    said_by_a_liar = states[0].joint_seeds, np.ones(3, bool)
    assert PRIO.verify_next(states[0], *said_by_a_liar).tolist() == [True, False, True]
    with pytest.raises(InputError, match="that this server can read"):
        PRIO.aggregate(states[0], np.ones(3, bool))


def test_what_encodes_no_elements_is_no_valid_message():
    shares = [np.full((1, PRIO.verifier_share_size), 255, np.uint8)] * 2
    message, valid = PRIO.verifier_shares_to_message(shares)
    assert not valid.any()
    assert not message.any()


def test_a_random_point_that_would_show_the_inputs_ends_the_report(monkeypatch):
    sent = honest(PRIO, [1, 2, 3], np.random.default_rng(15))
    drawn = Randomness.query

    def unlucky(self, key, nonces):
        query = drawn(self, key, nonces).copy()
        query[1, 2] = elements([root_of_unity(PRIO.proof.points)])[0]
        return query

    monkeypatch.setattr(Randomness, "query", unlucky)
    states, accepted, valid = verified(PRIO, [KEY, KEY], sent)
    assert [state.readable.tolist() for state in states] == [[True, False, True]] * 2
    assert [flags.tolist() for flags in (*accepted, valid)] == [[True, False, True]] * 3
    _, share = PRIO.verify_init(KEY, 1, sent.nonces[1], sent.public[1], sent.inputs[1])
    assert (share[1] == 255).all()


def test_shares_alone_look_the_same_for_every_class():
    """With the same coins the helper's share is the same for all, and the leader's differs by the class alone."""
    random = np.random.default_rng(9)
    nonces, coins = np.repeat(draw(random, 1, 16), 7, axis=0), np.repeat(draw(random, 1, PRIO.coins_size), 7, axis=0)
    reports = PRIO.shard(np.arange(7), nonces, coins)
    assert (reports.input_shares[1] == reports.input_shares[1][0]).all()
    leader = reports.input_shares[0]
    for number in range(1, 7):
        assert np.flatnonzero((leader[number] != leader[0])[: 7 * 16 : 16]).tolist() == [0, number]


def test_coins_come_from_the_operating_system_and_never_twice():
    nonces = np.zeros((50, 16), np.uint8)
    reports = PRIO.shard([2] * 50, nonces)
    assert len({share.tobytes() for share in reports.input_shares[1]}) == 50
    assert len({share.tobytes() for share in reports.input_shares[0]}) == 50
    _, accepted, _ = verified(PRIO, [KEY, KEY], Sent(nonces, reports))
    assert np.all(accepted)


def test_a_class_that_is_none_is_counted_as_the_first():
    sent = honest(PRIO, np.array([-1, 7, 2**40, 3]), np.random.default_rng(10))
    states, _, valid = verified(PRIO, [KEY, KEY], sent)
    assert PRIO.unshard([PRIO.aggregate(state, valid) for state in states])[0].tolist() == [3, 0, 0, 1, 0, 0, 0]


def test_no_reports_are_no_error():
    sent = honest(PRIO, np.zeros(0, int), np.random.default_rng(11))
    states, accepted, valid = verified(PRIO, [KEY, KEY], sent)
    assert len(valid) == len(accepted[0]) == 0
    assert PRIO.unshard([PRIO.aggregate(state, valid) for state in states]).tolist() == [[0] * 7]


def test_byte_strings_of_a_wrong_length_are_refused_and_the_others_not():
    sent = honest(PRIO, [1, 2, 3], np.random.default_rng(12))
    texts = [share.tobytes() for share in sent.inputs[1]]
    made, right = rows([texts[0], texts[1] + b"x", texts[2]], PRIO.input_share_size(1))
    assert right.tolist() == [True, False, True]
    assert rows([texts[0][:-1], texts[1]], 64)[1].tolist() == [False, True]
    sent.inputs[1] = made
    _, accepted, _ = verified(PRIO, [KEY, KEY], sent)
    assert (np.all(accepted, axis=0) & right).tolist() == right.tolist()
    nothing, right = rows([], 64)
    assert nothing.shape == (0, 64)
    assert right.shape == (0,)


def test_shares_of_different_reports_are_no_sum():
    states, _, valid = verified(PRIO, [KEY, KEY], honest(PRIO, [1, 2, 3], np.random.default_rng(13)))
    sums = [PRIO.aggregate(states[0], valid), PRIO.aggregate(states[1], np.array([True, True, False]))]
    with pytest.raises(InputError, match="Add the shares of all servers"):
        PRIO.unshard(sums)


def test_the_error_of_the_proof_is_what_its_formula_says():
    few = Prio3Histogram(40, 6, b"").soundness_error(0)
    assert few == pytest.approx((1 + 2 * 7) / MODULUS, rel=1e-12)
    assert math.log2(Prio3Histogram(7, 3, b"").soundness_error(2.0**60)) < -65
    assert Prio3Histogram(7, 3, b"").soundness_error(2.0**140) == 1


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: Prio3Histogram(1, 1, b""), "length"),
        (lambda: Prio3Histogram(7, 8, b""), "chunk_length"),
        (lambda: Prio3Histogram(7, 3, "text"), "context"),
        (lambda: Prio3Histogram(7, 3, b"", 1), "shares"),
        (lambda: PRIO.shard([0.5], np.zeros((1, 16), np.uint8)), "classes"),
        (lambda: PRIO.shard([1], np.zeros((1, 15), np.uint8)), "nonces"),
        (lambda: PRIO.shard([1], np.zeros((1, 16), np.int64)), "nonces"),
        (lambda: PRIO.shard([1], np.zeros((1, 16), np.uint8), np.zeros((1, 127), np.uint8)), "coins"),
        (lambda: PRIO.verifier_shares_to_message([np.zeros((1, 160), np.uint8)]), "verifier_shares"),
        (lambda: PRIO.unshard([np.zeros((1, 112), np.uint8)]), "sums"),
        (lambda: PRIO.unshard([np.full((1, 112), 255, np.uint8)] * 2), "sums"),
        (lambda: PRIO.add_noise(np.zeros((1, 112), np.uint8), np.zeros((1, 7))), "noise"),
    ],
)
def test_wrong_arguments_are_named(call, says):
    with pytest.raises(InputError, match=f"^Expected {says} "):
        call()


def test_no_error_shows_a_share():
    sent = honest(PRIO, [5], np.random.default_rng(14))
    state, _ = PRIO.verify_init(KEY, 0, sent.nonces[0], sent.public[0], sent.inputs[0])
    for call in (
        lambda: PRIO.aggregate(state, [1]),
        lambda: PRIO.aggregate(state, np.array([True]), [[2]]),
        lambda: PRIO.verify_next(state, np.full((1, 32), 77, np.uint8), [77]),
        lambda: PRIO.verify_init(b"M" * 31, 0, *[np.zeros((1, 1), np.uint8)] * 3),
    ):
        with pytest.raises(InputError) as caught:
            call()
        assert "77" not in str(caught.value)
        assert "M" not in str(caught.value)
