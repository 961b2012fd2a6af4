"""Membership attacks find members of a model that learned noise by heart, not of a private one, and compute what they say."""

from functools import cache

import numpy as np
import pytest
from scipy.stats import norm

import sfumato as sf
from sfumato.attacks._membership import Confidence, ShadowMembership, attack_rows
from sfumato.attacks._ratios import RMIA, LiRA, population
from sfumato.attacks._scores import Scores
from sfumato.attacks._shadows import Candidates, confidence, shadow_model, shadows, without_target
from sfumato.catalog import method_named
from sfumato.errors import InputError
from sfumato.graph._graph import Graph

EACH = [Confidence(), ShadowMembership(epochs=50), LiRA(8), LiRA(8, online=False), LiRA(8, fixed_variance=False),
        RMIA(), RMIA(online=True)]  # fmt: skip


def noise(num_nodes=300, classes=3, columns=40):
    """Labels that no feature tells: whatever a model gets right it knows by heart."""
    draw = np.random.default_rng(5)
    ends = draw.integers(0, num_nodes, (2, 2 * num_nodes))
    x, y = draw.normal(size=(num_nodes, columns)).astype(np.float32), draw.integers(0, classes, num_nodes)
    graph = Graph.from_edges(*ends, num_nodes, directed=False, x=x, y=y, classes=range(classes), name="noise")
    return graph.with_split((0.4, 0.0, 0.4))


GRAPH = noise()


@cache
def fitted(private):
    unit = sf.NodeLevel(arcs="incident") if private else sf.NoPrivacy()
    budget = sf.Budget(0.2, 1e-6) if private else None
    plan = method_named("mlp", width=64).calibrate(budget, unit, GRAPH.public_facts(unit))
    return plan.fit(GRAPH)


class TestWholeAttacks:
    @pytest.mark.parametrize("attack", EACH, ids=str)
    def test_find_members_of_a_model_that_learned_by_heart(self, attack):
        attacked = attack.run(fitted(False), GRAPH, seed=0)
        assert attacked.scores.auc().low > 0.7
        (baseline,) = attacked.baselines.values()
        assert 0.35 < baseline.auc().value < 0.65
        assert (len(attacked.scores.members), len(attacked.scores.others)) == (120, 120)

    @pytest.mark.parametrize("attack", [Confidence(), ShadowMembership(epochs=50), RMIA(2)], ids=str)
    def test_find_none_of_a_private_model(self, attack):
        assert 0.3 < attack.run(fitted(True), GRAPH, seed=0).scores.auc().value < 0.7

    def test_a_shadow_model_is_made_like_the_target(self):
        target = fitted(True)
        shadow = shadow_model(target, GRAPH, seed=3)
        assert shadow.plan.method == target.plan.method
        assert (shadow.plan.unit, shadow.plan.budget) == (target.plan.unit, target.plan.budget)
        assert shadow.plan.epsilon == target.plan.epsilon


