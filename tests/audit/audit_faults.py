"""Faults to plant in our own methods: what careless code does instead. The auditor must flag each, and never the real code."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from unittest.mock import patch

import numpy as np
import torch

import sfumato as sf
from sfumato.audit._auditor import audit
from sfumato.audit._evidence import Audit
from sfumato.bounded._degree import cap_out_degree
from sfumato.bounded._exact import WholeRows
from sfumato.bounded.aggregation import Arcs, to_steps
from sfumato.catalog import method_named
from sfumato.central import _counts as counts
from sfumato.central import _gap as gap
from sfumato.central import _learning
from sfumato.central import _linear as linear
from sfumato.central._gap import GAP
from sfumato.classlevel._images import Training
from sfumato.graph._graph import Graph
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.loops.kernels import INT16_ONE
from sfumato.method import _opening as opening
from sfumato.method import hops as engine
from sfumato.method.contract import Listed, Outcome
from sfumato.nn._training import train_full_batch
from sfumato.noise.gaussian import rounded_gaussian
from sfumato.noise.keys import derive_key, new_key, operand_mac
from sfumato.privacy.units import Unit

BUDGET = sf.Budget(1.0, 1e-6)
EDGE = sf.EdgeLevel(directed=False)
NODE = sf.NodeLevel(max_out_degree=4)
REPLACED = sf.NodeLevel(max_out_degree=4, relation="replace")


@dataclass(frozen=True)
class Fault:
    """A fault, the honest configuration that it is planted in, and how large an audit has to be to see it.

    ``proof`` says what must flag it: a ``bound`` above a claim, or a broken ``promise``.
    """

    name: str
    method: Listed
    unit: Unit
    plant: Callable[[], Iterator[None]]
    proof: str
    size: float = 0.05
    fits: int = 2
    graph: Graph | None = None
    budget: sf.Budget = BUDGET
    attacks: tuple[str, ...] = ()

    def audit(self, plant=None) -> Audit:
        """Audit the method with the fault in it, or with what ``plant`` puts there instead."""
        with (plant or self.plant)():
            given = {"graph": self.graph, "size": self.size, "fits": self.fits, "attacks": self.attacks}
            return audit(self.method, self.unit, self.budget, **given)


def patched(home, name, fault):
    """Plant ``fault(real)`` in the place of a name."""
    return lambda: patch.object(home, name, fault(getattr(home, name)))


def on_lists(fault):
    """A fault of the degree cap, as gap calls the cap: on lists of arcs."""
    return lambda real: lambda lists, cap, key: Arcs(*fault(real)(lists.offsets, lists.sources, cap, key))


def sensitivity_of_one_arc(real):
    """An undirected edge counted as one arc (as published)."""
    return lambda unit, *, released_messages: 1.0


def sensitivity_of_removal(real):
    """A record that is replaced accounted as one that is removed."""
    return lambda unit, *, released_messages: math.sqrt(unit.max_out_degree)


def half_the_noise(real):
    return lambda arcs, rows, stddev, key: real(arcs, rows, stddev / 2, key)


def only_first_noised(real):
    """The second hop leaves as it is."""

    def call(self, hop, rows):
        if hop == 1:
            return real(self, hop, rows)
        with patch.object(engine, "noisy_neighborhood_sum", lambda arcs, rows, _, key: exact(arcs, rows)):
            return real(self, hop, rows)

    return call


def odd_hops_noised(real):
    """Half of the hops leave with a hundredth of the noise."""

    def call(self, hop, rows):
        if hop % 2:
            return real(self, hop, rows)
        sum_of = engine.noisy_neighborhood_sum
        with patch.object(engine, "noisy_neighborhood_sum", lambda a, r, stddev, key: sum_of(a, r, stddev / 100, key)):
            return real(self, hop, rows)

    return call


def exact(arcs, rows, scale=1.0):
    """The sum itself, in steps; messages may be longer than 1."""
    steps = np.rint(scale * rows * INT16_ONE).astype(np.int64) if scale != 1.0 else to_steps(rows).astype(np.int64)
    sums = np.zeros(rows.shape, np.int64)
    np.add.at(sums, np.repeat(np.arange(arcs.num_nodes), np.diff(arcs.offsets)), steps[arcs.sources])
    return sums


def noise_of(key, stddev, shape):
    return rounded_gaussian(key, stddev * INT16_ONE, 0, math.prod(shape)).reshape(shape)


def right_noise(arcs, rows, stddev, key):
    """What the real code draws: a function of the operand."""
    mac = operand_mac(key, rows, arcs.offsets, arcs.sources)
    return noise_of(derive_key(key, mac), stddev, rows.shape)


def longer_messages(real):
    """Normalization is missing: a message is as long as the record makes it."""
    return lambda arcs, rows, stddev, key: exact(arcs, rows, 3.0) + right_noise(arcs, rows, stddev, key)


def noise_without_operand(real):
    """Noise is a function of the key alone: two graphs under one key share it."""
    return lambda arcs, rows, stddev, key: exact(arcs, rows) + noise_of(key, stddev, rows.shape)


def noise_kept_in_memory(real):
    """Noise is drawn once and kept for the next graph of that shape."""
    kept = {}

    def call(arcs, rows, stddev, key):
        noise = kept.setdefault((rows.shape, stddev), noise_of(key, stddev, rows.shape))
        return exact(arcs, rows) + noise

    return call


def same_noise_for_all_hops(real):
    """One draw for all hops of a fit."""

    def call(self, hop, rows):
        self.noise = getattr(self, "noise", None) or new_key()
        unit = self.plan.unit
        stddev = self.plan.event(f"aggregate/{hop}").noise_multiplier * engine.hop_sensitivity(
            unit, released_messages=engine.reads_released(unit, hop)
        )
        self.session.charge(f"aggregate/{hop}")
        return exact(self.arcs[""], rows) + noise_of(self.noise, stddev, rows.shape)

    return call


def fresh_noise_on_retry(real):
    """The key of the fit is not used: a retry draws again."""
    return lambda arcs, rows, stddev, key: real(arcs, rows, stddev, new_key())


def coarse_noise(real):
    """Noise on multiples of 4096 steps: what lies between them is exact."""

    def call(arcs, rows, stddev, key):
        noise = right_noise(arcs, rows, stddev, key)
        return exact(arcs, rows) + np.rint(noise / 4096).astype(np.int64) * 4096

    return call


def some_rows_bare(real):
    """A row is released as it is with probability 1 %: 'delta' by chance."""

    def call(arcs, rows, stddev, key):
        noise = right_noise(arcs, rows, stddev, key)
        noise[np.random.default_rng().random(len(noise)) < 0.01] = 0
        return exact(arcs, rows) + noise

    return call


def half_of_the_rows(real):
    """Noise for every second row."""

    def call(arcs, rows, stddev, key):
        noise = right_noise(arcs, rows, stddev, key)
        noise[::2] = 0
        return exact(arcs, rows) + noise

    return call


def one_row_for_all(real):
    """All rows of a hop have the noise of one row: their differences are exact."""

    def call(arcs, rows, stddev, key):
        mac = operand_mac(key, rows, arcs.offsets, arcs.sources)
        return exact(arcs, rows) + noise_of(derive_key(key, mac), stddev, (1, rows.shape[1]))

    return call


def second_half_as_first(real):
    """The second half of the rows has the noise of the first."""

    def call(arcs, rows, stddev, key):
        noise = right_noise(arcs, rows, stddev, key)
        half = len(noise) // 2
        noise[half : 2 * half] = noise[:half]
        return exact(arcs, rows) + noise

    return call


def part_kept_in_memory(real):
    """The noise of 40 % of the rows is drawn once and kept for later fits."""
    kept = {}

    def call(arcs, rows, stddev, key):
        noise = right_noise(arcs, rows, stddev, key)
        part = 2 * len(noise) // 5
        noise[:part] = kept.setdefault((rows.shape, stddev), noise[:part].copy())
        return exact(arcs, rows) + noise

    return call


def turned_for_each_hop(real):
    """One draw for all hops of a fit, turned by a row for each."""

    def call(self, hop, rows):
        unit, name = self.plan.unit, f"aggregate/{hop}"
        self.session.charge(name)
        sensitivity = engine.hop_sensitivity(unit, released_messages=engine.reads_released(unit, hop))
        key = derive_key(derive_key(self.session.key, "one"), operand_mac(self.session.key, *self.arcs[""].arrays))
        noise = noise_of(key, self.plan.event(name).noise_multiplier * sensitivity, rows.shape)
        return exact(self.arcs[""], rows) + np.roll(noise, hop, axis=0)

    return call


def half_the_counts_noise(real):
    return lambda arcs, rows, scale, key: real(arcs, rows, scale / 2, key)


def no_cap(real):
    return lambda indptr, indices, cap, key: (indptr, indices)


def loops_not_counted(real):
    """An arc to oneself comes on top of the cap."""

    def call(indptr, indices, cap, key):
        owner = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        loop = owner == indices
        others = _csr(owner[~loop], indices[~loop], len(indptr) - 1)
        offsets, targets = cap_out_degree(*others, cap, key)
        owners = np.repeat(np.arange(len(indptr) - 1), np.diff(offsets))
        both = np.concatenate([owners, owner[loop]]), np.concatenate([targets, indices[loop]])
        return _csr(*both, len(indptr) - 1)

    return call


def refilled_cap(real):
    """An arc is kept while both ends have room: when one record leaves, others take the room."""

    def call(indptr, indices, cap, key):
        owner = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        room_out, room_in = ([cap] * (len(indptr) - 1) for _ in range(2))
        keep = np.zeros(len(indices), bool)
        for arc in np.random.default_rng(key[0]).permutation(len(indices)):
            u, v = owner[arc], indices[arc]
            if room_out[u] and room_in[v]:
                keep[arc], room_out[u], room_in[v] = True, room_out[u] - 1, room_in[v] - 1
        return _csr(owner[keep], indices[keep], len(indptr) - 1)

    return call


def _csr(owner, targets, count):
    order = np.lexsort((targets, owner))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=count))])
    return offsets.astype(np.int64), targets[order].astype(np.int32)


def known_key(real):
    return lambda: bytes(32)


def trained_in_the_clear(stage_in_the_clear, epochs):
    """One network is trained without DP on private labels; the ledger lists it all the same."""

    def fault(real):
        def call(settings, plan, session, stage, network, graph, rows, **rest):
            if stage != stage_in_the_clear:
                return real(settings, plan, session, stage, network, graph, rows, **rest)
            session.charge(stage)
            ids = np.flatnonzero(graph.train_mask & (graph.y >= 0))
            inputs = [_dense(one) for one in _learning._inputs(rows(ids))]
            y = torch.from_numpy(graph.y[ids])
            told = {"num_classes": graph.num_classes, "epochs": epochs, "learning_rate": 0.05}
            train_full_batch(network, lambda: network(*inputs), y, validation_targets=y, **told)
            network.float().eval()
            return None

        return call

    return fault


def _dense(rows):
    """Rows as a network takes them; whole numbers are scaled back."""
    if not isinstance(rows, WholeRows):
        return rows
    return rows.plain()


def clip_a_hundred_times_larger(real):
    """Gradients are hardly clipped; noise stays as it was."""
    return lambda q, steps, clip, noise, rate: real(q, steps, 100 * clip, noise / 100, rate)


def no_noise_for_the_center(real):
    """The mean of the rows leaves as it is."""
    return lambda rows, groups, count, stddev, key, owners=None: real(rows, groups, count, 1e-9, key, owners)


def not_sampled(real):
    """Amplification by sampling is claimed, but every step reads all records."""
    return lambda q, steps, clip, noise, rate: real(1.0, steps, clip, noise, rate)


class OpenPredictions(GAP):
    """Shows predictions, which read a node's own features, to anyone."""

    def who_may_see(self, unit):
        shown = super().who_may_see(unit)
        return {**shown, "anyone": [*shown["anyone"], "predictions for all nodes"]}


