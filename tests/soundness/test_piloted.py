"""Piloted messages from end to end: what a fit hands to the noise for neighboring data sets, earlier releases held equal."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from soundness_neighbors import KEY, NODES
from test_routing import OWNED, REPLACED, build, graph_of, neighbor

from sfumato.bounded._grouping import group_sensitivity, noisy_group_sums
from sfumato.bounded._routing import routed_sensitivity
from sfumato.bounded.aggregation import neighborhood_sum, to_steps
from sfumato.central import _heads as heads
from sfumato.central import _learning as learning
from sfumato.central import _linear as linear
from sfumato.central import _piloted as piloted
from sfumato.central import _shares as shares
from sfumato.central import _weighing as weighing
from sfumato.central._linear import Linear
from sfumato.central._piloted import PilotedMessages
from sfumato.central._rows import normalized
from sfumato.errors import InputError
from sfumato.loops.kernels import INT16_ONE
from sfumato.privacy.budget import Budget
from sfumato.privacy.units import NodeLevel

UNITS = [OWNED, replace(OWNED, max_out_degree=2), replace(REPLACED, max_out_degree=3)]


class Seen:
    """What reaches each mechanism of a fit, in order. Every release is answered by the same fixed numbers."""

    def __init__(self, fixed, pays):
        self.hops, self.groups, self.rows, self.stddevs, self.events = [], [], [], [], []
        self.fixed, self.pays = fixed, pays

    def hop(self, arcs, rows, stddev, key):
        self.hops.append(neighborhood_sum(arcs, to_steps(rows)))
        self.stddevs.append(stddev)
        return self.fixed[len(self.hops) - 1].copy()

    def group(self, rows, groups, num_groups, stddev, key, owners=None):
        self.groups.append(noisy_group_sums(rows, groups, num_groups, 0.0, key, owners))
        self.stddevs.append(stddev)
        return self.fixed[len(self.groups) % 4, :1, :1] * np.ones_like(self.groups[-1])

    def train_charged(self, settings, event, key, head, graph, rows, progress, **how):
        self.events.append(event)
        self.rows.append(rows(np.arange(NODES)))
        if progress is not None:
            progress(1, 3)
        with torch.no_grad():
            head.weight.copy_(torch.from_numpy(self.fixed[0, : head.weight.shape[0], :1] / INT16_ONE))
        return b"\0" * 32


def handed_over(monkeypatch, plan, graph, fixed, pays):
    seen = Seen(fixed, pays)
    monkeypatch.setattr(shares, "noisy_neighborhood_sum", seen.hop)
    for home in (linear, piloted, weighing):
        monkeypatch.setattr(home, "noisy_group_sums", seen.group)
    for home in (learning, heads):
        monkeypatch.setattr(home, "train_charged", seen.train_charged)
    monkeypatch.setattr(piloted, "messages_pay", lambda *told: seen.pays)
    monkeypatch.setattr("sfumato.method._opening.new_key", lambda: KEY)
    plan.fit(graph, seed=5)
    return seen


def check(monkeypatch, unit, pays, draws=60):
    """Sums differ by at most what is charged, and no other node's example reads the record."""
    rng, worst = np.random.default_rng(0), {"hop": 0.0, "group": 0.0}
    fixed, plan = rng.integers(-INT16_ONE, INT16_ONE, (4, NODES, 3)), None
    for _ in range(draws):
        data = (*graph_of(rng, True)[:3], np.array([0, 0, 0, 1, 2], np.uint8))
        other = neighbor(rng, unit, *data)
        left, right = (build(*side, True) for side in (data, other))
        changed = (data[0] != other[0]).any(1) | (data[1] != other[1]).any(1) | (data[2] != other[2])
        plan = plan or PilotedMessages(epochs=1).calibrate(Budget(1.0, 1e-5), unit, left.public_facts(unit))
        a, b = (handed_over(monkeypatch, plan, graph, fixed, pays) for graph in (left, right))
        assert a.stddevs == b.stddevs
        charged = [plan.event(name).noise_multiplier for name in ("center", "aggregate/1", "test")]
        bounds = [group_sensitivity(unit), routed_sensitivity(unit), group_sensitivity(unit)]
        assert a.stddevs[:3] == pytest.approx([z * bound for z, bound in zip(charged, bounds, strict=True)], rel=1e-12)
        assert a.events[0] == plan.event("head")
        assert (len(a.hops), len(a.groups), len(a.rows)) == (1 + pays, 2 + weighing.STEPS, 2 - pays)
        for what, bound in (("hop", routed_sensitivity(unit)), ("group", group_sensitivity(unit))):
            for one, two in zip(getattr(a, what + "s"), getattr(b, what + "s"), strict=True):
                apart = np.linalg.norm(one - two) / INT16_ONE
                assert apart <= bound * (1 + 1e-12), f"{what}: {apart} is above {bound}"
                worst[what] = max(worst[what], apart / bound)
        for one, two in zip(a.rows, b.rows, strict=True):
            kept = ~changed
            assert np.array_equal(one.matrix.numpy()[kept], two.matrix.numpy()[kept]), (
                "another record changes this example"
            )
    return worst