class TestCandidates:
    def test_need_labels_roles_and_both_sides(self):
        bare = Graph.from_edges([0], [1], 3, directed=False)
        with pytest.raises(InputError, match="labels of the graph"):
            Candidates.of(bare.with_roles([0, 2, 2]))
        with pytest.raises(InputError, match="roles"):
            Candidates.of(Graph.from_edges([0], [1], 3, directed=False, y=[0, 1, 1]))
        with pytest.raises(InputError, match="labeled test nodes"):
            Candidates.of(Graph.from_edges([0], [1], 3, directed=False, y=[0, 1, -1], roles=[0, 1, 2]))

    def test_confidence_is_finite_where_a_probability_is_0_or_1(self):
        said = confidence(np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], np.float32), np.array([0, 0, -1]))
        assert np.isfinite(said).all()
        assert said[0] == -said[1] > 80
        assert said[2] == 0

    def test_confidence_orders_where_1_minus_p_rounds_to_0(self):
        rows = np.array([[1.0, 1e-20], [1.0, 1e-30]], np.float32)
        low, high = confidence(rows, np.array([0, 0]))
        assert low < high

    def test_the_attacker_without_target_is_at_chance_on_average(self):
        values = [without_target(GRAPH.with_split((0.4, 0.0, 0.4), seed), seed).auc().value for seed in range(12)]
        assert abs(np.mean(values) - 0.5) < 0.06  # 4.4 standard errors of .047 / sqrt 12

    def test_shadow_models_in_pairs_hold_every_candidate_once(self):
        rows = np.concatenate(Candidates.of(GRAPH))
        models = shadows(fitted(False), GRAPH, 4, 0, None)
        trained = models.trained[:, rows]
        assert (trained[0] ^ trained[1]).all()
        assert (trained[2] ^ trained[3]).all()
        assert (trained[0] != trained[2]).any()
        assert not np.delete(models.trained, rows, axis=1).any()
        share = trained[0, : len(Candidates.of(GRAPH).members)].mean()  # inclusion does not follow the target's
        assert 0.3 < share < 0.7

    def test_the_population_is_never_trained_on_nor_asked(self):
        outside = population(GRAPH)
        assert set(np.asarray(GRAPH.roles)[outside]) == {3}
        everyone = GRAPH.with_split((0.5, 0.0, 0.5))
        with pytest.raises(InputError, match="Split off validation nodes"):
            RMIA().run(fitted(False), everyone, seed=0)


class TestShadowGraph:
    def test_takes_as_many_of_each_class_in_the_shares_of_the_target(self):
        graph = noise().with_split((0.5, 0.1, 0.4))
        drawn = ShadowMembership(num_per_class=50).shadow_graph(graph, seed=0)
        chosen = np.asarray(drawn.roles) != 3
        assert np.bincount(graph.y[chosen]).tolist() == [50, 50, 50]
        assert np.bincount(drawn.roles)[:3].tolist() == [75, 15, 60]

    def test_takes_all_of_a_class_that_has_fewer(self):
        drawn = ShadowMembership().shadow_graph(GRAPH, seed=0)
        assert (np.asarray(drawn.roles) != 3).all()
        assert ShadowMembership(epochs=1).run(fitted(False), GRAPH, seed=0).measures == {"shadow_nodes": 300.0}

    def test_roles_do_not_follow_those_of_the_target(self):
        drawn = np.asarray(ShadowMembership().shadow_graph(GRAPH, seed=0).roles)
        members = Candidates.of(GRAPH).members
        assert 0.35 < (drawn[members] == 0).mean() < 0.65


