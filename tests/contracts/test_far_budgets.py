"""At the ends of what a budget may be, calibration refuses, or the verifier confirms what it claims."""

import pytest

import sfumato as sf
from sfumato.catalog import method_named
from sfumato.errors import InputError, SfumatoError
from sfumato.graph.facts import PublicFacts
from sfumato.verify.epsilon import epsilon_bracket

EDGE, NODE = sf.EdgeLevel(directed=False), sf.NodeLevel(max_out_degree=5)
CLOSED = ("auto", "label-messages", "link-messages", "lpgnet", "edgerand", "gap")
"""Methods whose epsilon follows in closed form at edge level."""
FAR = [
    (1e-6, 1e-9),
    (80.0, 1e-9),
    (712.0, 1e-9),
    (745.0, 1e-9),
    (1e4, 1e-9),
    (1e4, 1e-3),
    (1e-6, 0.0),
    (1e4, 0.0),
    (50.0, 1e-40),
]


def facts(unit):
    known = {"num_nodes": 60, "num_train": 45, "num_features": 4, "num_classes": 3, "directed": False}
    found = sf.graph.Graph.from_edges([0], [1], 60, directed=False).public_facts(unit)
    return PublicFacts(**{**vars(found), **known})


def confirmed(plan):
    """What the verifier says of the events and the claim of a plan."""
    events = [release.to_dict()["event"] for release in plan.releases]
    low, high = epsilon_bracket(events, plan.delta - plan.delta_sampler if plan.delta else 0.0)
    return low <= plan.epsilon * (1 + 1e-12) and high <= 1.001 * plan.epsilon


@pytest.mark.parametrize("budget", FAR)
@pytest.mark.parametrize("name", CLOSED)
def test_a_claim_is_confirmed_or_never_made(name, budget):
    try:
        plan = method_named(name).calibrate(sf.Budget(*budget), EDGE, facts(EDGE))
    except SfumatoError:
        assert budget[0] < 1e-3 or budget[0] > 60 or not budget[1] or budget[1] < 1e-20, "an ordinary budget"
        return
    assert plan.epsilon <= budget[0]
    assert confirmed(plan)


@pytest.mark.parametrize("epsilon", [80.0, 1e4])
@pytest.mark.parametrize("name", ["gap", "linear", "auto"])
def test_the_sampler_of_gaussian_noise_ends_below_an_epsilon_of_80(name, epsilon):
    """Its distance from the true law counts e^epsilon times: pure releases have no such end."""
    with pytest.raises(InputError, match="epsilon"):
        method_named(name).calibrate(sf.Budget(epsilon, 1e-9), NODE, facts(NODE))


def test_pure_releases_never_cost_more_than_their_sum_however_large_it_is():
    for epsilon in (300.0, 745.0, 1e4, 1e300):
        for delta in (1e-3, 1e-300):
            assert epsilon_bracket([{"type": "pure", "epsilon": epsilon, "count": 1}], delta)[1] == epsilon
    mixed = [{"type": "pure", "epsilon": 745.0, "count": 1}, {"type": "gaussian", "noise_multiplier": 5.0, "count": 2}]
    assert epsilon_bracket(mixed, 1e-6)[1] == pytest.approx(746.211967)