@pytest.mark.parametrize("pays", [False, True])
@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_sums_stay_within_what_is_charged(monkeypatch, unit, pays):
    worst = check(monkeypatch, unit, pays)
    assert worst["group"] > (0.98 if unit.relation == "remove" else 0.5)
    assert worst["hop"] > (0.99 if unit.relation == "remove" else 0.7)


def test_planted_fault_a_test_of_three_full_numbers(monkeypatch):
    """Each number alone has sensitivity 1; the row of all has not."""
    monkeypatch.setattr(piloted, "_weights", lambda classes: np.ones(3 + classes) * 0.9)
    with pytest.raises((AssertionError, InputError), match=r"is above|norm at most 1"):
        check(monkeypatch, OWNED, False)


@pytest.mark.parametrize("fault", ["the longest row decides", "clipped a tenth too late", "a missing label counts"])
def test_planted_fault_in_the_last_stage(monkeypatch, fault):
    """Rows that are scaled by other nodes' rows, that are a little too long, or that are there for an empty record."""
    real = weighing.gradient_rows

    def rows(seen, y, numbers):
        found = real(seen, np.maximum(y, 0) if fault == "a missing label counts" else y, numbers)
        lengths = np.linalg.norm(found, axis=1)
        if fault == "the longest row decides":
            return (found / max(lengths.max(), 1e-9)).astype(np.float32) * (1 - 2**-20)
        return (1.1 * found / np.maximum(lengths, 1e-9)[:, None]).astype(np.float32) if "late" in fault else found

    monkeypatch.setattr(weighing, "gradient_rows", rows)
    with pytest.raises((AssertionError, InputError), match=r"is above|norm at most 1"):
        check(monkeypatch, OWNED, True, draws=200)


def test_planted_fault_a_center_of_all_nodes_that_is_not_released(monkeypatch):
    def raw(plan, graph, session):
        session.charge("center")
        return {"center": normalized(graph).mean(0)}

    monkeypatch.setattr(piloted, "find_center", raw)
    with pytest.raises((AssertionError, ValueError)):
        check(monkeypatch, OWNED, False)


def check_linear(monkeypatch, unit, draws=60):
    """Center and scale of the linear model differ by at most what is charged."""
    rng, worst = np.random.default_rng(0), 0.0
    fixed = rng.integers(-INT16_ONE, INT16_ONE, (4, NODES, 3))

    def trained(settings, plan, session, stage, head, graph, rows, **how):
        session.charge(stage)
        with torch.no_grad():
            head.weight.copy_(torch.from_numpy(fixed[0, : head.weight.shape[0], :1] / INT16_ONE))

    monkeypatch.setattr(linear, "train", trained)
    monkeypatch.setattr("sfumato.method._opening.new_key", lambda: KEY)
    for _ in range(draws):
        data = (*graph_of(rng, True)[:3], np.array([0, 0, 0, 1, 1], np.uint8))
        seen = []
        for side in (data, neighbor(rng, unit, *data)):
            graph, found = build(*side, True), Seen(fixed, False)
            plan = Linear(epochs=1).calibrate(Budget(1.0, 1e-5), unit, graph.public_facts(unit))
            for home in (linear, weighing):
                monkeypatch.setattr(home, "noisy_group_sums", found.group)
            plan.fit(graph, seed=5)
            seen.append(found.groups)
            noise = [plan.event(name).noise_multiplier * group_sensitivity(unit) for name in ("center", "scale")]
            assert found.stddevs == pytest.approx([noise[0], *[noise[1] * weighing.STEPS**0.5] * weighing.STEPS])
        for one, two in zip(*seen, strict=True):
            apart = np.linalg.norm(one - two) / INT16_ONE
            assert apart <= group_sensitivity(unit), f"{apart} is above {group_sensitivity(unit)}"
        worst = max(worst, *(np.linalg.norm(one - two) / INT16_ONE for one, two in list(zip(*seen, strict=True))[1:]))
    return worst


@pytest.mark.parametrize("unit", [OWNED, REPLACED], ids=str)
def test_the_scale_of_the_linear_model_stays_within_what_is_charged(monkeypatch, unit):
    assert check_linear(monkeypatch, unit) > 0.2


