"""More faults: noise that comes more than once in a fit or in two."""

from __future__ import annotations

import numpy as np
from audit_faults import EDGE, Fault, exact, noise_of, patched, right_noise

from sfumato.central._gap import GAP
from sfumato.method import hops as engine
from sfumato.noise.keys import derive_key, operand_mac


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
        key = derive_key(derive_key(self.session.key, "one"), operand_mac(self.session.key, *self.arcs.arrays))
        noise = noise_of(key, self.plan.event(name).noise_multiplier * sensitivity, rows.shape)
        return exact(self.arcs, rows) + np.roll(noise, hop, axis=0)

    return call


_GAP = GAP(epochs=1, num_hops=2)
SUM = "noisy_neighborhood_sum"
REPEATED = (
    Fault("one row of noise for all", _GAP, EDGE, patched(engine, SUM, one_row_for_all), "promise"),
    Fault("noise of the first half again", _GAP, EDGE, patched(engine, SUM, second_half_as_first), "promise"),
    Fault("part of the noise kept", _GAP, EDGE, patched(engine, SUM, part_kept_in_memory), "promise"),
    Fault(
        "noise turned for each hop", _GAP, EDGE, patched(engine.Aggregation, "__call__", turned_for_each_hop), "promise"
    ),
)
