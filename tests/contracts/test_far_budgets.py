"""At the ends of what a budget may be, calibration refuses, or the verifier confirms what it claims."""

from dataclasses import replace

import pytest

import sfumato as sf
from sfumato.catalog import method_named
from sfumato.errors import InputError, SfumatoError
from sfumato.graph._facts import PublicFacts
from sfumato.privacy import accounting
from sfumato.privacy.events import GaussianEvent, LaplaceEvent, event_from_dict
from sfumato.verify._epsilon import epsilon_bracket

EDGE, NODE = sf.EdgeLevel(directed=False), sf.NodeLevel(max_out_degree=5)
CLOSED = ("auto", "label-messages", "link-messages", "lpgnet", "edgerand", "gap")
"""Methods whose epsilon follows in closed form at edge level."""
FAR = [(1e-6, 1e-9), (80.0, 1e-9), (712.0, 1e-9), (745.0, 1e-9), (1e4, 1e-9), (1e4, 1e-3), (1e-6, 0.0), (1e4, 0.0)]
TINY = (50.0, 1e-40)
"""Takes seconds where releases are pure, however many methods release them."""


def facts(unit):
    known = {"num_nodes": 60, "num_train": 45, "num_features": 4, "num_classes": 3, "directed": False}
    found = sf.graph.Graph.from_edges([0], [1], 60, directed=False).public_facts(unit)
    return PublicFacts(**{**vars(found), **known})


def confirmed(plan):
    """What the verifier says of the events and the claim of a plan."""
    events = [release.to_dict()["event"] for release in plan.releases]
    return agreed(events, plan.epsilon, plan.delta - plan.delta_sampler if plan.delta else 0.0)


def agreed(events, claim, delta):
    low, high = epsilon_bracket(events, delta)
    return low <= claim * (1 + 1e-12) and high <= 1.001 * claim


@pytest.mark.parametrize(
    ("name", "budget"), [*((name, budget) for name in CLOSED for budget in FAR), ("edgerand", TINY), ("gap", TINY)]
)
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


REMOVED, EXCHANGED = sf.NodeLevel(max_out_degree=None), sf.NodeLevel(max_out_degree=None, relation="replace")
RARE = [
    (sf.DPGNN(batch_size=1, epochs=1, max_arcs=3, width=4), EXCHANGED, 10_000, (8.0, 1e-7)),
    (sf.DPGNN(batch_size=20, epochs=10, max_arcs=3), REMOVED, 50_000, (0.1, 1e-6)),
    (sf.DPGNN(batch_size=64, epochs=10, max_arcs=3), REMOVED, 200_000, (8.0, 1e-6)),
    (sf.DPGNN(batch_size=20, epochs=1, max_arcs=10), REMOVED, 200_000, (8.0, 1e-6)),
    (sf.GraphSplit(num_groups=1000, batch_size=1, steps=1), REMOVED, 2000, (0.03, 1e-15)),
    (sf.GraphSplit(num_groups=1000, batch_size=1, steps=1), EXCHANGED, 2000, (0.03, 1e-15)),
    (sf.MLP(epochs=1, batch_size=64), EXCHANGED, 2000, (1.0, 0.1)),
]
"""Plans where what is drawn of a record is rare, which makes large losses rare: they must not decide the accuracy."""


@pytest.mark.parametrize(("method", "unit", "nodes", "budget"), RARE)
def test_claims_of_rarely_drawn_records_are_confirmed(method, unit, nodes, budget):
    public = replace(facts(unit), num_nodes=nodes, num_train=nodes * 3 // 4)
    assert confirmed(method.calibrate(sf.Budget(*budget), unit, public))


def steps(terms, sampling_prob, noise_multiplier, count, relation):
    event = {"type": "repeated-gaussian", "occurrences": terms} if terms > 1 else {"type": "poisson-gaussian"}
    event |= {"sampling_prob": sampling_prob, "noise_multiplier": noise_multiplier, "steps": count}
    return [{**event, "relation": relation}]


@pytest.mark.parametrize(
    ("events", "delta"),
    [
        (steps(4, 1 / 7500, 3.9783, 7500, "replace"), 1e-7),
        ([*steps(32, 4e-4, 1.0775, 100, "add-remove"), {"type": "exponential", "epsilon": 6.134e-4, "count": 150_000}], 1e-15),
        ([*steps(2, 1 / 150_000, 0.43, 10, "add-remove"), {"type": "laplace", "noise_multiplier": 6e6, "count": 150_000}], 1e-9),
        (steps(1, 1e-5, 0.08, 9, "add-remove"), 5e-5),
        (steps(1, 1 / 1500, 0.0337, 1500, "replace"), 0.9),
        ([*steps(2, 1 / 586, 0.0125, 100, "replace"), {"type": "gaussian", "noise_multiplier": 71.0, "count": 37_500}], 0.9),
        ([*steps(2, 0.17, 1.5, 100, "add-remove"), {"type": "laplace", "noise_multiplier": 9.0, "count": 1500}], 0.9),
    ],
)  # fmt: skip
def test_the_accountant_of_the_library_is_confirmed_where_losses_are_rare_and_large(events, delta):
    assert agreed(events, accounting.epsilon([event_from_dict(event) for event in events], delta), delta)


@pytest.mark.parametrize("name", ["gap", "progap", "linear", "label-messages", "dpgnn", "dpar", "piloted-messages"])
@pytest.mark.parametrize("unit", [EDGE, NODE, REMOVED], ids=lambda unit: unit.describe()[:40])
def test_noise_that_no_sampler_draws_is_refused_with_the_plan(name, unit):
    """The rule reads events, so it holds for plans of any origin."""
    method = method_named(name)
    method.check_noise([GaussianEvent(1.0, 3), LaplaceEvent(2.0)], unit)
    for event in (GaussianEvent(2.0**-21), GaussianEvent(2.0**21), LaplaceEvent(2.0**-21), LaplaceEvent(2.0**21)):
        with pytest.raises(InputError, match=r"a noise multiplier (below|of at least) .* noise cannot be drawn"):
            method.check_noise([event], unit)


@pytest.mark.parametrize("name", ["gap", "progap"])
@pytest.mark.parametrize("epsilon", [1e-6, 1e-7, 1e-9])
def test_hops_whose_noise_is_too_large_are_refused_by_calibration(name, epsilon):
    with pytest.raises(InputError, match="Raise epsilon or delta: more noise cannot be drawn"):
        method_named(name).calibrate(sf.Budget(epsilon, 1e-9), EDGE, facts(EDGE))