class RawFeatures(GAP):
    """Stores the encodings of single nodes beside the hops."""

    def run(self, plan, graph, session):
        outcome = super().run(plan, graph, session)
        encoder = self.trained(outcome.weights, plan.public)[0]
        raw = gap.encode(encoder, _learning.Features(graph))
        return Outcome(outcome.weights, {**outcome.released, "aggregate/0": raw})


class TwoDraws(GAP):
    """Releases a second draw of the last hop."""

    def run(self, plan, graph, session):
        outcome = super().run(plan, graph, session)
        name, last = list(outcome.released.items())[-1]
        return Outcome(
            outcome.weights, {**outcome.released, f"{name}/retry": last + noise_of(new_key(), 1.0, last.shape)}
        )


@contextmanager
def nothing():
    yield


_GAP = GAP(epochs=2, num_hops=2)
_BARE = GAP(epochs=1, num_hops=1, encoder=False)
_LABELS = method_named("label-messages")
_MLP = replace(method_named("mlp"), epochs=10, batch_size=5000)

_SHIFTED = stochastic_block_model(3000, 3, mean_degree=4, num_features=8, seed=0).with_split(seed=0)
_SHIFTED = replace(_SHIFTED, x=_SHIFTED.x + 5)  # a center far from 0


def only_those_there(real):
    """Empty records are left out, so that the divisor counts the others."""

    def call(self, *arguments):
        real(self, *arguments)
        there = (self._y >= 0).numpy()
        self.rows, self._y, self._x = self.rows[there], self._y[there], self._x[there]

    return call


