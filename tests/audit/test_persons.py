"""A whole person as the canary: all edges that one person owns, at the same node and with the same label, or none."""

import numpy as np
import pytest

import sfumato as sf
from sfumato.audit._thresholds import Explicit, audit_runs
from sfumato.graph._graph import Graph
from sfumato.loops.kernels import INT16_ONE
from sfumato.method.contract import Session
from sfumato.noise.keys import new_key
from sfumato.record.ledger import Ledger

MOST, RUNS, EPSILON = 4, 1500, 2.0
PERSON, EDGE = sf.PersonLevel(MOST, directed=False), sf.EdgeLevel(directed=False)


def world(present, bound):
    """Ten nodes; if the person is in, it links node 0, whose label is not known, with four nodes that send the same label."""
    y, roles = np.array([0] * 6 + [1] * 4), np.array([2, 0, 0, 0, 0, 1, 0, 0, 0, 1], np.uint8)
    rows = np.array([[node, 0] for node in range(1, 5)] * present, np.int64).reshape(-1, 2)
    how = {"person": np.zeros(len(rows)), "edges_per_person": MOST} if bound else {}
    x = np.eye(10, dtype=np.float32)
    return Graph.from_edges(*rows.T, 10, directed=False, x=x, y=y, roles=roles, **how)


def found(method, unit, name, delta):
    """What the release of one row says in each of the two worlds, run by run, in messages."""
    worlds = [world(present, unit is PERSON) for present in (True, False)]
    plan = method.calibrate(sf.Budget(EPSILON, delta), unit, worlds[0].public_facts(unit))
    for one in worlds:
        scores = []
        for number in range(RUNS):
            session = Session(Ledger(plan.entry.to_dict(), plan.releases), new_key(), number % 7)
            scores.append(float(plan.method.run(plan, one, session).released[name][0, 0]) / INT16_ONE)
        yield scores


def bound_of(unit):
    scores = found(sf.LabelMessages(num_hops=1, epochs=1), unit, "aggregate/1", 0.0)
    return audit_runs(
        *scores,
        name="one person",
        knowledge="both graphs and the counts",
        delta=0.0,
        confidence=0.999,
        policy=Explicit(MOST),
    ).epsilon_lower_bound


@pytest.mark.audit
def test_a_person_shows_at_most_what_is_claimed_and_most_of_it():
    assert 0.75 * EPSILON < bound_of(PERSON) <= EPSILON


@pytest.mark.audit
def test_noise_for_single_edges_is_caught_on_a_whole_person():
    assert bound_of(EDGE) > EPSILON
