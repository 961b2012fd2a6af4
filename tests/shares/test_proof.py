"""The proof system: right proofs pass, each check is needed, and the verifier message says nothing about the vector."""

import numpy as np
import pytest

from sfumato.shares import _field as field
from sfumato.shares._field import MODULUS, elements
from sfumato.shares._proof import OneHotProof

SIZES = [(2, 1), (2, 2), (3, 2), (4, 2), (7, 1), (7, 3), (7, 7), (11, 3), (40, 6), (65, 2)]
PROOF = OneHotProof(5, 2, 2)


def uniform(random, *shape):
    """Field elements at random, but for a chance of 2^-59 a draw."""
    return random.integers(0, 2**64 - 28, (*shape, 2), dtype=np.uint64)


def coins(proof, random, count):
    """Seeds of wires, joint randomness, query randomness."""
    return [uniform(random, count, size) for size in (proof.wires, proof.calls, proof.query_length)]


def vectors(rows):
    return np.stack([elements(row) for row in rows])


def one_hot(length):
    return vectors(np.eye(length, dtype=int).tolist())


def message(proof, vector, proved, query, joint, random):
    """The sum of the verifier shares of all servers, over random shares of vector and proof."""
    both = np.concatenate([vector, proved], axis=1)
    parts = [uniform(random, *both.shape[:2]) for _ in range(proof.shares - 1)]
    first = both
    for part in parts:
        first = field.subtract(first, part)
    total = None
    for part in [first, *parts]:
        share, usable = proof.query(part[:, : proof.length], part[:, proof.length :], query, joint)
        assert usable.all()
        total = share if total is None else field.add(total, share)
    return total


@pytest.mark.parametrize("shares", [2, 3])
@pytest.mark.parametrize(("length", "chunk"), SIZES)
def test_one_hot_vectors_pass(length, chunk, shares):
    proof, random = OneHotProof(length, chunk, shares), np.random.default_rng(0)
    seeds, joint, query = coins(proof, random, length)
    vector = one_hot(length)
    proved = proof.prove(vector, seeds, joint)
    assert proved.shape == (length, proof.proof_length, 2)
    total = message(proof, vector, proved, query, joint, random)
    assert total.shape == (length, proof.verifier_length, 2)
    assert proof.decide(total).all()


