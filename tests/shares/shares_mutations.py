"""Reports that somebody has tampered with: each function changes its rows in one way; none is left as it was."""

import numpy as np

from sfumato.shares._field import SIZE, elements
from sfumato.shares._turboshake import SEED_SIZE

NEAR_MISSES = ([], [0, 1], [0, 0], [0, 0, -1], [1, -1, 0, 2], [0, 0, 0, -2], [0, 1, -1, 2, -2])
"""Sums of unit vectors: class k adds 1 to entry k, -k takes 1 from it."""


def wrong_vectors(length, count, random):
    """Vectors that are not one-hot: near misses, then anything small."""
    made = random.integers(-3, 4, (count, length))
    for at in range(0, count, 2):
        row = np.zeros(length, int)
        for place in NEAR_MISSES[at // 2 % len(NEAR_MISSES)]:
            row[abs(place) % length] += 1 if place >= 0 else -1
        made[at] = row
    one_hot = (made.min(axis=1) >= 0) & (made.sum(axis=1) == 1)
    made[one_hot] = 1
    return elements(made.ravel().tolist()).reshape(count, length, 2)


class Sent:
    """What servers get of some reports: nonces of each server, public shares of each, input shares."""

    def __init__(self, nonces, reports):
        self.nonces = [nonces.copy() for _ in reports.input_shares]
        self.public = [reports.public_share.copy() for _ in reports.input_shares]
        self.inputs = [share.copy() for share in reports.input_shares]

    def arrays(self):
        return [*self.nonces, *self.public, *self.inputs]


def _flip(array, rows, random, low=0, high=None):
    places = random.integers(low, high or array.shape[1], len(rows))
    array[rows, places] ^= random.integers(1, 256, len(rows), dtype=np.uint8)


def a_byte_of_the_leader(sent, rows, random):
    _flip(sent.inputs[0], rows, random)


def a_byte_of_the_helper(sent, rows, random):
    _flip(sent.inputs[1], rows, random)


def a_byte_of_the_public_share(sent, rows, random):
    _flip(sent.public[0], rows, random)
    sent.public[1][rows] = sent.public[0][rows]


def a_byte_of_the_others_part_for_one_server(sent, rows, random):
    _flip(sent.public[1], rows, random, high=SEED_SIZE)


def a_byte_of_the_nonce(sent, rows, random):
    _flip(sent.nonces[0], rows, random)
    sent.nonces[1][rows] = sent.nonces[0][rows]


def a_byte_of_the_nonce_for_one_server(sent, rows, random):
    _flip(sent.nonces[1], rows, random)


def an_element_more(sent, rows, random):
    places = SIZE * random.integers(0, (sent.inputs[0].shape[1] - SEED_SIZE) // SIZE, len(rows))
    values = sent.inputs[0][rows[:, None], places[:, None] + np.arange(SIZE)].copy()
    low = values.view("<u8")
    low[:, 0] += np.uint64(1)
    sent.inputs[0][rows[:, None], places[:, None] + np.arange(SIZE)] = values


def the_leaders_share_of_another(sent, rows, random):
    sent.inputs[0][rows] = np.roll(sent.inputs[0], 1, axis=0)[rows]


def the_helpers_share_of_another(sent, rows, random):
    sent.inputs[1][rows] = np.roll(sent.inputs[1], 1, axis=0)[rows]


def the_public_share_of_another(sent, rows, random):
    for public in sent.public:
        public[rows] = np.roll(public, 1, axis=0)[rows]


def the_nonce_of_another(sent, rows, random):
    for nonces in sent.nonces:
        nonces[rows] = np.roll(nonces, 1, axis=0)[rows]


def noise_for_all(sent, rows, random):
    for array in sent.arrays():
        array[rows] = random.integers(0, 256, (len(rows), array.shape[1]), dtype=np.uint8)


def zeros_for_all(sent, rows, random):
    for array in sent.arrays():
        array[rows] = 0


def no_elements(sent, rows, random):
    sent.inputs[0][rows] = 255


def parts_exchanged(sent, rows, random):
    for public in sent.public:
        public[rows] = np.roll(public[rows], SEED_SIZE, axis=1)


def a_class_moved(sent, rows, random):
    """A weight is moved from one entry of the leader's share to the next, as if the class were another."""
    sent.inputs[0][rows, : 2 * SIZE] = np.roll(sent.inputs[0][rows, : 2 * SIZE], SIZE, axis=1)


TAMPERINGS = (
    a_byte_of_the_leader,
    a_byte_of_the_helper,
    a_byte_of_the_public_share,
    a_byte_of_the_others_part_for_one_server,
    a_byte_of_the_nonce,
    a_byte_of_the_nonce_for_one_server,
    an_element_more,
    the_leaders_share_of_another,
    the_helpers_share_of_another,
    the_public_share_of_another,
    the_nonce_of_another,
    noise_for_all,
    zeros_for_all,
    no_elements,
    parts_exchanged,
    a_class_moved,
)


def verified(prio, keys, sent):
    """States of both servers, what each accepts, and what is valid."""
    steps = [
        prio.verify_init(keys[server], server, sent.nonces[server], sent.public[server], sent.inputs[server])
        for server in range(prio.shares)
    ]
    message, valid = prio.verifier_shares_to_message([share for _, share in steps])
    states = [state for state, _ in steps]
    return states, [prio.verify_next(state, message, valid) for state in states], valid
