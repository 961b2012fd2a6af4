"""ProGAP from end to end: in each stage, noise over the sensitivity that is measured is what is charged."""

from functools import cache

import numpy as np
import pytest
import soundness_faults as faults
import torch
from soundness_hops import Trace, observed, silence, some_pairs
from soundness_neighbors import ARC, EDGE, KEY, NODES, WIDTH, messages, node_unit

from sfumato.bounded import aggregation
from sfumato.bounded.kernels import INT16_ONE
from sfumato.central import _progap as progap
from sfumato.central._progap import ProGAP
from sfumato.graph._graph import Graph, PublicFacts
from sfumato.method import hops as engine
from sfumato.method._plan import Plan
from sfumato.method.contract import Session
from sfumato.nn._progressive import StageNetwork
from sfumato.nn._stored import StoredRows
from sfumato.noise.keys import derive_key
from sfumato.privacy.budget import Budget

CAP, FEW = 2, 150
UNITS = {"arc": ARC, "edge": EDGE, "node, remove": node_unit("remove", CAP), "node, replace": node_unit("replace", CAP)}
BOTH = pytest.mark.parametrize("layerwise", [False, True], ids=["progressive", "layerwise"])


@cache
def plan_for(unit, layerwise: bool) -> Plan:
    """Two aggregations, of messages as wide as the features."""
    public = PublicFacts(NODES, NODES, WIDTH, 2, directed=unit is not EDGE)
    method = ProGAP(depth=2, width=WIDTH, epochs=1, batch_size=NODES, layerwise=layerwise)
    return method.calibrate(Budget(2.0, 1e-5), unit, public)


def passed_on(self, *inputs):
    """What the newest base reads."""
    newest = inputs[len(self.base) - 1]
    return newest.dense() if isinstance(newest, StoredRows) else newest


def run_once(plan, adjacency, rows, earlier, key):
    """ProGAP's own run with bases that pass on what they read, of all functions the one that moves most.

    ``earlier`` takes the place of what the first aggregate released: adaptive composition compares neighbors with equal
    earlier releases, so weights (no training) and cached aggregates are equal too.
    """
    indptr = np.r_[0, np.cumsum(adjacency.sum(1))]
    graph = Graph.from_csr(
        indptr, adjacency.nonzero()[1], directed=plan.unit is not EDGE, self_loops="keep", x=rows.astype(np.float32)
    )
    trace = Trace()
    with observed(trace, silence), pytest.MonkeyPatch.context() as patch:
        patch.setattr(progap, "train", lambda settings, plan, session, stage, *rest: None)
        patch.setattr(StageNetwork, "embed", passed_on)
        patch.setattr(progap.Cache, "add", lambda self, released: self.aggregates.append(torch.from_numpy(earlier)))
        released = plan.method.run(plan, graph, Session(trace, key, 0)).released
    return [released["aggregate/1"], released["aggregate/2"]], trace


def assert_charged_for_what_is_added(unit, layerwise=False, limit=300) -> int:
    """For each aggregate: drawn standard deviation / measured sensitivity = the event's multiplier, within 1 %."""
    plan, pairs, shift = plan_for(unit, layerwise), some_pairs(unit, limit), np.random.default_rng(1)
    worst, stddevs, heard = np.zeros(2), [set(), set()], set()
    for i, record in enumerate(pairs.record.tolist()):
        earlier = messages(shift)[i % 6].astype(np.float32)
        (left, one), (right, two) = (
            run_once(plan, side.adjacency[i], side.rows[i], earlier, derive_key(KEY, i))
            for side in (pairs.left, pairs.right)
        )
        moved = [np.linalg.norm(a - b) / INT16_ONE for a, b in zip(left, right, strict=True)]
        worst, heard = np.maximum(worst, moved), heard | ({record} if any(moved) else set())
        for trace in (one, two):
            assert trace.charged == ["aggregate/1", "aggregate/2"], f"charged {trace.charged}"
            for hop, draws in enumerate(trace.draws):
                stddevs[hop] |= {stddev for _, stddev, *_ in draws} or {0.0}
    for name, sensitivity, seen in zip(("aggregate/1", "aggregate/2"), worst, stddevs, strict=True):
        assert len(seen) == 1, f"{name}: the noise depends on the data"
        ratio, charged = seen.pop() / INT16_ONE / sensitivity, plan.event(name).noise_multiplier
        assert ratio >= charged * (1 - 1e-9), f"{name}: noise of {ratio:.4g} sensitivities, charged {charged:.4g}"
        assert ratio <= charged * 1.01, f"{name}: more noise than charged"
    assert heard == set(pairs.record.tolist()), "records are dropped"
    return pairs.distinct


@BOTH
@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_noise_over_measured_sensitivity_is_what_is_charged(unit, layerwise):
    assert assert_charged_for_what_is_added(unit, layerwise, FEW if layerwise else 300) > 100


@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_few_pairs_find_no_fault_in_the_real_code(unit):
    """The planted faults fail the very check that passes here."""
    assert_charged_for_what_is_added(unit, limit=FEW)


def private_as_released(unit, *, released_messages):
    """A claim that forgets that the first message reads the record."""
    return aggregation.hop_sensitivity(unit, released_messages=True)


UNDER_CHARGED, REMOVE, REPLACE = "sensitivities, charged", UNITS["node, remove"], UNITS["node, replace"]


@pytest.mark.parametrize(
    ("unit", "name", "fault", "message"),
    [
        (EDGE, "hop_sensitivity", faults.scaled_claim(faults.ONE_ARC), UNDER_CHARGED),
        (REPLACE, "hop_sensitivity", private_as_released, "aggregate/1: noise of"),
        *((unit, "noisy_neighborhood_sum", faults.scaled_noise(0.98), UNDER_CHARGED) for unit in UNITS.values()),
        (ARC, "noisy_neighborhood_sum", faults.scaled_noise(1.02), "more noise"),
        *((unit, "noisy_neighborhood_sum", faults.second_hop_bare(), "aggregate/2: noise of 0") for unit in UNITS.values()),
        *((REMOVE, "cap_out_degree", cap, UNDER_CHARGED) for cap in (*faults.UNSTABLE_CAPS, faults.no_cap)),
        (REMOVE, "by_destination", faults.last_source_dropped(NODES), "records are dropped"),
    ],
)  # fmt: skip
def test_planted_faults_are_caught(monkeypatch, unit, name, fault, message):
    monkeypatch.setattr(*faults.planted(engine, name, fault))
    with pytest.raises(AssertionError, match=message):
        assert_charged_for_what_is_added(unit, limit=FEW)


def test_a_later_message_that_reads_the_record_again_is_caught(monkeypatch):
    """Why the message of stage s is base s alone: with the features in it, replacing a record moves it by 2 sqrt D."""
    original = progap.Cache.messages

    def reread(self, network):
        original(self, network)
        return aggregation.normalize_rows(self.features.rows(None).dense().numpy())

    monkeypatch.setattr(progap.Cache, "messages", reread)
    with pytest.raises(AssertionError, match="aggregate/2: noise of"):
        assert_charged_for_what_is_added(REPLACE, limit=FEW)
