"""ProGAP from end to end: in each stage, noise over the sensitivity that is measured is what is charged."""

from functools import cache, partial

import numpy as np
import pytest
import soundness_faults as faults
import torch
from soundness_hops import REMOVE, REPLACE, UNDER_CHARGED, UNITS, Trace, assert_charged, observed, silence, some_pairs
from soundness_neighbors import ARC, EDGE, NODES, WIDTH

from sfumato.bounded import aggregation
from sfumato.central import _progap as progap
from sfumato.central._progap import ProGAP
from sfumato.graph._graph import Graph, PublicFacts
from sfumato.method import hops as engine
from sfumato.method._plan import Plan
from sfumato.method.contract import Session
from sfumato.nn._progressive import StageNetwork
from sfumato.nn._stored import StoredRows
from sfumato.privacy.budget import Budget

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


def charged(unit, layerwise=False) -> int:
    """As few pairs as find every planted fault, and none in the real code."""
    plan = plan_for(unit, layerwise)
    return assert_charged(plan, some_pairs(unit, 150), partial(run_once, plan))


@BOTH
@pytest.mark.parametrize("unit", UNITS.values(), ids=UNITS)
def test_noise_over_measured_sensitivity_is_what_is_charged(unit, layerwise):
    assert charged(unit, layerwise) > 100


@pytest.mark.parametrize(
    ("unit", "name", "fault", "message"),
    [
        (EDGE, "hop_sensitivity", faults.scaled_claim(faults.ONE_ARC), UNDER_CHARGED),
        (REPLACE, "hop_sensitivity", faults.private_as_released, "aggregate/1: noise of"),
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
        charged(unit)


def test_a_later_message_that_reads_the_record_again_is_caught(monkeypatch):
    """Why the message of stage s is base s alone: with the features in it, replacing a record moves it by 2 sqrt D."""
    original = progap.Cache.messages

    def reread(self, network):
        original(self, network)
        return aggregation.normalize_rows(self.features.rows(None).dense().numpy())

    monkeypatch.setattr(progap.Cache, "messages", reread)
    with pytest.raises(AssertionError, match="aggregate/2: noise of"):
        charged(REPLACE)
