"""GAP's aggregation from end to end: the noise that is added, over the sensitivity that is measured, is what is charged."""

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
import soundness_faults as faults
from soundness_hops import (
    CAP,
    REMOVE,
    REPLACE,
    UNDER_CHARGED,
    UNITS,
    Trace,
    assert_charged,
    observed,
    silence,
    some_pairs,
)
from soundness_neighbors import ARC, EDGE, KEY, NODES, WIDTH

from sfumato.bounded import _degree as degree
from sfumato.bounded import aggregation
from sfumato.central._gap import GAP
from sfumato.errors import InputError
from sfumato.graph._graph import Graph, PublicFacts
from sfumato.loops.kernels import INT16_ONE, loops
from sfumato.method import hops as engine
from sfumato.method._plan import Plan
from sfumato.method.contract import Session
from sfumato.method.hops import aggregate
from sfumato.privacy.budget import Budget
from sfumato.privacy.units import NodeLevel

HOPS = 2


@cache
def plan_for(unit, num_nodes: int, width: int) -> Plan:
    """A calibrated plan."""
    public = PublicFacts(num_nodes, num_nodes, 3, 2, directed=unit is not EDGE)
    return GAP(num_hops=HOPS, width=width, epochs=1, batch_size=num_nodes).calibrate(Budget(2.0, 1e-5), unit, public)


def aggregate_once(unit, adjacency, rows, sampler=silence, key=KEY):
    """Run GAP's own aggregation of one graph; (released by hop, trace)."""
    num_nodes, width = rows.shape
    indptr = np.r_[0, np.cumsum(adjacency.sum(1))]
    graph = Graph.from_csr(indptr, adjacency.nonzero()[1], directed=unit is not EDGE, self_loops="keep")
    trace = Trace()
    with observed(trace, sampler):
        released = aggregate(plan_for(unit, num_nodes, width), graph, Session(trace, key, 0), rows, HOPS)
    return [released[f"aggregate/{hop}"] for hop in range(1, HOPS + 1)], trace


def charged(unit) -> int:
    """As few pairs as find every planted fault, and none in the real code."""

    def run(adjacency, rows, later, key):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(engine, "normalize_rows", lambda released: later)
            return aggregate_once(unit, adjacency, rows, key=key)

    return assert_charged(plan_for(unit, NODES, WIDTH), some_pairs(unit, 200), run)


def assert_noise_is_there(unit, sampler=aggregation.rounded_gaussian, num_nodes=3000, width=16) -> None:
    """On a larger graph: released minus the exact sums is noise of the charged size, everywhere, and new in each hop."""
    rng = np.random.default_rng(0)
    adjacency = rng.random((num_nodes, num_nodes)) < 2 / num_nodes
    adjacency |= adjacency.T
    rows = aggregation.normalize_rows(rng.normal(size=(num_nodes, width)))
    released, trace = aggregate_once(unit, adjacency, rows, sampler)
    indptr, indices = np.r_[0, np.cumsum(adjacency.sum(1))], adjacency.nonzero()[1].astype(np.int32)
    if isinstance(unit, NodeLevel):
        indptr, indices = degree.cap_out_degree(indptr, indices, CAP, KEY)
    sending = sp.csr_matrix((np.ones(len(indices), np.int64), indices, indptr), shape=adjacency.shape).T
    noises = []
    for hop, (sums, draws) in enumerate(zip(released, trace.draws, strict=True), 1):
        assert [span for *_, start, stop in draws for span in (start, stop)] == [0, num_nodes * width], (
            f"hop {hop}: not every coordinate draws noise once"
        )
        steps = aggregation.to_steps(rows)
        longest = int(np.square(steps, dtype=np.int64).sum(1).max())
        assert longest <= INT16_ONE**2, f"hop {hop}: a message is longer than 1"
        event = next(r.event for r in plan_for(unit, num_nodes, width).releases if r.name == f"aggregate/{hop}")
        sensitivity = aggregation.hop_sensitivity(unit, released_messages=hop > 1 or "features" in unit.public)
        noise = (sums - sending @ steps.astype(np.int64)) / (INT16_ONE * sensitivity * event.noise_multiplier)
        assert abs(noise.std() - 1) < 0.02, f"hop {hop}: noise is {noise.std():.3f} of what is charged"
        assert abs(noise.mean()) < 0.02, f"hop {hop}: noise is shifted by {noise.mean():.3f}"
        assert noise.std(axis=1).min() > 0.1, f"hop {hop}: rows without noise"
        noises.append(noise.ravel())
        rows = aggregation.normalize_rows(sums)
    first, second = noises
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.03, "the same noise in two hops"
    assert abs(np.corrcoef(first[:-1], first[1:])[0, 1]) < 0.03, "noise repeats within a hop"


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_noise_over_measured_sensitivity_is_what_is_charged(unit):
    assert charged(unit) > 140


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_released_is_the_exact_sum_plus_that_noise(unit):
    assert_noise_is_there(unit)