_IMAGES = method_named("cnn", network="softmax", steps=10)
FAULTS = (
    Fault("sqrt 2 missing", _GAP, EDGE, patched(engine, "hop_sensitivity", sensitivity_of_one_arc), "bound", 1.0, 12),
    Fault("half of the noise", _GAP, EDGE, patched(engine, "noisy_neighborhood_sum", half_the_noise), "bound", 0.5, 6),
    Fault("one hop without noise", _GAP, EDGE, patched(engine.Aggregation, "__call__", only_first_noised), "promise"),
    Fault("noise at half of the hops", replace(_GAP, num_hops=4), EDGE,
          patched(engine.Aggregation, "__call__", odd_hops_noised), "bound", 0.1, 2),
    Fault("noise for half of the rows", _GAP, EDGE, patched(engine, "noisy_neighborhood_sum", half_of_the_rows), "promise"),
    Fault("one row in a hundred without noise", _GAP, EDGE,
          patched(engine, "noisy_neighborhood_sum", some_rows_bare), "promise"),
    Fault("noise on a coarse grid", _GAP, EDGE, patched(engine, "noisy_neighborhood_sum", coarse_noise), "promise"),
    Fault("one draw for all hops", _GAP, EDGE, patched(engine.Aggregation, "__call__", same_noise_for_all_hops), "promise"),
    Fault("cached noise for two graphs", _GAP, EDGE,
          patched(engine, "noisy_neighborhood_sum", noise_kept_in_memory), "promise"),
    Fault("noise that ignores the operand", _GAP, EDGE,
          patched(engine, "noisy_neighborhood_sum", noise_without_operand), "promise"),
    Fault("noise drawn again on retry", _GAP, EDGE,
          patched(engine, "noisy_neighborhood_sum", fresh_noise_on_retry), "promise"),
    Fault("two draws released", TwoDraws(epochs=2), EDGE, nothing, "promise"),
    Fault("known key", _GAP, EDGE, patched(opening, "new_key", known_key), "promise"),
    Fault("half of the noise of counts", _LABELS, EDGE,
          patched(counts, "noisy_counts", half_the_counts_noise), "bound", 0.15, 2),
    Fault("replaced accounted as removed", _BARE, REPLACED,
          patched(engine, "hop_sensitivity", sensitivity_of_removal), "bound", 1.0, 20),
    Fault("messages longer than 1", _BARE, NODE, patched(engine, "noisy_neighborhood_sum", longer_messages), "bound", 1.0, 6),
    Fault("no cap", _BARE, NODE, patched(engine, "capped", on_lists(no_cap)), "bound", 1.0, 20),
    Fault("arcs to oneself not counted", replace(_BARE, num_hops=1), sf.NodeLevel(max_out_degree=1),
          patched(engine, "capped", on_lists(loops_not_counted)), "bound", 1.0, 30),
    Fault("cap that refills", _BARE, NODE, patched(engine, "capped", on_lists(refilled_cap)), "bound", 1.0, 20),
    Fault("public predictions", OpenPredictions(epochs=1), NODE, nothing, "promise"),
    Fault("raw encodings released", RawFeatures(epochs=1), NODE, nothing, "promise"),
    Fault("head in the clear", _LABELS, NODE, patched(_learning, "train", trained_in_the_clear("head", 100)), "bound", 1.0, 3),
    Fault("encoder in the clear", GAP(epochs=1), NODE,
          patched(gap, "train", trained_in_the_clear("encoder", 100)), "bound", 1.0, 3),
    Fault("center without noise", replace(method_named("linear"), epochs=10), NODE,
          patched(linear, "noisy_group_sums", no_noise_for_the_center), "bound", 1.0, 3, _SHIFTED),
    Fault("gradients hardly clipped", _MLP, sf.RecordLevel(),
          patched(_learning, "PrivateSGD", clip_a_hundred_times_larger), "bound", 1.0, 4),
    Fault("sampling rate understated", replace(_MLP, epochs=2, batch_size=16), sf.RecordLevel(),
          patched(_learning, "PrivateSGD", not_sampled), "bound", 1.0, 10),
    Fault("divisor that counts records", _IMAGES, sf.RecordLevel(),
          patched(Training, "__init__", only_those_there), "bound", 0.05, 60, attacks=("few",)),
)  # fmt: skip
_BRIEF = GAP(epochs=1, num_hops=2)
SUM = "noisy_neighborhood_sum"
REPEATED = (
    Fault("one row of noise for all", _BRIEF, EDGE, patched(engine, SUM, one_row_for_all), "promise"),
    Fault("noise of the first half again", _BRIEF, EDGE, patched(engine, SUM, second_half_as_first), "promise"),
    Fault("part of the noise kept", _BRIEF, EDGE, patched(engine, SUM, part_kept_in_memory), "promise"),
    Fault(
        "noise turned for each hop",
        _BRIEF,
        EDGE,
        patched(engine.Aggregation, "__call__", turned_for_each_hop),
        "promise",
    ),
)
"""Noise that comes more than once in a fit or in two."""
UNSEEN = {
    "counts of both directions": "It was planted and not flagged: if an undirected edge sends a label both ways, a row moves "
    "that the honest routing never touches, and the auditor computes what the honest routing would send.",
    "codes of classes longer than 1, or half of the noise of pairs of classes": "Both were planted in promised-messages and not "
    "flagged: in the small data sets of the auditor the charged test gives the rest of the budget to features, so that no hop is "
    "released, and no arc joins two training nodes. The audit names pairs and test as not attacked.",
    "half of the noise of a small share of the budget": "It was planted in the center of linear, which has 2 % of it, and not "
    "flagged: bounds are on all sums together, and such a release may tell twice as much before the whole run does.",
    "choice among candidates": "It was not planted: a choice that reads private data shows in one of few outcomes, and needs "
    "thousands of fits to be seen.",
    "keys that count": "It was planted and not flagged: keys 0, 1, 2, ... give fresh noise to every fit, and the auditor does "
    "not guess keys.",
    "more arrays among weights at edge level": "It was planted and not flagged: where labels are public, weights are not "
    "charged, so their number is not checked, and no attack reads them.",
    "head trained on exact sums at edge level": "It was planted and not flagged: attacks at edge level read the noisy sums, "
    "not what was trained beside them.",
    "noise of one step": "It was planted in 1 % and in 5 % of the rows and not flagged: such noise is never 0, and so few rows "
    "hardly move the mean and the spread of scores.",
    "claims above the reach": "So many scores cannot prove more than the reach of the audit, so that no bound refutes a claim "
    "above it, whatever the code does.",
}
"""Faults that this auditor does not see, and why."""
