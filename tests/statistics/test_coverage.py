"""Intervals hold what they promise: laws by closed forms, and answers over noise that is drawn again with a fixed seed."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest

import sfumato as sf
from sfumato.method.contract import Arrays
from sfumato.statistics._answers import describe
from sfumato.statistics._counts import Counted
from sfumato.statistics._laws import Law, share_interval, sum_bound
from sfumato.statistics._statistics import Statistics

GRAPH, UNIT = sf.graph.campus(400, seed=2), sf.EdgeLevel(directed=False)


def noise(random, scale, shape):
    share = -np.expm1(-1 / scale)
    return random.geometric(share, shape) - random.geometric(share, shape)


@pytest.mark.parametrize("scale", [0.1, 0.7, 2.0, 18.0, 3999.0, 1e6, 1e12])
@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.999])
def test_an_interval_of_one_noise_has_the_chance_that_it_states(scale, confidence):
    low, high, stated = Law.of([scale]).interval(confidence)
    beyond = [np.exp(-(end + 1) / scale) / (1 + np.exp(-1 / scale)) for end in (high, -low)]
    assert 1 - sum(beyond) == pytest.approx(stated, abs=1e-9 if scale < 4000 else 5e-4)
    assert stated >= confidence


@pytest.mark.parametrize("scales", [(2.0, 3.0), (4.25, 4.25), (1e6, 3e5), (1e6, 1.0)])
def test_an_interval_of_a_sum_has_the_chance_that_it_states(scales):
    random, (low, high, stated) = np.random.default_rng(1), Law.of(scales).interval(0.95)
    sums = sum(noise(random, scale, 200_000) for scale in scales)
    assert ((sums >= low) & (sums <= high)).mean() == pytest.approx(stated, abs=0.002)


@pytest.mark.parametrize(("scale", "count"), [(0.3, 1), (2.0, 1), (2.0, 30), (50.0, 1000)])
def test_bounds_of_sums_hold_and_are_not_far(scale, count):
    sums = noise(np.random.default_rng(2), scale, (4000, count)).sum(axis=1)
    bound = sum_bound(scale, count, 0.025)
    assert (sums > bound).mean() <= 0.025
    assert (sums > bound / 2).mean() > 0.025
    assert sum_bound(0.0, count, 0.025) == 0


def test_ratios_are_covered():
    random = np.random.default_rng(3)
    above, below = 3000 + noise(random, 90.0, 1000), 10_000 + noise(random, 300.0, 1000)
    held = [
        low <= 0.3 <= high
        for low, high in (share_interval(a, b, 90.0, 300.0, 0.95) for a, b in zip(above, below, strict=True))
    ]
    assert 0.935 <= np.mean(held) <= 0.965
    assert share_interval(5.0, 1.0, 3.0, 9.0, 0.95) == (0.0, np.inf)


def draws(stats, count, unit=UNIT, graph=GRAPH, epsilon=1.0):
    """The exact run, and runs of which all noise is drawn again."""
    public, method = graph.public_facts(unit, assume_public=True), Statistics(stats)
    none = sf.NoPrivacy()
    exact = method.calibrate(None, none, graph.public_facts(none)).fit(graph)
    delta = 1e-6 if unit is UNIT and "triangles" in stats else 0.0
    run, random = method.calibrate(sf.Budget(epsilon, delta), unit, public).fit(graph), np.random.default_rng(4)
    runs = []
    for _ in range(count):
        released = Arrays()
        for name, array in run.released.items():
            counts = Counted(graph).tops() if name == "bounds" else exact.released[name]
            released[name] = counts + noise(random, float(run.plan.method.scale(run.plan, name, released)), array.shape)
        runs.append(replace(run, released=released))
    return exact, runs


def held(exact, runs):
    """How often each answer holds the exact number, by its words, with what it states."""
    truth, found = {one.what: one.value for one in describe(exact).answers}, defaultdict(list)
    for run in runs:
        for one in describe(run).answers:
            assert one.low <= one.value <= one.high
            if one.what in truth:
                found[one.what, one.statistic].append((one.low <= truth[one.what] <= one.high, one.coverage))
    return {key: np.mean(rows, axis=0) for key, rows in found.items()}


def test_answers_hold_the_exact_numbers():
    exact, runs = draws("edges,degrees,triangles,wedges,stars", 150)
    rates = held(exact, runs)
    assert len(rates) > 20
    for key, (rate, stated) in rates.items():
        assert rate > stated - 4 * np.sqrt(0.05 * 0.95 / 150), key
    assert np.mean([rate for rate, _ in rates.values()]) > 0.94


def test_shares_of_pairs_of_groups_hold_and_stay_in_range():
    exact, runs = draws("mixing", 60)
    for (what, _), (rate, _) in held(exact, runs).items():
        assert rate >= 0.85, what
    for one in [one for run in draws("mixing", 3, epsilon=0.01)[1] for one in describe(run).answers if not one.count]:
        assert -1 <= one.low <= one.high <= 1


def test_bounds_on_degrees_bound_answers():
    graph, unit = GRAPH.changed(max_degree=390), sf.NodeLevel(arcs="incident")
    for run in draws("degrees", 3, unit, graph)[1]:
        assert all(one.high <= 390 for one in describe(run).answers if "quantile" in one.what)


def test_nodes_of_largest_degree_hold_together():
    degrees = Counted(GRAPH).node_degrees()[0]
    missed = 0
    for run in draws("node-degrees", 60)[1]:
        found = describe(run).answers
        assert len(found) == 10
        ends = [(degrees[int(one.what.split()[3].strip(","))], one) for one in found]
        missed += any(not one.low <= degree <= one.high for degree, one in ends)
    assert missed <= 8


def test_groups_that_noise_hides_have_the_whole_range():
    y = np.where(np.arange(400) < 2, 6, GRAPH.y)  # two nodes of a class of their own
    graph = GRAPH.changed(y=y, classes=(*GRAPH.classes, "few"))
    exact, runs = draws("mixing", 20, graph=graph, epsilon=0.1)
    rates = held(exact, runs)
    assert rates["conductance of few", "mixing"].tolist() == [1, 1]
    assert min(rate for rate, _ in rates.values()) >= 0.8