class TestLikelihoodRatios:
    target = np.array([1.0, 0.0, 3.0])
    models = np.array([[2.0, 1.0, 9.0], [4.0, 2.0, 7.0], [0.0, -1.0, 1.0], [1.0, 3.0, 5.0]])
    trained = np.array([[1, 1, 0], [1, 0, 1], [0, 1, 0], [0, 0, 1]], bool)

    def test_online_with_a_variance_for_each_node(self):
        said = LiRA(4, fixed_variance=False).ratios(self.target, self.models, self.trained)
        first = norm.logpdf(1, 3, 2**0.5) - norm.logpdf(1, 0.5, 0.5**0.5)
        second = norm.logpdf(0, 0, 2**0.5) - norm.logpdf(0, 2.5, 0.5**0.5)
        third = norm.logpdf(3, 6, 2**0.5) - norm.logpdf(3, 5, 32**0.5)
        np.testing.assert_allclose(said, [first, second, third])

    def test_fixed_variances_are_pooled_about_the_means_of_nodes(self):
        inside, outside = np.sqrt((2 + 2 + 2) / 3), np.sqrt((0.5 + 0.5 + 32) / 3)
        said = LiRA(4).ratios(self.target, self.models, self.trained)
        expected = norm.logpdf(self.target, [3, 0, 6], inside) - norm.logpdf(self.target, [0.5, 2.5, 5], outside)
        np.testing.assert_allclose(said, expected)

    def test_offline_reads_out_scores_alone(self):
        """A published implementation takes the variance of out-scores from the in-scores."""
        offline = LiRA(4, online=False)
        said = offline.ratios(self.target, self.models, self.trained)
        np.testing.assert_allclose(said, (self.target - [0.5, 2.5, 5]) / np.sqrt(11))
        wild = np.where(self.trained, 100 * self.models, self.models)
        np.testing.assert_array_equal(offline.ratios(self.target, wild, self.trained), said)

    def test_a_variance_of_0_gives_finite_scores(self):
        same = np.repeat([[1.0], [1.0], [1.0], [1.0]], 3, axis=1)
        for fixed in (True, False):
            assert np.isfinite(LiRA(4, fixed_variance=fixed).ratios(self.target, same, self.trained)).all()

    def test_settings_out_of_range_are_refused(self):
        for attack, setting in ((LiRA, {"num_shadows": 3}), (LiRA, {"num_shadows": 2}), (LiRA, {"online": 1}),
                                (RMIA, {"num_shadows": 3}), (RMIA, {"gamma": 0.5}), (RMIA, {"offline_a": 2.0})):  # fmt: skip
            with pytest.raises(InputError, match=next(iter(setting))):
                attack(**setting)


class TestPairwiseRatios:
    target, models = np.array([0.9, 0.5]), np.array([[0.8, 0.1], [0.6, 0.3], [0.4, 0.2], [0.2, 0.2]])
    trained = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], bool)

    def test_offline_reads_out_models_alone_and_a(self):
        said = RMIA(offline_a=0.3).liking(self.target, self.models, self.trained)
        np.testing.assert_allclose(said, [0.9 / (0.65 * 0.3 + 0.35), 0.5 / (0.65 * 0.2 + 0.35)])
        np.testing.assert_allclose(RMIA(offline_a=1.0).liking(self.target, self.models, self.trained), [3.0, 2.5])
        wild = np.where(self.trained, 0.01, self.models)
        np.testing.assert_array_equal(RMIA(offline_a=0.3).liking(self.target, wild, self.trained), said)

    def test_online_reads_both_sides(self):
        said = RMIA(online=True).liking(self.target, self.models, self.trained)
        np.testing.assert_allclose(said, [0.9 / 0.5, 0.5 / 0.2])

    def test_the_score_is_the_share_of_the_population_that_is_beaten(self):
        said = RMIA(gamma=2.0).beaten(np.array([0.5, 2.0, 9.0]), np.array([1.0, 0.5, 3.0, 1.5]))
        assert said.tolist() == [0.0, 0.5, 1.0]


class TestPublishedFaults:
    members, others = np.array([0.9, 0.8, 0.7, 0.6]), np.array([0.65, 0.4, 0.3, 0.2])

    def test_auc_reads_scores_and_not_hard_labels(self):
        """Published: the area under hard labels, which is the balanced accuracy."""
        assert Scores(self.members, self.others).auc().value == 15 / 16
        assert Scores(self.members > 0.5, self.others > 0.5).auc().value == 0.875
        attacked = ShadowMembership(epochs=5).run(fitted(False), GRAPH, seed=0)
        assert len(np.unique(attacked.scores.members)) > 100

    def test_nothing_is_fitted_on_what_is_queried(self):
        """Published: the scaler is fitted again on test data."""
        answers = attack_rows(fitted(False).predict_proba(GRAPH), GRAPH.y)
        known, attack = Candidates.of(GRAPH), ShadowMembership(epochs=5)
        alone = attack.log_odds(answers, known, answers[:7], seed=0)
        beside = np.vstack([answers[:7], 1000 * answers])
        np.testing.assert_allclose(attack.log_odds(answers, known, beside, seed=0)[:7], alone, rtol=1e-5)
