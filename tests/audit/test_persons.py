"""A whole person as the canary: all edges that one person owns, at the same node and with the same label, or all nodes."""

import numpy as np
import pytest

import sfumato as sf
from sfumato.audit._auditor import audit
from sfumato.audit._gaussian import epsilon_of_mu
from sfumato.audit._thresholds import Explicit, audit_runs
from sfumato.audit._transcripts import worst
from sfumato.catalog import method_named
from sfumato.central import _learning, _linear
from sfumato.cli._audit import _unit
from sfumato.errors import InputError
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


ACCOUNTS = sf.PersonNodesLevel(4)


@pytest.mark.parametrize(("word", "least"), [("mlp", 0.99), ("linear", 0.93)])
def test_exact_sums_of_a_person_of_four_nodes_are_as_far_apart_as_is_claimed(word, least):
    method = method_named(word)
    plan, worlds, moves, apart = worst(method, ACCOUNTS, sf.Budget(1.0, 1e-6), 0)
    assert [int((one.y >= 0).sum()) for one in worlds] == [5, 1]  # all nodes of the person, and one of the others
    assert least * plan.epsilon < epsilon_of_mu(apart, plan.delta) <= plan.epsilon * 1.0001
    assert {place[0] for place in moves} == {release.name for release in plan.releases} - {"scale"}


@pytest.mark.parametrize("word", ["mlp", "linear"])
def test_sums_that_count_every_node_of_a_person_are_farther_apart(word, monkeypatch):
    monkeypatch.setattr(_learning, "owners_of", lambda *_: None)
    monkeypatch.setattr(_linear, "owners_of", lambda *_: None)
    plan, _, _, apart = worst(method_named(word), ACCOUNTS, sf.Budget(1.0, 1e-6), 0)
    assert epsilon_of_mu(apart, plan.delta) > 2 * plan.epsilon


@pytest.mark.audit
@pytest.mark.parametrize("word", ["mlp", "linear"])
def test_audits_of_persons_of_many_nodes_certify_most_of_the_claim(word):
    found = audit(method_named(word), ACCOUNTS, sf.Budget(1.0, 1e-6), attacks=["transcripts", "sampled"], size=0.25)
    print(word, [(one.name, one.epsilon_lower_bound) for one in found.evidence])
    assert not found.flagged
    assert 0.75 < found.epsilon_lower_bound <= 1.0


@pytest.mark.parametrize("word", ["mlp", "linear"])
def test_audits_of_persons_of_many_nodes_try_all_attacks_of_records(word):
    found = audit(method_named(word), ACCOUNTS, sf.Budget(1.0, 1e-6), size=0.01, fits=2)
    assert not found.flagged
    assert {"one record, all noisy sums"} <= {one.name for one in found.evidence}


def test_audits_say_why_they_plant_no_person_of_edges():
    with pytest.raises(InputError, match="plant single edges"):
        audit(sf.LabelMessages(), PERSON, sf.Budget(1.0, 0.0))
    with pytest.raises(InputError, match="--unit edge"):
        _unit("person", None, None)
    assert _unit("person-nodes", None, None) == sf.PersonNodesLevel(3, 10)
