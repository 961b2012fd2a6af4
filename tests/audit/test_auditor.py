"""Canaries are neighbors, scores have the law that is stated, and bounds come out where they must."""

import numpy as np
import pytest
from scipy.stats import kstest

import sfumato as sf
from sfumato.audit._auditor import audit
from sfumato.audit._canaries import edge_canaries, flip, node_canaries, record_canaries
from sfumato.audit._likelihood import ALL, HopScores, row_owners
from sfumato.central._gap import GAP
from sfumato.errors import InputError
from sfumato.graph._graph import Graph
from sfumato.graph._synthetic import stochastic_block_model

EDGE, ARC = sf.EdgeLevel(directed=False), sf.EdgeLevel(directed=True)
BASE = stochastic_block_model(200, 3, mean_degree=4, num_features=8, seed=0).with_split(seed=0)
NODE_UNITS = [sf.NodeLevel(max_out_degree=3, relation=relation) for relation in ("remove", "replace")]


def arcs(graph):
    owner = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    return set(zip(owner.tolist(), graph.indices.tolist(), strict=True))


class TestCanaries:
    def test_one_coin_is_one_undirected_edge_and_no_two_meet(self):
        canaries = edge_canaries(BASE, seed=0)
        coins = flip(len(canaries), np.random.default_rng(0))
        other = coins.copy()
        other[3] = not other[3]
        u, v, _ = canaries.arcs_in[3]
        assert arcs(canaries.world(coins)) ^ arcs(canaries.world(other)) == {(u, v), (v, u)}
        ends = canaries.arcs_in[:, :2].ravel()
        assert len(np.unique(ends)) == len(ends)

    @pytest.mark.parametrize("unit", NODE_UNITS, ids=lambda unit: unit.relation)
    def test_one_coin_is_the_record_of_one_node(self, unit):
        canaries = node_canaries(Graph.from_arcs([], [], 200, directed=True, x=BASE.x, y=BASE.y, roles=BASE.roles),
                                 unit, 12, seed=0)  # fmt: skip
        every = np.ones(12, bool)
        for number in range(12):
            other = every.copy()
            other[number] = False
            one, two = canaries.world(every), canaries.world(other)
            assert {owner for owner, _ in arcs(one) ^ arcs(two)} <= {canaries.nodes[number]}
            changed = np.flatnonzero((one.x != two.x).any(axis=1) | (one.y != two.y))
            assert changed.tolist() == [canaries.nodes[number]]
        for coins, graph in ((every, canaries.graph), (~every, canaries.without)):
            world = canaries.world(coins)
            assert arcs(world) == arcs(graph)
            np.testing.assert_array_equal(world.x, graph.x)
        owners, targets = np.array(sorted(arcs(canaries.graph) | arcs(canaries.without))).T
        numbers = {node: i for i, node in enumerate(canaries.nodes.tolist())}
        for owner, target in zip(owners.tolist(), targets.tolist(), strict=True):
            if owner in numbers:
                assert row_owners(canaries)[target] == numbers[owner]

    def test_one_coin_is_one_record_with_a_column_of_its_own(self):
        canaries = record_canaries(BASE, sf.RecordLevel(), 5, seed=0)
        world = canaries.world(np.array([True, False, True, True, True]))
        empty = canaries.nodes[1]
        assert world.y[empty] == -1
        assert world.x[[empty]].nnz == 0
        assert (canaries.graph.x[:, -5:] != 0).sum(axis=0).tolist() == [[1] * 5]


@pytest.fixture(scope="module")
def scores():
    base = stochastic_block_model(6000, 3, mean_degree=4, num_features=4, seed=0).with_split(seed=0)
    canaries, method, coins = edge_canaries(base, seed=0), GAP(epochs=1), np.random.default_rng(0)
    plan = method.calibrate(sf.Budget(1.0, 1e-6), EDGE, base.public_facts(EDGE))
    scores = HopScores()
    for _ in range(2):
        heads = flip(len(canaries), coins)
        scores.add(plan.fit(canaries.world(heads)), canaries, heads, 0)
    mu = np.sqrt(2) / plan.releases[0].event.noise_multiplier
    return {key: (np.concatenate(scores.members[key]), np.concatenate(scores.others[key]))
            for key in scores.members}, mu  # fmt: skip


class TestLikelihood:
    def test_scores_are_normal_with_the_stated_shift(self, scores):
        found, mu = scores
        members, others = found[ALL, "edge"]
        assert kstest(others, "norm").pvalue > 1e-4
        assert kstest(members - mu, "norm").pvalue > 1e-4

    def test_a_near_miss_is_not_accepted(self, scores):
        found, mu = scores
        members, _ = found[ALL, "edge"]
        assert kstest(1.5 * (members - mu), "norm").pvalue < 1e-6
        assert kstest(members, "norm").pvalue < 1e-6


class TestAudit:
    def test_an_honest_method_is_not_flagged_and_says_what_was_tried(self):
        stages = []
        found = audit(GAP(epochs=1), EDGE, sf.Budget(1.0, 1e-6), size=0.02, fits=2,
                      progress=lambda stage, done, total: stages.append(stage))  # fmt: skip
        assert not found.flagged
        assert (found.method, found.claimed, found.delta) == ("gap", pytest.approx(1.0), 1e-6)
        assert 1 - sum(1 - one.confidence for one in found.evidence) == pytest.approx(found.confidence)
        assert set(stages) == {"promises", "hops"}

    def test_what_releases_nothing_has_nothing_to_attack(self):
        found = audit(sf.MLP(), EDGE, sf.Budget(1.0, 1e-6))
        assert (found.evidence, found.broken, found.epsilon_lower_bound) == ((), (), 0.0)

    def test_a_graph_of_the_caller_is_audited(self):
        found = audit(GAP(epochs=1), EDGE, sf.Budget(1.0, 1e-6), graph=BASE, fits=2)
        assert not found.flagged
        assert found.evidence[0].trials > 150

    @pytest.mark.audit
    def test_edge_canaries_reach_most_of_the_epsilon_of_gap(self):
        found = audit(GAP(epochs=1), EDGE, sf.Budget(1.0, 1e-6), fits=30)
        assert 0.85 < found.epsilon_lower_bound < 1

    @pytest.mark.parametrize("arguments", [{"fits": 1}, {"confidence": 0.4}, {"size": 0}, {"seed": -1}])
    def test_bad_arguments_are_refused(self, arguments):
        with pytest.raises(InputError, match=next(iter(arguments))):
            audit(GAP(), EDGE, sf.Budget(1.0, 1e-6), **arguments)

    def test_units_without_a_curator_are_refused(self):
        with pytest.raises(InputError, match="trusted curator"):
            audit(GAP(), sf.LocalLevel(), sf.Budget(1.0, 1e-6))