NEAR_MISSES = {
    "no class": [0, 0, 0, 0, 0],
    "two classes": [1, 0, 0, 1, 0],
    "twice a class": [0, 2, 0, 0, 0],
    "2 and -1": [2, -1, 0, 0, 0],
    "-1": [0, 0, -1, 0, 0],
    "halves": [(MODULUS + 1) // 2, (MODULUS + 1) // 2, 0, 0, 0],
    "1, 1 and -1 in one chunk": [0, 0, 1, 1, -1],
    "the last entry alone": [0, 0, 0, 0, 2],
    "all": [1, 1, 1, 1, 1],
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses_are_refused(name):
    random = np.random.default_rng(1)
    vector = vectors([NEAR_MISSES[name]] * 200)
    seeds, joint, query = coins(PROOF, random, 200)
    proved = PROOF.prove(vector, seeds, joint)
    total = message(PROOF, vector, proved, query, joint, random)
    assert not PROOF.decide(total).any()
    assert (total[:, 0] != 0).any(axis=1).all()  # the circuit's output alone tells


def set_output(proved, wanted):
    """Change the output of the first call so that all calls sum to ``wanted``: the prover lies about the gadget."""
    calls = proved[:, PROOF.wires + 2 : PROOF.wires + 2 * PROOF.calls + 1 : 2]
    lack = field.subtract(wanted, field.total(np.swapaxes(calls, 0, 1)))
    forged = proved.copy()
    forged[:, PROOF.wires + 2] = field.add(forged[:, PROOF.wires + 2], lack)
    return forged, lack


def test_a_false_gadget_is_found_at_the_random_point():
    random = np.random.default_rng(2)
    vector = vectors([NEAR_MISSES["2 and -1"]] * 200)
    seeds, joint, query = coins(PROOF, random, 200)
    forged, _ = set_output(PROOF.prove(vector, seeds, joint), np.zeros((200, 2), np.uint64))
    total = message(PROOF, vector, forged, query, joint, random)
    assert (total[:, 0] == 0).all()  # the output is right, so only the gadget check is left
    assert not PROOF.decide(total).any()


def test_a_prover_who_knows_the_random_point_cheats():
    """So the verification key has to be secret: the forged polynomial is corrected to be right at the one point that is known."""
    random = np.random.default_rng(3)
    vector = vectors([NEAR_MISSES["2 and -1"]] * 50)
    seeds, joint, query = coins(PROOF, random, 50)
    forged, lack = set_output(PROOF.prove(vector, seeds, joint), np.zeros((50, 2), np.uint64))
    weights = PROOF._weights(query[:, 2], 2 * PROOF.points, 2 * PROOF.points - 1)
    inverse = vectors([[pow(int(high) << 64 | int(low), -1, MODULUS)] for low, high in weights[:, 1].tolist()])[:, 0]
    cure = field.multiply(field.multiply(lack, weights[:, 2]), inverse)
    forged[:, PROOF.wires + 1] = field.subtract(forged[:, PROOF.wires + 1], cure)
    assert PROOF.decide(message(PROOF, vector, forged, query, joint, random)).all()
    other = uniform(random, 50, PROOF.query_length)
    assert not PROOF.decide(message(PROOF, vector, forged, other, joint, random)).any()


def test_a_prover_who_knows_the_joint_randomness_cheats():
    """So it is a hash of the shares: for r = -1 the terms of x and 1 - x in one chunk cancel."""
    random = np.random.default_rng(4)
    vector = vectors([NEAR_MISSES["2 and -1"]] * 50)
    seeds, joint, query = coins(PROOF, random, 50)
    joint[:, 0] = elements([-1])
    assert PROOF.decide(message(PROOF, vector, PROOF.prove(vector, seeds, joint), query, joint, random)).all()
    joint[:, 0] = elements([-2])
    assert not PROOF.decide(message(PROOF, vector, PROOF.prove(vector, seeds, joint), query, joint, random)).any()


def test_each_element_of_vector_and_proof_is_checked():
    random = np.random.default_rng(5)
    vector = one_hot(5)[:1]
    seeds, joint, query = coins(PROOF, random, 1)
    whole = np.concatenate([vector, PROOF.prove(vector, seeds, joint)], axis=1)[0]
    changed = np.repeat(whole[None], len(whole), axis=0)
    places = np.arange(len(whole))
    changed[places, places] = field.add(changed[places, places], np.broadcast_to(elements([1]), (len(whole), 2)))
    query, joint = (np.repeat(drawn, len(whole), axis=0) for drawn in (query, joint))
    total = message(PROOF, changed[:, :5], changed[:, 5:], query, joint, random)
    assert not PROOF.decide(total).any()


@pytest.mark.parametrize(("length", "chunk"), SIZES)
def test_the_message_is_as_likely_for_every_class(length, chunk):
    """For seeds of one class there are seeds of another with the same message, at the same public randomness: a bijection."""
    proof, random = OneHotProof(length, chunk, 2), np.random.default_rng(6)
    seeds, joint, query = coins(proof, random, 1)
    both = [one_hot(length)[:1], one_hot(length)[-1:]]
    wires = [np.swapaxes(proof._wire_values(vector, seeds, joint, 1), 1, 2) for vector in both]
    weights = proof._weights(query[:, 2], proof.points)
    at_point = [field.inner(weights[:, None], values) for values in wires]
    factor = pow((int(weights[0, 0, 1]) << 64) + int(weights[0, 0, 0]), -1, MODULUS)
    moved = field.multiply(field.subtract(at_point[0], at_point[1]), elements([factor]))
    others = field.add(seeds, moved)
    made = [
        message(proof, vector, proof.prove(vector, drawn, joint), query, joint, random)
        for vector, drawn in zip(both, (seeds, others), strict=True)
    ]
    assert (seeds != others).any()
    assert (made[0] == made[1]).all()


def test_points_that_would_show_an_input_are_refused():
    random = np.random.default_rng(7)
    root = field.root_of_unity(PROOF.points)
    points = [pow(root, power, MODULUS) for power in range(PROOF.points)]
    others = [pow(field.root_of_unity(2 * PROOF.points), 1, MODULUS), 2]
    count = len(points) + len(others)
    seeds, joint, query = coins(PROOF, random, count)
    query[:, 2] = elements(points + others)
    vector = np.repeat(one_hot(5)[1:2], count, axis=0)
    share, usable = PROOF.query(vector, PROOF.prove(vector, seeds, joint), query, joint)
    assert usable.tolist() == [False] * len(points) + [True] * len(others)
    shown = PROOF._wire_values(vector, seeds, joint, 2)[np.arange(len(points)), np.arange(len(points))]
    assert (share[: len(points), 1:-1] == shown).all()  # what a point that is a root would give away
