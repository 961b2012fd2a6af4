"""Statistical promises: honest noise keeps them where chance makes zeros and equal releases likely, a near miss does not."""

from types import SimpleNamespace

import numpy as np
import pytest

import sfumato as sf
from sfumato.audit._auditor import _Audited, audit
from sfumato.audit._promises import _audience, _bare, _log_chance_of_same, _repeated
from sfumato.audit._thresholds import Bonferroni, audit_runs
from sfumato.catalog import method_named
from sfumato.noise._laplace import rounded_laplace

EDGE = sf.EdgeLevel(directed=False)


def laplace(number, scale, size=20_000):
    return rounded_laplace(number.to_bytes(32, "big"), scale, 0, size)


class TestNoise:
    @pytest.mark.parametrize("scale", [3.0, 30.0, 3000.0])
    def test_zeros_of_honest_noise_are_not_reported_and_twice_as_many_are(self, scale):
        likely = np.tanh(0.5 / scale)
        for number in range(20):
            assert not list(_bare("sums", laplace(number, scale), likely))
        noise = laplace(0, scale)
        noise[: int(20 + 2 * likely * len(noise))] = 0
        assert list(_bare("sums", noise, likely))

    @pytest.mark.parametrize("scale", [100.0, 3000.0])
    def test_honest_noise_does_not_repeat_and_one_row_that_does_is_seen(self, scale):
        likely = np.tanh(0.5 / scale)
        fits = [{"sums": (laplace(number, scale).reshape(-1, 8), likely)} for number in range(3)]
        assert not list(_repeated(fits))
        fits[2]["sums"][0][700] = fits[0]["sums"][0][5]
        assert list(_repeated(fits)) == ["Two fits share the noise of sums: their difference is exact."]

    def test_noise_of_a_few_steps_says_nothing(self):
        assert not list(_repeated([{"sums": (laplace(0, 2.0).reshape(-1, 8), np.tanh(0.25))}]))


class TestSameEdges:
    @pytest.mark.parametrize("name", ["edgerand", "lapgraph"])
    def test_small_epsilon_excludes_equal_edges_and_a_large_one_does_not(self, name):
        def chance(epsilon):
            audited = _Audited(method_named(name, epochs=1), EDGE, sf.Budget(epsilon, 0.0), None, 1.0, 0, None)
            graph = audited.small()
            return _log_chance_of_same("edges", audited.plan.fit(graph), graph)

        assert chance(2.0) < -100
        assert chance(24.0) > -1e-3


class TestReach:
    def test_perfect_scores_reach_it_and_others_stay_below(self):
        told = {"name": "shift", "knowledge": "all", "delta": 1e-6, "policy": Bonferroni()}
        perfect = audit_runs(np.ones(500), np.zeros(400), **told)
        assert perfect.epsilon_lower_bound == perfect.reach
        noise = np.random.default_rng(0).normal(size=900)
        assert audit_runs(noise[:500] + 1, noise[500:], **told).reach == perfect.reach

    def test_an_audit_names_what_it_does_not_read(self):
        method = method_named("edgerand", epochs=1)
        found = audit(method, EDGE, sf.Budget(8.0, 0.0), fits=2)
        assert found.untested == ("edge-count",)
        assert found.to_dict()["untested"] == ["edge-count"]
        assert 0 < found.reach < 8
        assert found.to_dict()["reach"] == found.reach


@pytest.mark.parametrize(
    "shown",
    [
        {"anyone": ["weights", "predictions from noisy sums and raw features"]},
        {"anyone": ["arcs of every node, not noisy"]},
        {"anyone": ["weights"], "everyone": ["raw encodings"]},
    ],
)
def test_words_of_an_audience_that_are_not_listed_are_flagged(shown):
    def broken(unit, who):
        values = SimpleNamespace(values={"who_may_see": who})
        return list(_audience(SimpleNamespace(plan=SimpleNamespace(unit=unit), certificate=values)))

    for unit in (sf.NodeLevel(max_out_degree=4), sf.EdgeLevel(directed=False)):
        assert len(broken(unit, shown)) == 1
        assert not broken(unit, {"anyone": ["weights", "noisy aggregates"], "never": []})