def test_planted_fault_a_scale_of_rows_that_are_not_clipped(monkeypatch):
    real = weighing.gradient_rows
    monkeypatch.setattr(weighing, "gradient_rows", lambda *told: 3 * real(*told))
    with pytest.raises((AssertionError, InputError), match=r"is above|norm at most 1"):
        check_linear(monkeypatch, OWNED)


@pytest.mark.parametrize("pays", [False, True])
@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_both_choices_cost_what_the_rest_is_charged(monkeypatch, unit, pays):
    """The sum of 1 / z^2 over what is drawn in the rest, each at its own sensitivity, is that of the charged event."""
    rng, drawn = np.random.default_rng(1), []
    graph = build(*graph_of(rng, True), True)
    plan = PilotedMessages(epochs=7).calibrate(Budget(1.0, 1e-5), unit, graph.public_facts(unit))
    apart = 2 if unit.relation == "replace" else 1
    real = piloted.sum_hop

    def hop(routed, stddev, key):
        drawn.append((routed_sensitivity(unit) / stddev) ** 2)
        return real(routed, stddev, key)

    def steps(settings, event, key, head, graph, rows, progress, **how):
        assert event.sampling_prob == 1
        drawn.append(event.steps * (apart / event.noise_multiplier) ** 2)
        if progress is not None:
            progress(1, 3)
        return b"\0" * 32

    summed = weighing.noisy_group_sums

    def last(rows, groups, number, stddev, key, owners=None):
        drawn.append((group_sensitivity(unit) / stddev) ** 2)
        return summed(rows, groups, number, stddev, key, owners)

    monkeypatch.setattr(weighing, "noisy_group_sums", last)
    monkeypatch.setattr(piloted, "sum_hop", hop)
    monkeypatch.setattr(shares, "sum_hop", hop)
    for home in (learning, heads):
        monkeypatch.setattr(home, "train_charged", steps)
    monkeypatch.setattr(piloted, "messages_pay", lambda *told: pays)
    plan.fit(graph, seed=5)
    pilot, rest = (plan.event(f"aggregate/{k}").noise_multiplier for k in (1, 2))
    assert drawn.pop(1) == pytest.approx(1 / pilot**2, rel=1e-9)
    assert len(drawn) == 2 + weighing.STEPS
    assert drawn[1] == pytest.approx(1 / rest**2, rel=1e-9)
    assert sum(drawn[2:]) == pytest.approx(1 / plan.event("last").noise_multiplier ** 2, rel=1e-9)


@pytest.mark.parametrize("unit", [OWNED, REPLACED], ids=str)
def test_a_budget_too_small_for_the_last_steps_is_refused_before_data(unit):
    """Less noise than was charged would be the only other way out; epochs of many steps are held to it too."""
    facts = build(*graph_of(np.random.default_rng(0), True), True).public_facts(unit)
    with pytest.raises(InputError, match="noise multiplier of at most"):
        PilotedMessages().calibrate(Budget(0.02, 1e-6), unit, facts)
    with pytest.raises(InputError, match="noise multiplier of at most"):
        PilotedMessages(epochs=10**7).calibrate(Budget(1.0, 1e-6), unit, facts)
    assert PilotedMessages().calibrate(Budget(1.0, 1e-6), unit, facts).epsilon <= 1


def test_group_sums_on_every_neighbor_of_small_tables():
    rng = np.random.default_rng(0)
    for relation, claim in (("remove", 1.0), ("replace", 2.0)):
        worst = 0.0
        for _ in range(300):
            rows = rng.normal(size=(4, 2))
            rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), rng.choice([1e-9, 1.0]))
            groups = rng.integers(0, 3, 4)
            other, place = rows.copy(), groups.copy()
            other[0] = 0 if relation == "remove" else -rows[0]
            place[0] = rng.integers(0, 3)
            one, two = (
                noisy_group_sums(r.astype(np.float32), g, 3, 0.0, KEY) for r, g in ((rows, groups), (other, place))
            )
            apart = np.linalg.norm(one - two) / INT16_ONE
            assert apart <= claim
            worst = max(worst, apart)
        assert worst > 0.99 * claim
        assert group_sensitivity(NodeLevel(relation=relation)) == claim


def test_group_sums_refuse_what_has_no_proof():
    with pytest.raises(InputError, match="norm at most 1"):
        noisy_group_sums(np.array([[1.1]], np.float32), np.array([0]), 1, 1.0, KEY)
    with pytest.raises(InputError, match="one of 2 groups"):
        noisy_group_sums(np.array([[1.0]], np.float32), np.array([2]), 2, 1.0, KEY)
