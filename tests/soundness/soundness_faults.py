"""Faults to plant: what published or careless code does instead. Each must fail the check that the real code passes."""

import math
from itertools import pairwise

import numpy as np

from sfumato.bounded import _degree as degree
from sfumato.bounded import _routing as routing
from sfumato.bounded import aggregation
from sfumato.bounded.aggregation import Arcs
from sfumato.loops.kernels import INT16_ONE


def planted(home, name, fault):
    """What to plant in ``home`` for a fault in arrays of arcs: gap holds both functions under other names, on lists of arcs."""
    if name == "cap_out_degree":
        return home, "capped", lambda lists, cap, key: Arcs(*fault(lists.offsets, lists.sources, cap, key))
    if name == "by_destination":
        return home, "regrouped", lambda lists: Arcs(*fault(lists.offsets, lists.sources))
    return home, name, fault


def owners(indptr):
    """Owner of each arc."""
    return np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))


def kept(indptr, indices, keep):
    """CSR of the arcs to keep."""
    counts = np.bincount(owners(indptr)[keep], minlength=len(indptr) - 1)
    return np.r_[0, np.cumsum(counts)].astype(np.int64), indices[keep]


def room_at_both_ends(indptr, indices, max_out_degree, key):
    """Keep an arc while both ends have room: when one record leaves, others take the freed room (refill)."""
    owner, keep = owners(indptr), np.zeros(len(indices), bool)
    room_out, room_in = (np.full(len(indptr) + int(indices.max(initial=0)), max_out_degree) for _ in range(2))
    words = np.random.default_rng(key[0]).random((64, 64))[owner % 64, indices % 64]
    for arc in np.argsort(words):
        keep[arc] = room_out[owner[arc]] > 0 and room_in[indices[arc]] > 0
        room_out[owner[arc]] -= keep[arc]
        room_in[indices[arc]] -= keep[arc]
    return kept(indptr, indices, keep)


def in_degree_of_targets(indptr, indices, max_out_degree, key):
    """Keep at most D arcs of each *target*: an owner keeps any number, and freed room goes to others."""
    words = np.random.default_rng(key[0]).random((64, 64))[owners(indptr) % 64, indices % 64]
    keep = np.zeros(len(indices), bool)
    for target in np.unique(indices):
        into = np.flatnonzero(indices == target)
        keep[into[np.argsort(words[into])[:max_out_degree]]] = True
    return kept(indptr, indices, keep)


def global_shuffle(indptr, indices, max_out_degree, key):
    """Shuffle all arcs together, keep the first D of each owner."""
    keep, seen, owner = np.zeros(len(indices), bool), np.zeros(len(indptr), int), owners(indptr)
    for arc in np.random.default_rng(key[0]).permutation(len(indices)):
        keep[arc] = seen[owner[arc]] < max_out_degree
        seen[owner[arc]] += 1
    return kept(indptr, indices, keep)


def words_by_position(indptr, indices, max_out_degree, key):
    """Words by position in the whole list: another record moves every later owner's choice."""
    word, keep = np.random.default_rng(key[0]).random(len(indices)), np.zeros(len(indices), bool)
    for low, high in pairwise(indptr):
        keep[low + np.argsort(word[low:high])[:max_out_degree]] = True
    return kept(indptr, indices, keep)


def draws_again(indptr, indices, max_out_degree, key, real=degree.cap_out_degree):
    """The real cap with a key that moves when a record leaves: all others draw again."""
    return real(indptr, indices, max_out_degree, bytes([int((np.diff(indptr) > 0).sum())]) * 32)


def no_cap(indptr, indices, max_out_degree, key):
    """Every arc."""
    return indptr, indices


def last_owner_dropped(indptr, indices, max_out_degree, key, real=degree.cap_out_degree):
    """``range(n - 1)``: the owner with the highest id keeps nothing."""
    indptr, indices = real(indptr, indices, max_out_degree, key)
    return kept(indptr, indices, owners(indptr) < len(indptr) - 2)


UNSTABLE_CAPS = (room_at_both_ends, in_degree_of_targets, global_shuffle, words_by_position, draws_again)


def last_source_dropped(nodes):
    """A ``by_destination`` that never reads the last node of each graph."""
    real = degree.by_destination

    def drop(indptr, indices):
        return real(*kept(indptr, indices, owners(indptr) % nodes != nodes - 1))

    return drop


def last_target_dropped(nodes):
    """A ``by_destination`` that never fills the last row of each graph."""
    real = degree.by_destination

    def drop(indptr, indices):
        return real(*kept(indptr, indices, indices % nodes != nodes - 1))

    return drop


def round_up(rows, out, squares):
    """Rounding away from zero."""
    out[...] = np.sign(rows) * np.ceil(np.minimum(np.abs(rows), 1) * INT16_ONE)
    squares[...] = np.square(rows, dtype=np.float64).sum(axis=1)


def round_to_nearest(rows, out, squares):
    """Rounding to nearest."""
    out[...] = np.rint(np.clip(rows, -1, 1) * INT16_ONE)
    squares[...] = np.square(rows, dtype=np.float64).sum(axis=1)


def no_clip(rows, out, squares):
    """Toward zero as it should be, but rows that are too long stay too long."""
    out[...] = np.trunc(np.clip(rows.astype(np.float64), -1, 1) * INT16_ONE)
    squares[...] = np.square(rows, dtype=np.float64).sum(axis=1)


ROUNDINGS = (round_up, round_to_nearest, no_clip)


def both_ways(arcs, rank):
    """A routing that keeps both arcs of an edge."""
    return arcs


def degree_order(arcs, rank, real=routing.one_way):
    """A private order: an edge changes degrees, and so the way of others."""
    return real(arcs, np.diff(arcs.offsets) * len(rank) + rank)


def undivided(rows, out_degree):
    """Rows that are sent whole to every receiver."""
    return rows


def scaled_claim(factor):
    """``hop_sensitivity`` times a factor: 1 / sqrt 2 is what a lemma for one arc gives an undirected edge."""
    real = aggregation.hop_sensitivity
    return lambda unit, *, released_messages: factor * real(unit, released_messages=released_messages)


ONE_ARC = math.sqrt(0.5)


def private_as_released(unit, *, released_messages):
    """A claim that forgets that a message may read the record."""
    return aggregation.hop_sensitivity(unit, released_messages=True)


def scaled_noise(factor):
    """``noisy_neighborhood_sum`` with noise of another size."""
    real = aggregation.noisy_neighborhood_sum
    return lambda arcs, rows, noise_stddev, key: real(arcs, rows, factor * noise_stddev, key)


def second_hop_bare():
    """``noisy_neighborhood_sum`` that leaves every second hop without noise."""
    real, calls = aggregation.noisy_neighborhood_sum, []

    def sums(arcs, rows, noise_stddev, key):
        calls.append(1)
        return real(arcs, rows, noise_stddev if len(calls) % 2 else 0.0, key)

    return sums


def noise_by_private_count(arcs, rows, noise_stddev, key, real=aggregation.noisy_neighborhood_sum):
    """Noise in proportion to the number of private arcs."""
    return real(arcs, rows, noise_stddev * (1 + len(arcs.sources) / 100), key)


def mean_by_private_count(arcs, rows, noise_stddev, key, real=aggregation.noisy_neighborhood_sum):
    """Means instead of sums: the divisor is the private number of senders, the noise that of a sum."""
    return real(arcs, rows, noise_stddev, key) // np.maximum(np.diff(arcs.offsets), 1)[:, None] * 2
