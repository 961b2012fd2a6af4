"""Noise at which a bound on degrees is looked for, and noise at which it is not, draw another number of times."""

import pytest

import sfumato as sf
from sfumato.central._promised import PromisedMessages
from sfumato.graph._graph import PublicFacts
from sfumato.privacy import accounting
from sfumato.privacy.calibration import effective_delta
from sfumato.record._certificate import total_draws


@pytest.mark.parametrize(("nodes", "epsilon", "delta"), [(400, 40.0, 1.6647e-10), (5000, 4.0, 1e-5), (400, 4.0, 1e-5)])
def test_delta_pays_for_the_draws_of_the_releases_that_are_made(nodes, epsilon, delta):
    unit, facts = sf.NodeLevel(arcs="incident"), PublicFacts(nodes, nodes // 2, 1, 2, directed=False)
    plan = PromisedMessages(epochs=1).calibrate(sf.Budget(epsilon, delta), unit, facts)
    left = effective_delta(delta, plan.epsilon, total_draws(plan.releases))
    assert plan.epsilon <= epsilon
    assert accounting.epsilon([release.event for release in plan.releases], left) <= plan.epsilon * (1 + 1e-9)