@pytest.mark.parametrize(
    ("unit", "name", "fault", "message"),
    [
        (EDGE, "hop_sensitivity", faults.scaled_claim(faults.ONE_ARC), UNDER_CHARGED),
        *((unit, "noisy_neighborhood_sum", faults.scaled_noise(2 / 3), UNDER_CHARGED) for unit in UNITS.values()),
        (ARC, "noisy_neighborhood_sum", faults.scaled_noise(3 / 2), "more noise"),
        *((unit, "noisy_neighborhood_sum", faults.second_hop_bare(), "aggregate/2: noise of 0") for unit in UNITS.values()),
        (EDGE, "noisy_neighborhood_sum", faults.noise_by_private_count, "depends on the data"),
        (EDGE, "noisy_neighborhood_sum", faults.mean_by_private_count, UNDER_CHARGED),
        (REPLACE, "hop_sensitivity", faults.private_as_released, "aggregate/1: noise of"),
        *((REMOVE, "cap_out_degree", cap, UNDER_CHARGED) for cap in (*faults.UNSTABLE_CAPS, faults.no_cap)),
        (REMOVE, "cap_out_degree", faults.last_owner_dropped, "records are dropped"),
        (REMOVE, "by_destination", faults.last_source_dropped(NODES), "records are dropped"),
    ],
)  # fmt: skip
def test_planted_faults_of_size_are_caught(monkeypatch, unit, name, fault, message):
    monkeypatch.setattr(*faults.planted(engine, name, fault))
    with pytest.raises(AssertionError, match=message):
        charged(unit)


REAL_NOISE = aggregation.rounded_gaussian
WIDE = 16


def last_row_bare(key, stddev, start, stop):
    """Noise for n - 1 rows."""
    noise = REAL_NOISE(key, stddev, start, stop)
    noise[-WIDE:] = 0
    return noise


def one_row_for_all(key, stddev, start, stop):
    """One row of noise, repeated."""
    return np.resize(REAL_NOISE(key, stddev, 0, WIDE), stop - start)


@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        (lambda key, stddev, start, stop: REAL_NOISE(key, stddev * 2 / 3, start, stop), r"noise is 0\.6"),
        (lambda key, stddev, start, stop: REAL_NOISE(key, stddev * 3 / 2, start, stop), r"noise is 1\.5"),
        (lambda key, stddev, start, stop: REAL_NOISE(key, stddev, start, stop) + int(stddev / 20), "shifted"),
        (lambda key, stddev, start, stop: REAL_NOISE(KEY, stddev, start, stop), "same noise in two hops"),
        (lambda key, stddev, start, stop: np.repeat(REAL_NOISE(key, stddev, start, stop)[::2], 2), "repeats"),
        (last_row_bare, "rows without noise"),
        (one_row_for_all, "rows without noise|repeats|noise is"),
        (silence, r"noise is 0\.000"),
    ],
)  # fmt: skip
def test_planted_faults_of_noise_are_caught(sampler, message):
    with pytest.raises(AssertionError, match=message):
        assert_noise_is_there(ARC, sampler)


def test_planted_fault_the_same_key_for_two_hops(monkeypatch):
    """Without the hop and the operand in the key, both hops draw the same noise."""
    monkeypatch.setattr(aggregation, "derive_key", lambda key, *parts: KEY)
    with pytest.raises(AssertionError, match="same noise in two hops"):
        assert_noise_is_there(EDGE)


def test_planted_fault_last_rows_never_drawn(monkeypatch):
    """A hop that draws noise for n - 1 rows."""

    def short(arcs, rows, noise_stddev, key):
        sums = aggregation.noisy_neighborhood_sum(arcs, rows, 0.0, key)
        noise = aggregation.rounded_gaussian(key, noise_stddev * INT16_ONE, 0, sums[:-1].size)
        sums[:-1] += noise.reshape(-1, sums.shape[1])
        return sums

    monkeypatch.setattr(engine, "noisy_neighborhood_sum", short)
    with pytest.raises(AssertionError, match="not every coordinate"):
        assert_noise_is_there(ARC)


def test_planted_fault_a_hop_without_noise(monkeypatch):
    monkeypatch.setattr(engine, "noisy_neighborhood_sum", faults.second_hop_bare())
    with pytest.raises(AssertionError, match="hop 2: not every coordinate"):
        assert_noise_is_there(ARC)


@pytest.mark.parametrize("fault", faults.ROUNDINGS[:2])
def test_planted_fault_messages_not_rounded_toward_zero(monkeypatch, fault):
    monkeypatch.setattr(loops(), "quantize", fault)
    with pytest.raises(AssertionError, match="a message is longer than 1"):
        assert_noise_is_there(ARC)


def test_hops_that_skip_normalization_are_refused(monkeypatch):
    """The message clip itself is guarded: a hop that is fed raw sums raises."""
    monkeypatch.setattr(engine, "normalize_rows", lambda rows: (rows / INT16_ONE).astype(np.float32))
    with pytest.raises(InputError, match="norm at most 1"):
        assert_noise_is_there(ARC)
